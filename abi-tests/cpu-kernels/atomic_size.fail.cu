// expect: cuda::atomic on the CPU device: types of 1, 2, 4 or 8 bytes
#include <cuda/atomic>
struct Three { char c[3]; };
__global__ void k(Three* p) { cuda::atomic_ref<Three>(*p).load(); }
int main() { k<<<1, 1>>>(nullptr); }
