// expect: PTX instruction `wgmma.fence.sync.aligned` is not available on the CPU device
__device__ inline void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__global__ void k() { fence(); }
int main() { k<<<1, 1>>>(); }
