// expect: ginrs-cc: error: <thrust/device_vector.h> is not available on the CPU device: Thrust
#include <thrust/device_vector.h>
int main() {}
