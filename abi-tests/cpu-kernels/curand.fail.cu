// expect: curand_kernel.h: random numbers of cuRAND are not available on the CPU device
#include <curand_kernel.h>
__global__ void k() {}
int main() {}
