/* Step 6 of a put: the words in which signals and counters arrive, and waiting on them. A signal is raised only after
 * the payloads of its own put and of all earlier ones to that peer on that context have landed, so an acquiring load
 * that sees it may read them. */
#ifndef GINRS_DEVICE_GIN_SIGNAL_CUH_
#define GINRS_DEVICE_GIN_SIGNAL_CUH_
#include "../order.cuh"
#include "abort.cuh"
#include "queue.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {

/* Null is a word that the devcomm was not given (bounds.cuh): it reads as 0, and nobody waits for it. */
GINRS_DEVICE_FUNCTION uint64_t readWord(uint64_t* word, cuda::memory_order order) {
  if (word == nullptr) return 0;
  return SystemU64(*word).load(nccl::utility::acquireOrderOf(order));
}

/* Until the word's low `bits` bits have reached `least`, rolling. The value seen last, all of its bits: below `least`
 * only if the communicator was aborted. `lookAround` is called once a millisecond. */
template <typename LookAround>
GINRS_DEVICE_FUNCTION uint64_t waitWord(ncclGinCtx const& ctx, uint64_t* word, uint64_t least, int bits,
                                     cuda::memory_order order, LookAround&& lookAround) {
  if (word == nullptr) return 0;
  order = nccl::utility::acquireOrderOf(order);
  uint64_t value = 0;
  until(
      ctx, [&] { return nccl::utility::rollingLessEq(least, value = look(word, order), bits); },
      [&] {
        lookAround();
        return waitsFor(GINRS_WAITS_WORD, 0, word, least, bits);
      });
  settle(order);
  return value;
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
