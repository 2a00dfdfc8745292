// expect: every parameter of a __global__ function must be copyable
#include <memory>
__global__ void k(std::unique_ptr<int> p) { *p = 1; }
int main() { k<<<1, 1>>>(std::unique_ptr<int>()); }
