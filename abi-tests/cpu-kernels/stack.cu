// A CUDA thread that needs more stack than it has is told, whether a frame, recursion or alloca takes it, and whatever else lies
// there. Each case is a process of its own. (A GPU has stacks of other sizes: nothing runs there.)
#include "check.h"
#include <alloca.h>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

__device__ int sum(volatile char* bytes, int n) {
  int all = 0;
  for (int i = 0; i < n; i += 64) all += bytes[i];
  return all;
}
template <int N>
__global__ void frame(int* out) {
  volatile char large[N];
  large[threadIdx.x % N] = 1; // the lowest bytes only: what lies between is stepped over
  out[0] = large[(threadIdx.x + 5) % N];
}
__device__ __attribute__((noinline)) int deeper(int n) {
  volatile char some[200];
  for (int i = 0; i < 200; i++) some[i] = n;
  return n == 0 ? 0 : deeper(n - 1) + some[n % 200];
}
__global__ void recursion(int* out, int n) { out[0] = deeper(n); }
__global__ void dynamic(int* out, int n) {
  volatile char* bytes = (volatile char*)alloca(n);
  bytes[0] = 3;
  out[0] = sum(bytes, n);
}
// So many threads wait that most of them have no guard page.
__global__ void crowd(int* out, int n) {
  __syncthreads();
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == blockDim.x - 1) out[0] = deeper(n);
  __syncthreads();
}

struct Case {
  const char* name;
  bool overflows;
  const char *guard, *stack;
  void (*launch)(int*);
};

int main() {
  int wrong = 0;
#ifdef __GINRS_CPU__
  const Case cases[] = {
      {"a frame of 100 KB", true, nullptr, nullptr, [](int* out) { frame<100000><<<1, 1>>>(out); }},
      {"a frame of 100 KB in many threads", true, nullptr, nullptr, [](int* out) { frame<100000><<<4, 64>>>(out); }},
      {"a frame of 100 KB without guards", true, "0", nullptr, [](int* out) { frame<100000><<<1, 1>>>(out); }},
      {"a frame of 100 KB with exact guards", true, "1", nullptr, [](int* out) { frame<100000><<<1, 1>>>(out); }},
      {"a frame of 67 KB, into the red zone", true, "0", nullptr, [](int* out) { frame<67000><<<1, 1>>>(out); }},
      {"a frame of 3 MB", true, nullptr, nullptr, [](int* out) { frame<3000000><<<1, 1>>>(out); }},
      {"recursion", true, nullptr, nullptr, [](int* out) { recursion<<<1, 32>>>(out, 1000); }},
      {"recursion without guards", true, "0", nullptr, [](int* out) { recursion<<<1, 32>>>(out, 1000); }},
      {"alloca", true, nullptr, nullptr, [](int* out) { dynamic<<<1, 1>>>(out, 150000); }},
      {"alloca without guards", true, "0", nullptr, [](int* out) { dynamic<<<1, 1>>>(out, 150000); }},
      {"recursion beyond the guarded stacks", true, nullptr, nullptr, [](int* out) { crowd<<<8, 1024>>>(out, 1000); }},
      {"as much as there is", false, nullptr, nullptr, [](int* out) { frame<50000><<<2, 64>>>(out), recursion<<<1, 32>>>(out, 150), dynamic<<<1, 1>>>(out, 50000), crowd<<<8, 1024>>>(out, 100); }},
      {"a larger stack", false, nullptr, "1M", [](int* out) { frame<100000><<<2, 64>>>(out), recursion<<<1, 32>>>(out, 1000), dynamic<<<1, 1>>>(out, 150000); }},
  };
  for (const Case& one : cases) {
    int ends[2], status = -1;
    if (pipe(ends)) return 2;
    pid_t child = fork();
    if (child == 0) {
      alarm(100);
      dup2(ends[1], 2);
      close(ends[1]);
      if (one.guard) setenv("GINRS_CPU_STACK_GUARD", one.guard, 1);
      if (one.stack) setenv("GINRS_CPU_STACK", one.stack, 1);
      int* out;
      CUDA(cudaMalloc(&out, 64));
      one.launch(out);
      _exit(cudaDeviceSynchronize() != cudaSuccess);
    }
    close(ends[1]);
    std::string said;
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) said.append(part, n);
    close(ends[0]);
    waitpid(child, &status, 0);
    const bool told = said.find("stack overflow in thread (") != std::string::npos && said.find("GINRS_CPU_STACK") != std::string::npos;
    if ((status != 0) == one.overflows && told == one.overflows) continue;
    printf("%s: status %x, said\n%s\n", one.name, status, said.c_str());
    wrong++;
  }
#endif
  if (wrong == 0) printf("stack: ok\n");
  return wrong;
}
