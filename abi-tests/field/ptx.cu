// Payloads and flags by PTX, cache hints and multimem, as expert-parallel and all-reduce kernels have them: each with one mistake and mended,
// `ptx CASE`, `ptx CASE mended`; ranks as threads of one process, or as processes of ginrs-run. tests/field.rs runs them, and finds the lines
// that have to be named ("bug of: CASE"): that of the call, where a function has been inlined.
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#include "job.cuh"

typedef Buffers Job;

// Of the payload: read once, kept nowhere.
__device__ __forceinline__ int4 loadPayload(int4 const* at) {
  int4 it;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.s32 {%0, %1, %2, %3}, [%4];" : "=r"(it.x), "=r"(it.y), "=r"(it.z), "=r"(it.w) : "l"(at));
  return it;
}
__device__ __forceinline__ void storePayload(int4* at, int4 it) {
  asm volatile("st.global.L1::no_allocate.v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(it.x), "r"(it.y), "r"(it.z), "r"(it.w) : "memory");
}
__device__ __forceinline__ void storeRelease(int* at, int value) { asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory"); }
__device__ __forceinline__ int loadAcquire(int const* at) {
  int value;
  asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ __forceinline__ int4* payload(int* row) { return reinterpret_cast<int4*>(row); }

// One thread says that the payloads of all are there.
__global__ void dispatch(Job job) {
  int const i = threadIdx.x;
  storePayload(payload(rowOf(job, next(job), 4)) + i, int4{i, 1, 2, 3});  // bug of: dispatch
  if (!job.bug) __syncthreads();
  if (i == 0) storeRelease(rowOf(job, next(job), 0), 1);
  while (loadAcquire(row(job, 0)) == 0) __nanosleep(20);
  __syncthreads();
  job.out[i] = loadPayload(payload(row(job, 4)) + kThreads - 1 - i).x;  // bug of: dispatch
}

__device__ void send(ncclGin const& gin, Job const& job) {
  gin.put(ncclTeamWorld(job.comm), next(job), job.window, 8 * kRow, job.window, 0, 4 * kRow, ncclGin_SignalInc{0}, ncclGin_None{}, ncclCoopCta());  // bug of: combine, refill
}
__global__ void combine(Job job) {
  ncclGin gin(job.comm, 0);
  send(gin, job);
  if (!job.bug) gin.waitSignal(ncclCoopCta(), 0, 1);
  job.out[threadIdx.x] = loadPayload(payload(row(job, 8)) + threadIdx.x).y;  // bug of: combine
  gin.waitSignal(ncclCoopCta(), 0, 1);
  gin.flush(ncclCoopCta());
}
__global__ void refill(Job job) {
  ncclGin gin(job.comm, 0);
  send(gin, job);
  if (!job.bug) gin.flush(ncclCoopCta());
  storePayload(payload(row(job, 0)) + threadIdx.x, int4{0, 0, 0, 0});  // bug of: refill
  gin.waitSignal(ncclCoopCta(), 0, 1);
  gin.flush(ncclCoopCta());
}

// A hint is no order; who polls so behind a fence is right.
__global__ void hints(Job job) {
  int const i = threadIdx.x;
  if (blockIdx.x == 0) {
    __stcg(row(job, 4) + i, i);  // bug of: hints
    if (!job.bug) __threadfence();
    __syncthreads();
    if (i == 0) atomicExch(job.local, 1);
  } else {
    while (i == 0 && __ldcg(job.local) == 0) __nanosleep(20);
    __syncthreads();
    __threadfence();
    job.out[i] = __ldcg(row(job, 4) + i);  // bug of: hints
  }
}

// Block 0 has something for block 1, and says so to itself.
template <void (*say)(int*, bool)>
__global__ void hand(Job job) {
  int const i = threadIdx.x;
  if (blockIdx.x == 0) {
    row(job, 0)[i] = i;  // bug of: red, block
    __threadfence();
    __syncthreads();
    if (i == 0) say(job.local, job.bug);
  } else {
    while (i == 0 && loadAcquire(job.local) == 0) __nanosleep(20);
    __syncthreads();
    job.out[i] = row(job, 0)[i];  // bug of: red, block
  }
}
__device__ void red(int* flag, bool bug) {
  if (bug) asm volatile("red.release.cta.global.add.s32 [%0], 1;" ::"l"(flag) : "memory");
  else asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(flag) : "memory");
}
__device__ void block(int* flag, bool bug) {
  if (bug) atomicAdd_block(flag, 1);
  else atomicAdd(flag, 1);
}

// To another rank.
__global__ void atom(Job job) {
  if (threadIdx.x > 0) return;
  int* there = rowOf(job, next(job), 0);
  there[kThreads] = 5;  // bug of: atom
  int old;
  if (job.bug) asm volatile("atom.add.release.cta.global.s32 %0, [%1], 1;" : "=r"(old) : "l"(there) : "memory");
  else asm volatile("atom.add.release.sys.global.s32 %0, [%1], 1;" : "=r"(old) : "l"(there) : "memory");
  while (loadAcquire(row(job, 0)) == 0) __nanosleep(20);
  job.out[0] = row(job, 1)[0];  // bug of: atom
}

// What the switch reduces has been written by all ranks, and what it stores is there for all behind a barrier alone.
__global__ void reduce(Job job) {
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), job.comm, ncclTeamTagLsa(), 0);
  row(job, 0)[threadIdx.x] = job.comm.rank;  // bug of: reduce
  if (!job.bug) bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  int* all = static_cast<int*>(ncclGetLsaMultimemPointer(job.window, 0, job.comm));
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.s32 %0, [%1];" : "=r"(job.out[threadIdx.x]) : "l"(all + threadIdx.x) : "memory");  // bug of: reduce
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
__global__ void gather(Job job) {
  ncclLsaBarrierSession<ncclCoopCta> bar(ncclCoopCta(), job.comm, ncclTeamTagLsa(), 0, true);
  float* all = static_cast<float*>(ncclGetLsaMultimemPointer(job.window, job.comm.lsaRank * kRow, job.comm));
  asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(all + threadIdx.x), "f"(1.f) : "memory");  // bug of: gather
  if (!job.bug) bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  for (int from = 0; from < job.comm.lsaSize; from++) job.out[threadIdx.x] += row(job, from)[threadIdx.x];  // bug of: gather
  bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

static const struct Case { const char* name; void (*kernel)(Job); int blocks, ranks = 3; } cases[] = {
  {"dispatch", dispatch, 1}, {"combine", combine, 1}, {"refill", refill, 1}, {"hints", hints, 2}, {"red", hand<red>, 2}, {"block", hand<block>, 2},
  {"atom", atom, 1}, {"reduce", reduce, 1}, {"gather", gather, 1},
};

static void runRank(int rank, int device, int ranks, ncclUniqueId id) {
  Job job = {};
  job.bug = !mended;
  ncclComm_t comm = join(job, rank, device, ranks, id);
  ncclDevCommRequirements needs = requirements(1, 1);
  needs.lsaMultimem = true;
  CHECK(ncclDevCommCreate(comm, &needs, &job.comm));
  cases[which].kernel<<<cases[which].blocks, kThreads>>>(job);
  CHECK(cudaGetLastError());
  awaitKernels(comm, rank);
  CHECK(ncclDevCommDestroy(comm, &job.comm));
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return runCase(cases, argc, argv, runRank); }
