// The driver: getopt, a thread per rank, timing by events, capture into graphs (-g), polling for asynchronous errors.
#include "bench.h"
#include <getopt.h>
#include <nccl_device.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

static int ranks = 2, blocks = 8, launches = 0;
static size_t count = 10007;
static ncclUniqueId id;
static pthread_barrier_t together;
static int64_t badWords;
static int unsupported;

static void drain(ncclComm_t comm, cudaStream_t stream) {
  for (cudaError_t state; (state = cudaStreamQuery(stream)) != cudaSuccess; sched_yield()) {
    if (state != cudaErrorNotReady) GUARD(state);
    ncclResult_t async;
    GUARD(ncclCommGetAsyncError(comm, &async));
    GUARD(async);
  }
  (void)cudaGetLastError(); // "not ready" was one
}

static void oneCase(int rank, int variant, ncclDataType_t type, ncclComm_t comm, ncclWindow_t in, ncclWindow_t out, void* from, void* to,
                    cudaStream_t stream) {
  ncclDevComm device;
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.lsaBarrierCount = blocks;
  needs.lsaMultimem = variant == 2;
  if (variant == 2 && ncclDevCommCreate(comm, &needs, &device) != ncclSuccess) {
    if (rank == 0) unsupported++, printf("variant 2: %s\n", ncclGetLastError(comm));
    return;
  }
  if (variant != 2) GUARD(ncclDevCommCreate(comm, &needs, &device));
  int64_t* wrong;
  GUARD(cudaHostAlloc(&wrong, sizeof *wrong, cudaHostAllocMapped));
  *wrong = 0;
  GUARD(benchFill(from, count, type, rank, 77, stream));
  GUARD(cudaMemsetAsync(to, 0xee, count * 8, stream));
  GUARD(cudaStreamSynchronize(stream));
  pthread_barrier_wait(&together);
  cudaEvent_t begin, end;
  float ms = 0;
  bool ran;
  GUARD(cudaEventCreate(&begin));
  GUARD(cudaEventCreate(&end));
  if (launches > 0) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    GUARD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ran = benchEngine.run(variant, type, in, out, count, &device, blocks, stream);
    GUARD(cudaStreamEndCapture(stream, &graph));
    GUARD(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0));
    for (int i = 0; i < launches; i++) GUARD(cudaGraphLaunch(exec, stream));
    drain(comm, stream);
    GUARD(cudaGraphExecDestroy(exec));
    GUARD(cudaGraphDestroy(graph));
  } else {
    GUARD(cudaEventRecord(begin, stream));
    for (int i = 0; i < 3; i++) ran = benchEngine.run(variant, type, in, out, count, &device, blocks, stream);
    GUARD(cudaEventRecord(end, stream));
    drain(comm, stream);
    GUARD(cudaEventElapsedTime(&ms, begin, end));
  }
  GUARD(cudaGetLastError());
#ifdef PLANT
  GUARD(cudaMemsetAsync(to, 1, 1, stream));
#endif
  if (ran) GUARD(benchCheck(to, count, type, ranks, 77, wrong, stream));
  GUARD(cudaStreamSynchronize(stream));
  __atomic_fetch_add(&badWords, *wrong, __ATOMIC_RELAXED);
  if (rank == 0) printf("%s variant %d type %2d: %s %lld wrong\n", benchEngine.name, variant, type, ran ? "ran," : "no kernel,", (long long)*wrong);
  pthread_barrier_wait(&together);
  GUARD(cudaEventDestroy(begin));
  GUARD(cudaEventDestroy(end));
  GUARD(cudaFreeHost(wrong));
  GUARD(ncclDevCommDestroy(comm, &device));
}

static void* runRank(void* argument) {
  const int rank = (int)(intptr_t)argument;
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  cudaStream_t stream;
  GUARD(cudaSetDevice(rank));
  GUARD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  GUARD(ncclCommInitRankConfig(&comm, ranks, id, rank, &config));
  void *from, *to, *fromHandle, *toHandle;
  ncclWindow_t in, out;
  GUARD(ncclMemAlloc(&from, count * 8));
  GUARD(ncclMemAlloc(&to, count * 8));
  GUARD(ncclCommRegister(comm, from, count * 8, &fromHandle));
  GUARD(ncclCommRegister(comm, to, count * 8, &toHandle));
  GUARD(ncclCommWindowRegister(comm, from, count * 8, &in, NCCL_WIN_COLL_SYMMETRIC));
  GUARD(ncclCommWindowRegister(comm, to, count * 8, &out, NCCL_WIN_COLL_SYMMETRIC));
  static const ncclDataType_t types[] = {ncclInt8, ncclUint32, ncclInt64, ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat8e4m3};
  for (int variant = 0; variant < benchEngine.variants; variant++)
    for (ncclDataType_t type : types)
      if (variant < 2 || type == ncclFloat32) oneCase(rank, variant, type, comm, in, out, from, to, stream);
  // The library's own, for the types that have no kernel here.
  for (ncclDataType_t type : {ncclBfloat16, ncclFloat8e4m3}) {
    int64_t* wrong;
    GUARD(cudaMallocManaged(&wrong, sizeof *wrong));
    *wrong = 0;
    GUARD(benchFill(from, count, type, rank, 5, stream));
    GUARD(ncclAllReduce(from, to, count, type, ncclSum, comm, stream));
    GUARD(benchCheck(to, count, type, ranks, 5, wrong, stream));
    GUARD(cudaStreamSynchronize(stream));
    __atomic_fetch_add(&badWords, *wrong, __ATOMIC_RELAXED);
    GUARD(cudaFree(wrong));
  }
  GUARD(ncclCommDeregister(comm, fromHandle));
  GUARD(ncclCommDeregister(comm, toHandle));
  GUARD(ncclCommWindowDeregister(comm, in));
  GUARD(ncclCommWindowDeregister(comm, out));
  GUARD(ncclMemFree(from));
  GUARD(ncclMemFree(to));
  GUARD(ncclCommFinalize(comm));
  GUARD(ncclCommDestroy(comm));
  GUARD(cudaStreamDestroy(stream));
  return NULL;
}

int main(int argc, char** argv) {
  static const struct option options[] = {{"ranks", required_argument, 0, 'n'}, {"count", required_argument, 0, 'c'},
                                          {"blocks", required_argument, 0, 'b'}, {"graph", required_argument, 0, 'g'}, {0, 0, 0, 0}};
  for (int o; (o = getopt_long(argc, argv, "n:c:b:g:", options, NULL)) != -1;) switch (o) {
      case 'n': ranks = atoi(optarg); break;
      case 'c': count = strtoull(optarg, NULL, 0); break;
      case 'b': blocks = atoi(optarg); break;
      case 'g': launches = atoi(optarg); break;
      default: return 2;
    }
  GUARD(ncclGetUniqueId(&id));
  pthread_barrier_init(&together, NULL, ranks);
  pthread_t* threads = (pthread_t*)malloc(sizeof *threads * ranks);
  for (int r = 0; r < ranks; r++) GUARD(pthread_create(&threads[r], NULL, runRank, (void*)(intptr_t)r));
  for (int r = 0; r < ranks; r++) pthread_join(threads[r], NULL);
  free(threads);
  printf("bench: %s\n", badWords == 0 ? "ok" : "WRONG");
  return badWords != 0;
}
