/* __pipeline_memcpy_async and its kin: the calling thread copies at once, so committed copies are always done. */
#ifndef GINRS_CPU_CUDA_PIPELINE_PRIMITIVES_H_
#define GINRS_CPU_CUDA_PIPELINE_PRIMITIVES_H_
#include <string.h>
#include "cuda_runtime.h"
#ifdef __CUDACC__
/* The last `zeros` of the `bytes` at the destination become 0; the rest is copied. */
inline void __pipeline_memcpy_async(void* destination, const void* source, size_t bytes, size_t zeros = 0) {
  memcpy(destination, source, bytes - zeros);
  memset((char*)destination + (bytes - zeros), 0, zeros);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t) {}
#endif
#endif
