/* The primitives; cuda::pipeline is not available on the CPU device. */
#include "cuda_pipeline_primitives.h"
