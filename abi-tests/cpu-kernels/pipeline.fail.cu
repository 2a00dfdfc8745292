// expect: ginrs-cc: error: <cuda/pipeline> is not available on the CPU device: there is no cuda::pipeline
#include <cuda/pipeline>
int main() {}
