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
#include "personal.cuh"
#include "several.cuh"
#include "sums.cuh"

namespace ginrs {
namespace coll {

/* All collectives along rails, or through the scratch of one team. They are not inlined: ptxas takes
 * 20.7 s for this kernel if they are, and 7.2 s if not (sm_90). */
__device__ __forceinline__ void buffered(ginrsCollWork const& work) {
  Barrier barrier{ncclCoopCta(), work.comm, ncclTeamTagLsa(), blockIdx.x};
  Scratch scratch(work, barrier);
  switch (work.kind) {
    case GINRS_COLL_ALL_REDUCE: allReduceBuffered(work, scratch); break;
    case GINRS_COLL_REDUCE_SCATTER: reduceScatterBuffered(work, scratch); break;
    case GINRS_COLL_REDUCE: reduceByTree(work, scratch); break;
    case GINRS_COLL_ALL_GATHER: allGatherBuffered(work, scratch); break;
    case GINRS_COLL_BROADCAST: broadcastByTree(work, scratch); break;
    case GINRS_COLL_ALL_TO_ALL: allToAllAlongRails(work, scratch); break;
    case GINRS_COLL_GATHER: gatherAlongRails(work, scratch); break;
    case GINRS_COLL_SCATTER: scatterAlongRails(work, scratch); break;
    default: GINRS_TRAP("a collective that this kernel does not have");
  }
  scratch.end();
}

}  // namespace coll
}  // namespace ginrs

#define GINRS_COLL_KERNEL(name, Work, run) \
  extern "C" __global__ void __launch_bounds__(512, 1) name(__grid_constant__ const Work work) { ginrs::coll::run; }

/* Only kernels that add up are compiled for each type. */
#define GINRS_COLL_TYPE(name, T)                                                             \
  GINRS_COLL_KERNEL(ginrs_reduce_##name, ginrsMappedWork, reducingAlone<ginrs::coll::T>(work)) \
  GINRS_COLL_KERNEL(ginrs_reduce_ll_##name, ginrsCollWork, reducingLL<ginrs::coll::T>(work))

GINRS_COLL_TYPE(i8, I8)
GINRS_COLL_TYPE(i32, I32)
GINRS_COLL_TYPE(i64, I64)
GINRS_COLL_TYPE(f16, F16)
GINRS_COLL_TYPE(bf16, Bf16)
GINRS_COLL_TYPE(f32, F32)
GINRS_COLL_TYPE(f64, F64)
GINRS_COLL_TYPE(e4m3, E4m3)
GINRS_COLL_TYPE(e5m2, E5m2)

/* Several calls in one launch: only for the types of gradients, of which programs reduce many at a
 * time. */
#define GINRS_COLL_SEVERAL(name, T)                                                                    \
  GINRS_COLL_KERNEL(ginrs_several_reduce_##name, ginrsSeveralWork, reducingSeveral<ginrs::coll::T>(work)) \
  GINRS_COLL_KERNEL(ginrs_several_reduce_ll_##name, ginrsSeveralWork, reducingSeveralLL<ginrs::coll::T>(work))

GINRS_COLL_SEVERAL(f16, F16)
GINRS_COLL_SEVERAL(bf16, Bf16)
GINRS_COLL_SEVERAL(f32, F32)

GINRS_COLL_KERNEL(ginrs_buffered, ginrsCollWork, buffered(work))
GINRS_COLL_KERNEL(ginrs_copy, ginrsMappedWork, copying(work))
GINRS_COLL_KERNEL(ginrs_ll, ginrsCollWork, copyingLL(work))
GINRS_COLL_KERNEL(ginrs_several_copy, ginrsSeveralWork, copyingSeveral(work))
GINRS_COLL_KERNEL(ginrs_several_ll, ginrsSeveralWork, copyingSeveralLL(work))
GINRS_COLL_KERNEL(ginrs_multicast, ginrsCollWork, multicast(work))
GINRS_COLL_KERNEL(ginrs_p2p, ginrsP2pWork, pointToPoint(work))
#endif
