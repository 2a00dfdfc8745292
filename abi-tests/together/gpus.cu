// ginrs and NVIDIA's libnccl in one process on two GPUs: communicators, windows, device communicators and an all-reduce of both at once.
//   gpus GINRS NVIDIA local|deep
// Linked with neither of them, or with one (together.c says how the other is then loaded). docs/user/abi-policy.md has what it printed.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      fprintf(stderr, "line %d: %s is not so\n", __LINE__, #condition);     \
      exit(1);                                                              \
    }                                                                       \
  } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)

constexpr int ranks = 2, words = 1 << 16, rounds = 50;

// Each rank writes `round` into its peer's window, and after the barrier finds the peer's in its own.
__global__ void exchange(ncclDevComm comm, ncclWindow_t window, int round, int* wrong) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x};
  int* peers = (int*)ncclGetLsaPointer(window, 0, (comm.lsaRank + 1) % comm.lsaSize);
  int* own = (int*)ncclGetLocalPointer(window, 0);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) peers[i] = round * 1000 + i + comm.rank;
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  int from = (comm.lsaRank + comm.lsaSize - 1) % comm.lsaSize;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
    if (own[i] != round * 1000 + i + from) atomicAdd(wrong, 1);
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

// One library: what this program calls of it, and two ranks.
struct Library {
  void* handle;
  ncclComm_t comms[ranks];
  ncclWindow_t windows[ranks];
  ncclDevComm devComms[ranks];
  void* memory[ranks];
  float* sums[ranks];
  cudaStream_t streams[ranks];
  int* wrong[ranks];

  template <typename F>
  F find(const char* name) const {
    void* at = dlsym(handle, name);
    CHECK(at != nullptr);
    return (F)at;
  }
#define CALL(name) find<decltype(&name)>(#name)

  void begin(const char* file, int flags) {
    handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | flags);
    if (!handle) fprintf(stderr, "%s\n", dlerror());
    CHECK(handle != nullptr);
    CHECK(CALL(ncclCommInitAll)(comms, ranks, nullptr) == ncclSuccess);
    for (int i = 0; i < ranks; i++) {
      CUDA(cudaSetDevice(i));
      CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
      CUDA(cudaMalloc(&wrong[i], sizeof(int)));
      CUDA(cudaMemset(wrong[i], 0, sizeof(int)));
      CUDA(cudaMalloc(&sums[i], words * sizeof(float)));
      CHECK(CALL(ncclMemAlloc)(&memory[i], words * sizeof(int)) == ncclSuccess);
    }
    ncclDevCommRequirements requirements;
    memset(&requirements, 0, sizeof requirements);
    requirements.lsaBarrierCount = 8;
    CHECK(CALL(ncclGroupStart)() == ncclSuccess);
    for (int i = 0; i < ranks; i++)
      CHECK(CALL(ncclCommWindowRegister)(comms[i], memory[i], words * sizeof(int), &windows[i], NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess);
    CHECK(CALL(ncclGroupEnd)() == ncclSuccess);
    CHECK(CALL(ncclGroupStart)() == ncclSuccess);
    for (int i = 0; i < ranks; i++) CHECK(CALL(ncclDevCommCreate)(comms[i], &requirements, &devComms[i]) == ncclSuccess);
    CHECK(CALL(ncclGroupEnd)() == ncclSuccess);
  }

  void round(int round) {
    for (int i = 0; i < ranks; i++) {
      CUDA(cudaSetDevice(i));
      exchange<<<8, 256, 0, streams[i]>>>(devComms[i], windows[i], round, wrong[i]);
      CUDA(cudaGetLastError());
      float value = round + i;
      CUDA(cudaMemcpyAsync(sums[i] + round, &value, sizeof value, cudaMemcpyHostToDevice, streams[i]));
    }
    CHECK(CALL(ncclGroupStart)() == ncclSuccess);
    for (int i = 0; i < ranks; i++)
      CHECK(CALL(ncclAllReduce)(sums[i], sums[i], words, ncclFloat, ncclSum, comms[i], streams[i]) == ncclSuccess);
    CHECK(CALL(ncclGroupEnd)() == ncclSuccess);
  }

  void end(const char* name) {
    for (int i = 0; i < ranks; i++) {
      CUDA(cudaSetDevice(i));
      CUDA(cudaStreamSynchronize(streams[i]));
      int bad;
      float last;
      CUDA(cudaMemcpy(&bad, wrong[i], sizeof bad, cudaMemcpyDeviceToHost));
      CUDA(cudaMemcpy(&last, sums[i] + rounds - 1, sizeof last, cudaMemcpyDeviceToHost));
      CHECK(bad == 0 && last == 2 * (rounds - 1) + 1);
    }
    for (int i = 0; i < ranks; i++) CHECK(CALL(ncclDevCommDestroy)(comms[i], &devComms[i]) == ncclSuccess);
    CHECK(CALL(ncclGroupStart)() == ncclSuccess);
    for (int i = 0; i < ranks; i++) CHECK(CALL(ncclCommWindowDeregister)(comms[i], windows[i]) == ncclSuccess);
    CHECK(CALL(ncclGroupEnd)() == ncclSuccess);
    for (int i = 0; i < ranks; i++) CHECK(CALL(ncclMemFree)(memory[i]) == ncclSuccess);
    for (int i = 0; i < ranks; i++) CHECK(CALL(ncclCommDestroy)(comms[i]) == ncclSuccess);
    printf("%s: %d rounds of kernels and all-reduces on %d GPUs right\n", name, rounds, ranks);
  }
};

int main(int argc, char** argv) {
  CHECK(argc == 4);
  static Library ginrs, nvidia;
  ginrs.begin(argv[1], 0);
  nvidia.begin(argv[2], strcmp(argv[3], "deep") == 0 ? RTLD_DEEPBIND : 0);
  CHECK(dlsym(ginrs.handle, "ginrsGetVersionString") && !dlsym(nvidia.handle, "ginrsGetVersionString"));
  for (int i = 0; i < rounds; i++) {
    ginrs.round(i);
    nvidia.round(i);
  }
  ginrs.end("ginrs");
  nvidia.end("NVIDIA's");
  return 0;
}
