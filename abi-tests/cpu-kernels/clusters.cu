// Launches in clusters of several blocks: programs ask for them to have their blocks beside each other (as DeepEP does for each
// even grid), and those run. A kernel that looks at its cluster, a block of its own here, ends with a line that says so.
#include "check.h"
#include <cooperative_groups.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
namespace cg = cooperative_groups;

__global__ void meet(int* count, int* seen) {
  if (threadIdx.x == 0) atomicAdd(count, 1);
  cg::this_grid().sync();
  if (threadIdx.x == 0) seen[blockIdx.x] = *(volatile int*)count;
}
enum Look { kGroup, kRank, kBlocks, kMapa, kLooks };
__global__ void look(Look at, unsigned* out) {
  __shared__ int word;
  unsigned value = 0;
  unsigned long long other = 0;
  if (at == kGroup) value = cg::this_cluster().block_rank();
  else if (at == kRank) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(value));
  else if (at == kBlocks) asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(value));
  else asm volatile("mapa.u64 %0, %1, 0;" : "=l"(other) : "l"(&word));
  *out = value + (unsigned)(other == 0);
}
static const char* const told[kLooks] = {"this_cluster(): the launch asks", "%cluster_ctarank: the launch asks", "%cluster_nctaid.x: the launch asks", "mapa: the launch asks"};

template <class... Parameters, class... Arguments>
static cudaError_t in_clusters(unsigned blocks, unsigned of, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = of;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = 64;
  config.attrs = attributes;
  config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

// The last words of a process that looks at its cluster.
static std::string words(Look at) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    unsigned* out;
    CUDA(cudaMallocManaged(&out, sizeof *out));
    CUDA(in_clusters(2, 2, look, at, out));
    _exit(cudaDeviceSynchronize() == cudaSuccess ? 0 : 7);
  }
  close(ends[1]);
  std::string all;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) all.append(buffer, n);
  close(ends[0]);
  int status;
  CHECK(waitpid(child, &status, 0) == child && !(WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return all;
}

int main() {
  for (int at = 0; at < kLooks; at++) {
    const std::string said = words((Look)at);
    if (said.find(told[at]) == std::string::npos) return printf("clusters: %s is not in\n%s\n", told[at], said.c_str()), 1;
  }
  int *count, *seen;
  CUDA(cudaMallocManaged(&count, sizeof *count));
  CUDA(cudaMallocManaged(&seen, 4 * sizeof *seen));
  *count = 0;
  CUDA(in_clusters(4, 2, meet, count, seen));
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 4; i++) CHECK(seen[i] == 4);
  CHECK(in_clusters(3, 2, meet, count, seen) == cudaErrorInvalidClusterSize);
  CHECK(in_clusters(2, 0, meet, count, seen) == cudaErrorInvalidClusterSize);
  CHECK(in_clusters(32, 32, meet, count, seen) == cudaErrorInvalidClusterSize);
  CHECK(cudaGetLastError() == cudaErrorInvalidClusterSize);
  unsigned* out;  // alone in its cluster, a block may ask
  CUDA(cudaMallocManaged(&out, sizeof *out));
  CUDA(in_clusters(2, 1, look, kGroup, out));
  CUDA(cudaDeviceSynchronize());
  CHECK(*out == 1);
  return finish("clusters");
}
