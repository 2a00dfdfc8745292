/* A part of cuda_runtime.h by its own name. */
#include "cuda_runtime.h"
