// expect: a launch in device code (dynamic parallelism) is not available on the CPU device
__global__ void child() {}
__global__ void parent() { child<<<1, 1>>>(); }
int main() { parent<<<1, 1>>>(); }
