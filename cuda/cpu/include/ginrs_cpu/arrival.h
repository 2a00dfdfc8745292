/* Arriving and waiting apart from each other, counted in one word that any thread of any block may use. */
#ifndef GINRS_CPU_ARRIVAL_H_
#define GINRS_CPU_ARRIVAL_H_
#include <stdint.h>
#include "runtime.h"

namespace ginrs_cpu {
/* Phase in the high half, arrivals still missing in the low half. The last arrival starts the next phase. */
struct Arrival {
  uint64_t word;
  uint32_t expected;

  void init(uint32_t count) {
    __atomic_store_n(&expected, count, __ATOMIC_RELAXED);
    __atomic_store_n(&word, (uint64_t)count, __ATOMIC_RELEASE);
  }
  /* Counts n arrivals, and n fewer from the next phase on if `drop`. Returns the phase to wait for. */
  template <class Completion>
  uint32_t arrive(uint32_t n, bool drop, Completion completion) {
    if (drop) __atomic_fetch_sub(&expected, n, __ATOMIC_RELAXED);
    uint64_t now = __atomic_load_n(&word, __ATOMIC_RELAXED);
    for (;;) {
      const uint32_t phase = (uint32_t)(now >> 32), missing = (uint32_t)now;
      if (missing == n) {
        /* Everyone else has arrived and waits, so nobody else changes the word. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        completion();
        __atomic_store_n(&word, (uint64_t)(phase + 1) << 32 | __atomic_load_n(&expected, __ATOMIC_RELAXED),
                         __ATOMIC_RELEASE);
        return phase;
      }
      if (__atomic_compare_exchange_n(&word, &now, (uint64_t)phase << 32 | (missing - n), true, __ATOMIC_ACQ_REL,
                                      __ATOMIC_RELAXED))
        return phase;
    }
  }
  bool passed(uint32_t phase) const { return (uint32_t)(__atomic_load_n(&word, __ATOMIC_ACQUIRE) >> 32) != phase; }
  void wait(uint32_t phase) const {
    while (!passed(phase)) ginrs_cpu_yield(GINRS_CPU_WAITING);
  }
};
}  // namespace ginrs_cpu
#endif
