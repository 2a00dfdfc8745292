// expect: the __shared__ variable `n` has an initializer
__global__ void k() { __shared__ int n = 3; n++; }
int main() { k<<<1, 1>>>(); }
