#error "curand_kernel.h: random numbers of cuRAND are not available on the CPU device; use your own generator"
