/* A send queue that threads of the whole GPU post to, and the network card reads. The host makes it; its layout is ABI
 * (doca_gpu_dev_verbs_qp). Kernels compiled with other headers may post to the same queue, so this order binds:
 *
 *   1  claim    rsvd += n                                      slots base .. base + n - 1
 *   2  space    wait until request base + n - 1 - depth is complete
 *   3  build    write the requests
 *   4  publish  release; wait until ready == base; acquire; ready = base + n       so requests become ready in order
 *   5  ring     under the lock: if more is ready than was rung, tell the card twice, the doorbell record in between
 *
 * The doorbell before the record is there for its latency; the record, and the doorbell behind it, are what counts. Where
 * the card's register is not mapped, a host thread reads a mailbox in its place.
 *
 * No card was at hand: the bytes that these functions write are tested, a card's answer to them is not. */
#ifndef GINRS_DEVICE_GIN_GDAKI_QUEUE_CUH_
#define GINRS_DEVICE_GIN_GDAKI_QUEUE_CUH_
#include "../order.cuh"
#include "../trap.cuh"
#include "gdaki_wqe.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gdaki {

/* The layouts as far as this code uses them. */
struct CompletionQueue {
  uint8_t* entries; /* 64 bytes each */
  uint32_t number;
  uint32_t count; /* a power of two */
  uint64_t unused0;
  uint64_t done; /* requests below this are complete */
  uint64_t unused1[3];
};
struct QueuePair {
  uint64_t claimed, ready, rung;
  uint32_t number, numberShift8;
  uint32_t unused0[5];
  int lock;
  uint16_t depth, mask;
  uint8_t* requests;
  uint32_t* doorbellRecord;
  uint64_t* doorbell;
  uint64_t unused1[9];
  CompletionQueue sends, receives;
  uint32_t handler;
  uint32_t memory;
};
static_assert(sizeof(CompletionQueue) == 56 && sizeof(QueuePair) == 280, "layouts of NCCL 2.28.9");
constexpr uint32_t kHandlerDoorbell = 2; /* of QueuePair::handler; with any other the doorbell is a mailbox */

/* Who else uses a queue: nobody, the block, the GPU. */
enum Sharing { kExclusive = 0, kBlock = 1, kGpu = 2 };

/* The whole protocol in terms of three accesses, at the scope of the sharing. */
template <int sharing, typename T>
GINRS_DEVICE_FUNCTION T loadShared(T* word, cuda::memory_order order = cuda::memory_order_relaxed) {
  if (sharing == kGpu) return cuda::atomic_ref<T, cuda::thread_scope_device>(*word).load(order);
  return cuda::atomic_ref<T, cuda::thread_scope_block>(*word).load(order);
}
template <int sharing, typename T>
GINRS_DEVICE_FUNCTION T addShared(T* word, T n) {
  if (sharing == kGpu) return cuda::atomic_ref<T, cuda::thread_scope_device>(*word).fetch_add(n, cuda::memory_order_relaxed);
  if (sharing == kBlock) return cuda::atomic_ref<T, cuda::thread_scope_block>(*word).fetch_add(n, cuda::memory_order_relaxed);
  T const before = *word;
  *word = before + n;
  return before;
}
template <cuda::thread_scope scope, typename T>
GINRS_DEVICE_FUNCTION T maxScoped(T* word, T least) {
  cuda::atomic_ref<T, scope> ref(*word);
  T before = ref.load(cuda::memory_order_relaxed);
  while (before < least && !ref.compare_exchange_weak(before, least, cuda::memory_order_relaxed)) {
  }
  return before;
}
template <int sharing, typename T>
GINRS_DEVICE_FUNCTION T maxShared(T* word, T least) {
  if (sharing == kGpu) return maxScoped<cuda::thread_scope_device>(word, least);
  return maxScoped<cuda::thread_scope_block>(word, least);
}
template <int sharing>
GINRS_DEVICE_FUNCTION void fenceShared(cuda::memory_order order) {
  if (sharing == kGpu && order == cuda::memory_order_release) {
    fenceRelease<cuda::thread_scope_device>();
  } else if (sharing == kGpu) {
    cuda::atomic_thread_fence(order, cuda::thread_scope_device);
  } else {
    cuda::atomic_thread_fence(order, cuda::thread_scope_block);
  }
}

template <int sharing>
GINRS_DEVICE_FUNCTION void lock(int* word) {
  if (sharing == kExclusive) return;
  int expected = 0;
  cuda::atomic_ref<int, cuda::thread_scope_device> ref(*word);
  while (!ref.compare_exchange_weak(expected, 1, cuda::memory_order_acquire)) expected = 0;
}
template <int sharing>
GINRS_DEVICE_FUNCTION void unlock(int* word) {
  if (sharing == kExclusive) return;
  cuda::atomic_ref<int, cuda::thread_scope_device>(*word).store(0, cuda::memory_order_release);
}

/* ---- Completions. An entry's last word has the request's index, big-endian in bytes 60 and 61, and in byte 63 the
 * opcode above the owner bit, which tells one round of the ring from the next. ---- */

enum Polled { kDone = 0, kBusy = 16, kFailed = -5 }; /* 0, EBUSY, -EIO */
constexpr uint32_t kRequestError = 13;

GINRS_DEVICE_FUNCTION uint8_t* entryOf(CompletionQueue* cq, uint64_t index) {
  return cq->entries + (index & (cq->count - 1)) * 64;
}
/* Is request `index` complete? One look; orders nothing, moves nothing. An error in its place counts for it whoever's it is:
 * behind a failed request a queue pair carries out nothing more, and its later completions are errors, too. */
template <int sharing>
GINRS_DEVICE_FUNCTION int glance(CompletionQueue* cq, uint64_t index) {
  uint64_t const done = loadShared<sharing>(&cq->done);
  if (index < done) return kDone;
  uint32_t const word = loadRelaxed(reinterpret_cast<uint32_t*>(entryOf(cq, index) + 60));
  uint32_t const owner = word >> 24 & 1, opcode = word >> 28;
  if (opcode == kRequestError) return kFailed;
  if (index - done >= cq->count) return kBusy;
  return owner != uint32_t((index & cq->count) != 0) || big16(uint16_t(word)) != uint16_t(index) ? kBusy : kDone;
}
/* The same; if it is complete, what the card wrote before is visible behind this. */
template <int sharing>
GINRS_DEVICE_FUNCTION int poll(CompletionQueue* cq, uint64_t index) {
  int const state = glance<sharing>(cq, index);
  if (state != kDone) return state;
  cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_system);
  maxShared<sharing>(&cq->done, index + 1);
  return kDone;
}
/* Looks at the first request that nobody knows to be complete, and moves on behind it if it is: a failure that nobody waits
 * for is found, too. */
template <int sharing>
GINRS_DEVICE_FUNCTION bool hasFailed(CompletionQueue* cq) {
  return poll<sharing>(cq, loadShared<sharing>(&cq->done)) == kFailed;
}
template <int sharing>
GINRS_DEVICE_FUNCTION int pollUntilDone(CompletionQueue* cq, uint64_t index) {
  int state;
  do {
    state = poll<sharing>(cq, index);
    if (state == kBusy && hasFailed<sharing>(cq)) return kFailed;
  } while (state == kBusy);
  return state;
}
/* NCCL's own path: a failed request ends the kernel. Going on would report what never happened. */
GINRS_DEVICE_FUNCTION void endKernel() {
  GINRS_TRAP("GIN (GDAKI): the network card reported an error; the peer may be gone, or the address is not registered");
}
template <int sharing = kGpu>
GINRS_DEVICE_FUNCTION void waitFor(QueuePair* qp, uint64_t index) {
  if (pollUntilDone<sharing>(&qp->sends, index) != kDone) endKernel();
}

/* ---- Slots ---- */

GINRS_DEVICE_FUNCTION Segment* slotOf(QueuePair* qp, uint64_t index) {
  return reinterpret_cast<Segment*>(qp->requests + (index & qp->mask) * 64);
}
/* n <= depth. Of the device verbs' callers: a failed request frees its slot too, and whoever polls for it hears of it. */
template <int sharing>
GINRS_DEVICE_FUNCTION uint64_t claim(QueuePair* qp, uint32_t n, bool wait = true) {
  uint64_t const base = addShared<sharing>(&qp->claimed, uint64_t(n));
  uint64_t const end = base + n;
  if (wait && end > qp->depth) pollUntilDone<sharing>(&qp->sends, end - 1 - qp->depth);
  return base;
}
/* The same of GIN's operations: a kernel that only puts would never hear of it. */
template <int sharing>
GINRS_DEVICE_FUNCTION uint64_t claimAlive(QueuePair* qp, uint32_t n) {
  uint64_t const base = claim<sharing>(qp, n, false);
  uint64_t const end = base + n;
  if (end > qp->depth) waitFor<sharing>(qp, end - 1 - qp->depth);
  return base;
}
GINRS_DEVICE_FUNCTION void write(Segment* to, Segment const& from) {
  uint64_t* words = reinterpret_cast<uint64_t*>(to);
  storeRelaxed(words, from.low, from.high);
}
template <int sharing>
GINRS_DEVICE_FUNCTION void publish(QueuePair* qp, uint64_t from, uint64_t end) {
  if (sharing == kExclusive) {
    qp->ready = end;
    return;
  }
  fenceShared<sharing>(cuda::memory_order_release);
  while (loadShared<sharing>(&qp->ready) != from) {
  }
  fenceShared<sharing>(cuda::memory_order_acquire);
  if (sharing == kGpu) {
    cuda::atomic_ref<uint64_t, cuda::thread_scope_device>(qp->ready).store(end, cuda::memory_order_relaxed);
  } else {
    cuda::atomic_ref<uint64_t, cuda::thread_scope_block>(qp->ready).store(end, cuda::memory_order_relaxed);
  }
}

/* ---- The doorbell ---- */

GINRS_DEVICE_FUNCTION void storeMmio(uint64_t* word, uint64_t value) {
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__) && CUDART_VERSION >= 12020
  asm volatile("st.mmio.relaxed.sys.global.b64 [%0], %1;" ::"l"(__cvta_generic_to_global(word)), "l"(value) : "memory");
#else
  *static_cast<uint64_t volatile*>(word) = value;
#endif
}
GINRS_DEVICE_FUNCTION void ring(QueuePair* qp, uint64_t end) {
  storeMmio(qp->doorbell, doorbell(qp->numberShift8, end));
}
GINRS_DEVICE_FUNCTION void record(QueuePair* qp, uint64_t end) {
  storeRelaxed(qp->doorbellRecord, doorbellRecord(end));
}
template <int sharing>
GINRS_DEVICE_FUNCTION void submitToCard(QueuePair* qp, uint64_t end) {
  lock<sharing>(&qp->lock);
  uint64_t before = qp->rung;
  if (sharing == kExclusive) {
    if (before < end) qp->rung = end;
  } else {
    before = maxShared<sharing>(&qp->rung, end);
    fenceShared<sharing>(cuda::memory_order_acquire);
  }
  if (before < end) {
    fenceRelease<cuda::thread_scope_device>();
    ring(qp, end);
    record(qp, end);
    fenceRelease<cuda::thread_scope_device>();
    ring(qp, end);
  }
  unlock<sharing>(&qp->lock);
}
GINRS_DEVICE_FUNCTION void submitToMailbox(QueuePair* qp, uint64_t end) {
  fenceRelease<cuda::thread_scope_device>();
  maxScoped<cuda::thread_scope_system>(qp->doorbell, end);
}
template <int sharing>
GINRS_DEVICE_FUNCTION void submit(QueuePair* qp, uint64_t end) {
  if (qp->handler == kHandlerDoorbell) {
    submitToCard<sharing>(qp, end);
  } else {
    submitToMailbox(qp, end);
  }
}

}  // namespace gdaki
}  // namespace ginrs
#endif
#endif
