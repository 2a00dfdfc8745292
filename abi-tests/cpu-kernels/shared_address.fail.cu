// expect: 32-bit addresses of shared memory are not available on the CPU device
__global__ void k(int* out) {
  __shared__ int s;
  unsigned address = (unsigned)__cvta_generic_to_shared(&s);
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(*out) : "r"(address));
}
int main() {}
