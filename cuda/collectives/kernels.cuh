/* The kernels, for GPUs (kernels.cu, by nvcc) and for the CPU device (cpu.cu, by ginrs-cc); with them GIN's courier. */
#ifndef GINRS_COLLECTIVES_KERNELS_CUH_
#define GINRS_COLLECTIVES_KERNELS_CUH_
/* Before all headers: waits of these kernels say whose they are (ginrs_device/gin/abort.cuh), or they would count as the program's. */
#define GINRS_OWN_KERNELS
#include "../courier.cuh"
#include "buffered.cuh"
#include "copying.cuh"
#include "direct.cuh"
#include "ll.cuh"
#include "mapped.cuh"
#include "multicast.cuh"
#include "p2p.cuh"
#include "passing.cuh"
#include "personal.cuh"
#include "several.cuh"
#include "staged.cuh"

namespace ginrs {
namespace coll {

template <typename T>
__device__ __forceinline__ void reducing(ginrsCollWork const& work) {
  switch (work.how) {
    case GINRS_COLL_LL: reducingLL<T>(work); break;
    case GINRS_COLL_DIRECT: reducingDirect<T>(work); break;
    case GINRS_COLL_BUFFERED: reducingBuffered<T>(work); break;
    default: GINRS_TRAP("a reduction in a way that this kernel does not have");
  }
}

__device__ __forceinline__ void copying(ginrsCollWork const& work) {
  switch (work.how) {
    case GINRS_COLL_DIRECT: copyingDirect(work); break;
    case GINRS_COLL_STAGED: copyingStaged(work); break;
    case GINRS_COLL_BUFFERED: copyingBuffered(work); break;
    default: GINRS_TRAP("a copying collective in a way that this kernel does not have");
  }
}

}  // namespace coll
}  // namespace ginrs

#define GINRS_COLL_REDUCE_KERNEL(name, T) \
  extern "C" __global__ void __launch_bounds__(512, 1) name(__grid_constant__ const ginrsCollWork work) { ginrs::coll::reducing<ginrs::coll::T>(work); }

GINRS_COLL_REDUCE_KERNEL(ginrs_reduce_i8, I8)
GINRS_COLL_REDUCE_KERNEL(ginrs_reduce_i32, I32)
GINRS_COLL_REDUCE_KERNEL(ginrs_reduce_i64, I64)
GINRS_COLL_REDUCE_KERNEL(ginrs_reduce_f16, F16)
GINRS_COLL_REDUCE_KERNEL(ginrs_reduce_bf16, Bf16)
GINRS_COLL_REDUCE_KERNEL(ginrs_reduce_f32, F32)
GINRS_COLL_REDUCE_KERNEL(ginrs_reduce_f64, F64)
GINRS_COLL_REDUCE_KERNEL(ginrs_reduce_e4m3, E4m3)
GINRS_COLL_REDUCE_KERNEL(ginrs_reduce_e5m2, E5m2)

/* Not a way of those: beside it they spilled several times as much. */
#define GINRS_COLL_PASSING_KERNEL(name, T) \
  extern "C" __global__ void __launch_bounds__(512, 1) name(__grid_constant__ const ginrsCollWork work) { ginrs::coll::reducingByMessages<ginrs::coll::T>(work); }

GINRS_COLL_PASSING_KERNEL(ginrs_pass_i8, I8)
GINRS_COLL_PASSING_KERNEL(ginrs_pass_i32, I32)
GINRS_COLL_PASSING_KERNEL(ginrs_pass_i64, I64)
GINRS_COLL_PASSING_KERNEL(ginrs_pass_f16, F16)
GINRS_COLL_PASSING_KERNEL(ginrs_pass_bf16, Bf16)
GINRS_COLL_PASSING_KERNEL(ginrs_pass_f32, F32)
GINRS_COLL_PASSING_KERNEL(ginrs_pass_f64, F64)
GINRS_COLL_PASSING_KERNEL(ginrs_pass_e4m3, E4m3)
GINRS_COLL_PASSING_KERNEL(ginrs_pass_e5m2, E5m2)

#define GINRS_COLL_MAPPED_KERNEL(name, T) \
  extern "C" __global__ void __launch_bounds__(512, 1) name(__grid_constant__ const ginrsMappedWork work) { ginrs::coll::reducingMapped<ginrs::coll::T>(work); }

GINRS_COLL_MAPPED_KERNEL(ginrs_mapped_i8, I8)
GINRS_COLL_MAPPED_KERNEL(ginrs_mapped_i32, I32)
GINRS_COLL_MAPPED_KERNEL(ginrs_mapped_i64, I64)
GINRS_COLL_MAPPED_KERNEL(ginrs_mapped_f16, F16)
GINRS_COLL_MAPPED_KERNEL(ginrs_mapped_bf16, Bf16)
GINRS_COLL_MAPPED_KERNEL(ginrs_mapped_f32, F32)
GINRS_COLL_MAPPED_KERNEL(ginrs_mapped_f64, F64)
GINRS_COLL_MAPPED_KERNEL(ginrs_mapped_e4m3, E4m3)
GINRS_COLL_MAPPED_KERNEL(ginrs_mapped_e5m2, E5m2)

#define GINRS_COLL_SEVERAL_KERNELS(name, T) \
  extern "C" __global__ void __launch_bounds__(512, 1) ginrs_several_ll_##name(__grid_constant__ const ginrsSeveralWork work) { ginrs::coll::reducingSeveralLL<ginrs::coll::T>(work); } \
  extern "C" __global__ void __launch_bounds__(512, 1) ginrs_several_mapped_##name(__grid_constant__ const ginrsSeveralWork work) { ginrs::coll::reducingSeveral<ginrs::coll::T>(work); }

GINRS_COLL_SEVERAL_KERNELS(i8, I8)
GINRS_COLL_SEVERAL_KERNELS(i32, I32)
GINRS_COLL_SEVERAL_KERNELS(i64, I64)
GINRS_COLL_SEVERAL_KERNELS(f16, F16)
GINRS_COLL_SEVERAL_KERNELS(bf16, Bf16)
GINRS_COLL_SEVERAL_KERNELS(f32, F32)
GINRS_COLL_SEVERAL_KERNELS(f64, F64)
GINRS_COLL_SEVERAL_KERNELS(e4m3, E4m3)
GINRS_COLL_SEVERAL_KERNELS(e5m2, E5m2)

#define GINRS_COLL_MULTICAST_KERNEL(name, T) \
  extern "C" __global__ void __launch_bounds__(512, 1) name(__grid_constant__ const ginrsCollWork work) { ginrs::coll::reducingSwitched<ginrs::coll::T>(work); }

GINRS_COLL_MULTICAST_KERNEL(ginrs_multicast_i32, I32)
GINRS_COLL_MULTICAST_KERNEL(ginrs_multicast_i64, I64)
GINRS_COLL_MULTICAST_KERNEL(ginrs_multicast_f16, F16)
GINRS_COLL_MULTICAST_KERNEL(ginrs_multicast_bf16, Bf16)
GINRS_COLL_MULTICAST_KERNEL(ginrs_multicast_f32, F32)
GINRS_COLL_MULTICAST_KERNEL(ginrs_multicast_f64, F64)

extern "C" __global__ void __launch_bounds__(512, 1) ginrs_copy(__grid_constant__ const ginrsCollWork work) { ginrs::coll::copying(work); }
/* Not a way of ginrs_copy: beside it that spilled half as much again. */
extern "C" __global__ void __launch_bounds__(512, 1) ginrs_personal(__grid_constant__ const ginrsCollWork work) { ginrs::coll::alongRails(work); }
extern "C" __global__ void __launch_bounds__(512, 1) ginrs_ll(__grid_constant__ const ginrsCollWork work) { ginrs::coll::copyingLL(work); }
extern "C" __global__ void __launch_bounds__(512, 1) ginrs_mapped(__grid_constant__ const ginrsMappedWork work) { ginrs::coll::copyingMapped(work); }
extern "C" __global__ void __launch_bounds__(512, 1) ginrs_several_ll(__grid_constant__ const ginrsSeveralWork work) { ginrs::coll::copyingSeveralLL(work); }
extern "C" __global__ void __launch_bounds__(512, 1) ginrs_several_copy(__grid_constant__ const ginrsSeveralWork work) { ginrs::coll::copyingSeveral(work); }
extern "C" __global__ void __launch_bounds__(512, 1) ginrs_multicast(__grid_constant__ const ginrsCollWork work) { ginrs::coll::gatheringSwitched(work); }
extern "C" __global__ void __launch_bounds__(512, 1) ginrs_p2p(__grid_constant__ const ginrsP2pWork work) { ginrs::coll::pointToPoint(work); }
#endif
