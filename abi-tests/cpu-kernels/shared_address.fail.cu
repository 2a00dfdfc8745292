// expect: a 32-bit address is one of shared memory; say .shared, or use a pointer
__global__ void k(int* out) {
  __shared__ int s;
  unsigned address = (unsigned)__cvta_generic_to_shared(&s);
  asm volatile("ld.s32 %0, [%1];" : "=r"(*out) : "r"(address));
}
int main() { k<<<1, 1>>>(nullptr); }
