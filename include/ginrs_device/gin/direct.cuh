/* A direct context: this GPU carries out puts itself, by stores over NVLink, and adds to signals in the peer's memory.
 * Which contexts are direct the host says (GINRS_FLAG_DIRECT): for all ranks or none, because a signal word has one home.
 *
 *   step                                        by                order
 *   1  coop.sync                                all               what the group wrote to the source comes before 2
 *   2  16-byte loads and stores                 all               weak
 *   3  coop.sync                                all               2 comes before 4
 *   4  release, add to the peer's signal word   thread 0          system scope
 *   5  release, add to the own counter          thread 0          system scope
 *
 * Why a thread that acquires the signal sees the payload: PTX's causality order is transitive. Every store of step 2, by
 * whichever thread, precedes step 4 by the barrier of step 3; so do earlier puts of other threads of the kernel that the
 * caller has ordered before this one, by a barrier or by release and acquire of any scope that holds both. Step 4 is a
 * release pattern of system scope on the word that the peer acquires. So "this and all earlier puts to that peer" holds
 * without any count of puts, and for all peers at once, which is more than a proxied context promises.
 *
 * What step 2 loaded is in registers when step 3 ends: the counter, and flush, say truly that the source may be reused.
 *
 * A put that is large for its group goes through the context's queue to the copy engine, without signal or counter, for
 * only kernels add in a direct context. The calling thread waits until the host says that it has landed (acquire of the
 * consumer index), and then goes on with step 4. So puts of one thread stay in order, whichever way they take. A put that
 * leaves its windows takes that way, too: the host refuses it.
 *
 * A proxied context with GINRS_FLAG_STORES takes steps 1 to 3 for a small put to an LSA peer, and posts a descriptor of the actions
 * alone: signals are still raised by CPUs only, whatever headers the waiting kernel has. The post of a signal releases to the system
 * (queue.cuh), which is step 4's release; the host reads the descriptor, adds with release order, and the waiting kernel acquires. */
#ifndef GINRS_DEVICE_GIN_DIRECT_CUH_
#define GINRS_DEVICE_GIN_DIRECT_CUH_
#include "bounds.cuh"
#include "copy.cuh"
#include "queue.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {

/* The words that steps 4 and 5 add to, as far as the operation has any. */
struct Words {
  uint64_t *signal, *counter;
};
GINRS_DEVICE_FUNCTION Words wordsOf(void const* handle, int lsaPeer, Operation const& op) {
  using nccl::utility::loadConst;
  ginrsGinExt const* ext = extensionAt(handle);
  Words words = {nullptr, nullptr};
  if (op.hasSignal) {
    int const stride = int(loadConst(&ext->directStride4G));
    words.signal = nccl::utility::add4G(loadConst(&ext->directSignals), lsaPeer * stride) + op.signalId;
  }
  if (op.hasCounter) words.counter = loadConst(&static_cast<ncclGinProxyGpuCtx_t const*>(handle)->counters) + op.counterId;
  return words;
}

/* Steps 4 and 5. The release is never spared: alreadyReleased speaks of the source, not of earlier puts' stores. */
GINRS_DEVICE_FUNCTION void raise(Words const& words, Operation const& op) {
#ifdef __GINRS_CPU__
  if (isWrittenDown()) {
    ginrs_cpu_timeline_direct(ginrs_cpu_timeline_now(), op.bytes, op.hasSignal ? uint64_t(op.signalId) + 1 : 0, op.addend());
  }
#endif
  if (op.hasSignal) {
    fenceRelease<cuda::thread_scope_system>();
    addRelaxed(words.signal, op.addend());
  } else if (op.hasCounter) {
    fenceRelease<cuda::thread_scope_device>(); /* only this GPU waits for it */
  }
  if (op.hasCounter) addRelaxed(words.counter, 1);
}

/* An operation of a direct context by way of the queue, which takes the bytes alone; this thread carries out the actions
 * when they have landed. For large puts, and for callers of ncclGinApi_Put and _PutValue, who have registrations where an
 * address is needed. Direct contexts span the LSA team alone, so world ranks are LSA ranks. */
GINRS_DEVICE_FUNCTION void putByQueue(ncclGinCtx const& ctx, int peer, Operation const& op,
                                   cuda::thread_scope alreadyReleased) {
  if (op.bytes != 0) {
    Queue queue(ctx.handle, flagsOf(ctx), true);
    Operation payload = op;
    payload.hasSignal = payload.hasCounter = false;
    Posted posted = submit(ctx, queue, peer, payload, alreadyReleased);
    if (!posted.isQueued) return;
    if (!waitUntilComplete(ctx, queue, uint32_t(peer), posted.index + 1, cuda::memory_order_acquire)) return;
    /* Complete is also what the host refused, or could not move: then the abort was up before. */
    if (isAborted(ctx, true)) return;
  }
  raise(wordsOf(ctx.handle, peer, op), op);
}

/* What every ncclGinApi_ call that starts an operation does. */
GINRS_DEVICE_FUNCTION void start(ncclGinCtx const& ctx, int peer, Operation const& op,
                              cuda::thread_scope alreadyReleased) {
  uint32_t const flags = flagsOf(ctx);
  if ((flags & GINRS_FLAG_DIRECT) != 0) {
    putByQueue(ctx, peer, op, alreadyReleased);
  } else {
    submit(ctx, Queue(ctx.handle, flags, false), peer, op, alreadyReleased);
  }
}

/* Bytes of a put that a group of n threads copies itself. Each has 64 bytes under way, so beyond some turns the copy engine
 * is done sooner (on an H200 one thread takes 15 us for 2 KB and 734 us for 128 KB, the queue 23 us). */
GINRS_DEVICE_FUNCTION uint64_t largestOf(void const* handle, int n) {
  uint64_t const share = uint64_t(n) * 512, most = nccl::utility::loadConst(&extensionAt(handle)->storeLargest);
  return share < most ? share : most;
}

/* Contexts in which this group stores payloads itself. */
GINRS_DEVICE_FUNCTION bool isStoring(uint32_t flags) {
  return (flags & (GINRS_FLAG_DIRECT | GINRS_FLAG_STORES)) != 0;
}
/* What ncclGin does on such a context: all of an operation on a direct one, else its payload alone. `to` and `from` are addresses,
 * isWithin says that they may be used; op's windows and offsets are not. Callers have synced coop. False: it is not for this group's
 * own stores, or for nobody, and nothing was done. Callers, too, ask for all that they need to know before the first branch on any
 * of it: one trip to the L2, not three. */
template <typename Gin, typename Coop>
GINRS_DEVICE_FUNCTION bool putDirectly(Gin const& gin, Coop coop, int peer, char* to, char const* from, bool isWithin,
                                    Operation const& op) {
  Words words = wordsOf(gin._ginHandle, peer, op);
#if defined(__CUDA_ARCH__) && !defined(__GINRS_CPU__)
  /* Found out here, with the rest, and not behind the copy. A signal alone has the whole fence for it. */
  if (op.hasSignal && to != nullptr) asm volatile("" : "+l"(words.signal));
#endif
  if (!(int(isWithin) & int(areGiven(gin.comm, peer, op, gin._ginrsFlags)))) return false;
#ifdef __GINRS_CPU__
  if (isAborted(gin._makeCtx())) return true; /* cheap here; see post() */
#endif
  if (op.isInline) {
    storeBits(to, op.value, op.bytes);
  } else if (op.bytes != 0) {
    copyBytes(to, from, op.bytes, int(coop.thread_rank()), int(coop.size()));
    coop.sync();
  }
  if ((gin._ginrsFlags & GINRS_FLAG_DIRECT) != 0 && coop.thread_rank() == 0) raise(words, op);
  return true;
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
