// A failed assert() in a kernel is cudaErrorAssert, whoever included <cassert> and however often; one on a host thread ends
// the process, as without a device. Each case is a process of its own: nvcc's kernels lose their context with the first.
#include <cassert>
#include "check.h"
#undef NDEBUG
#include <cassert>
#include <csignal>
#include <functional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

__host__ __device__ inline int small(int v) {
  assert(v < 4 && "small");
  return v;
}
struct Guard {
  int limit;
  __host__ __device__ void check(int v) const noexcept { assert(v != limit); }
};
__global__ void called(int* out, int from) { out[threadIdx.x] = small((int)threadIdx.x + from); }
__global__ void member(Guard guard) { guard.check((int)threadIdx.x); }

// The status with which a process ends that runs f.
static int ends(const std::function<int()>& f) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    _exit(f());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

int main() {
  const int kernel = ends([] {
    int* out;
    CUDA(cudaMalloc(&out, 64 * sizeof *out));
    called<<<1, 4>>>(out, 0);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    called<<<2, 32>>>(out, 0);
    if (cudaDeviceSynchronize() != cudaErrorAssert) return 2;
    return cudaGetLastError() == cudaErrorAssert ? 0 : 3;
  });
  const int inside = ends([] {
    member<<<1, 8>>>(Guard{8});
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    member<<<1, 8>>>(Guard{7});
    return cudaDeviceSynchronize() == cudaErrorAssert ? 0 : 2;
  });
  const int host = ends([] { return small(4); });
  const bool right = kernel == 0 && inside == 0 && WIFSIGNALED(host) && WTERMSIG(host) == SIGABRT;
  if (right) puts("asserts: ok");
  else printf("asserts: kernel %#x, member %#x, host %#x\n", kernel, inside, host);
  return !right;
}
