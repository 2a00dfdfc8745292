// A device function that another file calls.
#include "kernel.cuh"

__device__ int doubled(int value) { return 2 * value; }
