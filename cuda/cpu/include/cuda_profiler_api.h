/* cudaProfilerStart and cudaProfilerStop are in cuda_runtime_api.h; on the CPU device they do nothing. */
#include "cuda_runtime_api.h"
