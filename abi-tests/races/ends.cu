// Ends that are none of the usual, while races are looked for: `ends trap`, `ends exit`; `ends left`, `ends abort` and `ends kill` (processes of
// ginrs-run -n 2); and `ends plugin FIRST SECOND`, which loads, runs and unloads two libraries of plugin.cu. tests/races.rs compiles it with
// --check=race.
#include <nccl.h>
#include <ginrs_bootstrap.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <unistd.h>

#define CHECK(call)                                                                          \
  do {                                                                                       \
    int result = int(call);                                                                  \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exit(2); \
  } while (0)

// Races, and then says that it is done, or fails.
__global__ void races(int* words, volatile int* done) {
  words[threadIdx.x] = threadIdx.x;
  words[64 + threadIdx.x] = words[63 - threadIdx.x];  // race of: trap
  __syncthreads();
  if (threadIdx.x == 0 && done == nullptr) __trap();
  if (threadIdx.x == 0) *done = 1;
}

// Puts to the other one until that has had enough, and waits for what never comes.
__global__ void exchange(ncclDevComm comm, ncclWindow_t window) {
  ncclGin gin(comm, 0);
  ncclCoopCta cta;
  int const next = (comm.rank + 1) % comm.nRanks;
  for (int i = 0; i < 50; i++) {
    gin.put(ncclTeamWorld(comm), next, window, 4096, window, 0, 256, ncclGin_SignalInc{0}, ncclGin_None{}, cta);
    gin.flush(cta);
  }
  gin.waitSignal(cta, 0, 51);
}

static int trap() {
  int* words;
  CHECK(cudaMalloc(&words, 4096));
  races<<<1, 64>>>(words, nullptr);
  printf("the kernel has failed: %d\n", cudaDeviceSynchronize() != cudaSuccess), fflush(stdout);
  return 0;
}

// Ends the process while the kernel's race is being told, by two threads at a time.
static int leave() {
  int *words, *done;
  CHECK(cudaMalloc(&words, 4096));
  CHECK(cudaMallocManaged(&done, sizeof(int)));
  races<<<1, 64>>>(words, done);
  while (*static_cast<volatile int*>(done) == 0) usleep(1000);
  usleep(200000);
  std::thread([] { exit(1); }).detach();
  usleep(100000);
  exit(1);
}

// Races, while another rank has failed.
static int left() {
  ginrsBootstrap boot;
  CHECK(ginrsBootstrapInit(&boot));
  if (boot.rank == 1) return 1;
  int *words, *done;
  CHECK(cudaMalloc(&words, 4096));
  CHECK(cudaMallocManaged(&done, sizeof(int)));
  races<<<1, 64>>>(words, done);
  CHECK(cudaDeviceSynchronize());
  return 0;
}

static int plugin(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fprintf(stderr, "%s\n", dlerror()), 2;
  int wrong = reinterpret_cast<int (*)()>(dlsym(library, "go"))();
  dlclose(library);
  return wrong;
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  if (strcmp(which, "trap") == 0) return trap();
  if (strcmp(which, "exit") == 0) return leave();
  if (strcmp(which, "left") == 0) return left();
  if (strcmp(which, "plugin") == 0 && argc > 3) return plugin(argv[2]) + plugin(argv[3]);
  ginrsBootstrap boot;
  ncclUniqueId id;
  CHECK(ginrsBootstrapInit(&boot));
  CHECK(ginrsBootstrapUniqueId(&boot, &id));
  CHECK(cudaSetDevice(boot.localRank));
  ncclComm_t comm;
  CHECK(ncclCommInitRank(&comm, boot.nRanks, id, boot.rank));
  void* memory;
  ncclWindow_t window;
  CHECK(ncclMemAlloc(&memory, 1 << 16));
  CHECK(ncclCommWindowRegister(comm, memory, 1 << 16, &window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 1, needs.ginForceEnable = true;
  ncclDevComm devComm;
  CHECK(ncclDevCommCreate(comm, &needs, &devComm));
  exchange<<<1, 64>>>(devComm, window);
  usleep(200000);
  if (boot.rank == 1 && strcmp(which, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(which, "abort") == 0) CHECK(ncclCommAbort(comm));
  cudaDeviceSynchronize();
  printf("rank %d: ended\n", boot.rank), fflush(stdout);
  return 0;
}
