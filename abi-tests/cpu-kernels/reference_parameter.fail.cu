// expect: a __global__ function cannot have a parameter of reference type
__global__ void k(const int& n) { (void)n; }
int main() { k<<<1, 1>>>(3); }
