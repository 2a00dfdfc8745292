/* GIN's operations on queue pairs that the GPU drives: which requests each comes to.
 *
 *   put        a WRITE for each GiB, or a NOP for no bytes
 *   putValue   a WRITE with the value in it
 *   signal     behind that, a FETCH_ADD on the peer's signal word: a queue pair executes in order
 *   counter    on a second queue pair, which leads back to this rank: WAIT for the last request of the first, then a
 *              FETCH_ADD on the own counter word
 *
 * Addresses are offsets from where a registration begins. */
#ifndef GINRS_DEVICE_GIN_GDAKI_PUT_CUH_
#define GINRS_DEVICE_GIN_GDAKI_PUT_CUH_
#include "gdaki_queue.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gdaki {

/* A place that a request reads or writes. */
struct Place {
  uint64_t address = 0;
  uint32_t key = 0; /* swapped */
};

/* What one call asks for. */
struct Transfer {
  Place to, from;
  uint64_t bytes = 0;
  bool hasPayload = false;
  bool isInline = false; /* the bytes are in `value` */
  uint64_t value = 0;
  bool hasAdd = false;
  Place addTo, sink;
  uint64_t addend = 0;
};

GINRS_DEVICE_FUNCTION void writeNop(QueuePair* qp, uint64_t index) {
  write(slotOf(qp, index), control(qp->numberShift8, index, kNop, 1));
}
GINRS_DEVICE_FUNCTION void writePut(QueuePair* qp, uint64_t index, Place to, Place from, uint32_t bytes) {
  Segment* slot = slotOf(qp, index);
  write(slot, control(qp->numberShift8, index, kWrite, 3));
  write(slot + 1, remote(to.address, to.key));
  write(slot + 2, local(from.address, from.key, bytes));
}
GINRS_DEVICE_FUNCTION void writeValue(QueuePair* qp, uint64_t index, Place to, uint64_t value, uint32_t bytes) {
  Segment* slot = slotOf(qp, index);
  write(slot, control(qp->numberShift8, index, kWrite, 3));
  write(slot + 1, remote(to.address, to.key));
  write(slot + 2, inlined(value, bytes));
}
GINRS_DEVICE_FUNCTION void writeAdd(QueuePair* qp, uint64_t index, Place to, Place sink, uint64_t addend) {
  Segment* slot = slotOf(qp, index);
  write(slot, control(qp->numberShift8, index, kFetchAdd, 4));
  write(slot + 1, remote(to.address, to.key));
  write(slot + 2, operands(addend, 0));
  write(slot + 3, local(sink.address, sink.key, 8));
}
GINRS_DEVICE_FUNCTION void writeWait(QueuePair* qp, uint64_t index, QueuePair* other, uint64_t otherIndex) {
  Segment* slot = slotOf(qp, index);
  write(slot, control(qp->numberShift8, index, kWait, 2));
  write(slot + 1, waitFor(uint32_t(otherIndex), other->sends.number));
}

/* Starts the transfer; the index of its last request. Claims that do not fit the queue at once go in turns. */
template <int sharing>
GINRS_DEVICE_FUNCTION uint64_t post(QueuePair* qp, Transfer const& t) {
  uint64_t const pieces = !t.hasPayload ? 0 : t.isInline ? 1 : piecesOf(t.bytes);
  uint64_t const total = pieces + (t.hasAdd ? 1 : 0);
  uint64_t sent = 0, end = 0;
  do {
    uint32_t const n = uint32_t(total - sent < qp->depth ? total - sent : qp->depth);
    uint64_t const base = claimAlive<sharing>(qp, n);
    for (uint64_t index = base; index < base + n; index++, sent++) {
      uint64_t const at = sent << kPieceShift;
      if (sent == pieces) {
        writeAdd(qp, index, t.addTo, t.sink, t.addend);
      } else if (t.isInline) {
        writeValue(qp, index, t.to, t.value, uint32_t(t.bytes));
      } else if (t.bytes == 0) {
        writeNop(qp, index);
      } else {
        uint64_t const left = t.bytes - at, most = uint64_t(1) << kPieceShift;
        writePut(qp, index, {t.to.address + at, t.to.key}, {t.from.address + at, t.from.key},
                 uint32_t(left < most ? left : most));
      }
    }
    end = base + n;
    publish<sharing>(qp, base, end);
    if (sent < total) submit<sharing>(qp, end);
  } while (sent < total);
  return end - 1;
}

/* Once request `last` of qp is complete, the companion adds to a word of this rank's. Claimed, built and published; the
 * end of its requests. */
template <int sharing>
GINRS_DEVICE_FUNCTION uint64_t postCount(QueuePair* companion, QueuePair* qp, uint64_t last, Place counter, Place sink,
                                      uint64_t addend) {
  uint64_t const base = claimAlive<sharing>(companion, 2);
  writeWait(companion, base, qp, last);
  writeAdd(companion, base + 1, counter, sink, addend);
  publish<sharing>(companion, base, base + 2);
  return base + 2;
}

/* Ends the kernel if a request has failed. */
GINRS_DEVICE_FUNCTION void endIfFailed(QueuePair* qp) {
  if (loadShared<kGpu>(&qp->sends.done) < loadShared<kGpu>(&qp->claimed) && hasFailed<kGpu>(&qp->sends)) endKernel();
}

/* Everything that any thread has claimed so far is complete. Not the companion's requests. */
GINRS_DEVICE_FUNCTION void flush(QueuePair* qp) {
  uint64_t const claimed = loadShared<kGpu>(&qp->claimed);
  if (claimed != 0) waitFor(qp, claimed - 1);
}

}  // namespace gdaki
}  // namespace ginrs
#endif
#endif
