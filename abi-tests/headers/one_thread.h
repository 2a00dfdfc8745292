#ifndef HEADERS_ONE_THREAD_H_
#define HEADERS_ONE_THREAD_H_
#include <ginrs_cpu/runtime.h>
/* From now on the calling thread is the one CUDA thread of block `block`. */
void becomeBlock(unsigned block);
extern unsigned long yields; /* calls of ginrs_cpu_yield so far */
#endif
