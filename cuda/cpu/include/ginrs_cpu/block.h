/* __syncthreads and its reductions. */
#ifndef GINRS_CPU_BLOCK_H_
#define GINRS_CPU_BLOCK_H_
#include "thread.h"

inline void __syncthreads(GINRS_CPU_SITE) { ginrs_cpu_barrier(0, 0, "__syncthreads", file, line); }
inline int __syncthreads_count(int predicate, GINRS_CPU_SITE) {
  return ginrs_cpu_barrier_reduce(predicate, GINRS_CPU_REDUCE_COUNT, "__syncthreads_count", file, line);
}
inline int __syncthreads_and(int predicate, GINRS_CPU_SITE) {
  return ginrs_cpu_barrier_reduce(predicate, GINRS_CPU_REDUCE_AND, "__syncthreads_and", file, line);
}
inline int __syncthreads_or(int predicate, GINRS_CPU_SITE) {
  return ginrs_cpu_barrier_reduce(predicate, GINRS_CPU_REDUCE_OR, "__syncthreads_or", file, line);
}
/* Names that compilers offer for bar.sync id, count. */
inline void __barrier_sync(unsigned id, GINRS_CPU_SITE) { ginrs_cpu_barrier(id, 0, "__barrier_sync", file, line); }
inline void __barrier_sync_count(unsigned id, unsigned count, GINRS_CPU_SITE) {
  ginrs_cpu_barrier(id, count, "__barrier_sync_count", file, line);
}
#endif
