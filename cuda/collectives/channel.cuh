/* Messages through the staging memory: for each ordered pair of ranks and each channel a ring of slots in the receiver's inbox.
 *
 *   sender    waits for credit, fills the next slot, publishes it
 *   receiver  waits for it, reads it, frees it
 *
 * To ranks of the LSA team the slot is filled and the counts are told by stores. To others the slot is filled in the outbox, put,
 * and the counts are told by GIN signals, which arrive behind the put. Counts outlive launches: nothing here is set up by the host
 * but zeros at the start, so a captured launch can be replayed. They are 64 bits wide and do not wrap. */
#ifndef GINRS_COLLECTIVES_CHANNEL_CUH_
#define GINRS_COLLECTIVES_CHANNEL_CUH_
#include "move.cuh"
#include "share.cuh"

namespace ginrs {
namespace coll {

/* What ranks a and b keep of messages between them: in a's memory, line (b, channel). */
struct Line {
  uint64_t published; /* slots that b has filled here; b writes */
  uint64_t pad0[3];
  uint64_t freed; /* slots of b's that b has freed; b writes */
  uint64_t pad1[3];
  uint64_t received, sent; /* own counts of both directions */
  uint64_t pad2[6];
};
static_assert(sizeof(Line) == 128, "");

/* A slot begins with the message's kind and length, so that calls that do not fit together are found. */
constexpr uint32_t kHeader = 128;

__device__ __forceinline__ uint32_t payloadOf(ginrsCollInbox const& inbox) { return inbox.slotBytes - kHeader; }
__device__ __forceinline__ uint64_t headerOf(uint32_t kind, uint64_t bytes) { return bytes << 8 | kind; }
constexpr uint32_t kPointToPoint = 255;

/* One end of one ring. Used by one thread; the block's other threads meet it before and after. */
struct End {
  ncclDevComm const& comm;
  ginrsCollInbox const& inbox;
  int const peer;
  uint32_t const channel;
  Line* const line; /* ours for the peer */

  __device__ __forceinline__ End(ncclDevComm const& comm, ginrsCollInbox const& inbox, int peer, uint32_t channel)
      : comm(comm), inbox(inbox), peer(peer), channel(channel), line(reinterpret_cast<Line*>(here(inbox.handle)) + ring(peer)) {}

  __device__ __forceinline__ char* here(uint32_t handle) const {
    return static_cast<char*>(ncclGetResourceBufferLocalPointer(comm, handle));
  }
  __device__ __forceinline__ uint64_t ring(int other) const { return uint64_t(other) * inbox.channels + channel; }
  /* Of slot number `count` of the ring with `other`, behind the start of an inbox, or of an outbox less its lines. */
  __device__ __forceinline__ uint64_t slot(int other, uint64_t count) const {
    return (ring(other) * inbox.slots + (count & (inbox.slots - 1))) * inbox.slotBytes;
  }
  __device__ __forceinline__ uint64_t lines() const { return uint64_t(comm.nRanks) * inbox.channels * sizeof(Line); }

  /* The peer's number in our LSA team, if it is in it. */
  __device__ __forceinline__ int lsaPeer() const { return peer - (comm.rank - comm.lsaRank); }
  __device__ __forceinline__ bool isNear() const { return unsigned(lsaPeer()) < unsigned(comm.lsaSize); }
  __device__ __forceinline__ char* there() const {
    return static_cast<char*>(ncclGetResourceBufferLsaPointer(comm, inbox.handle, lsaPeer()));
  }
  __device__ __forceinline__ Line* theirLine() const { return reinterpret_cast<Line*>(there()) + ring(comm.rank); }

  __device__ __forceinline__ static void tell(uint64_t* word, uint64_t value) {
    cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(*word).store(value, cuda::memory_order_release);
  }
  /* Until the word is at least `least`, or the communicator is aborted. */
  __device__ __forceinline__ void await(uint64_t* word, uint64_t least) const {
    until(
        comm, [&] { return look(word, cuda::memory_order_acquire) >= least; },
        [&] { return waitsFor(GINRS_WAITS_RANK, uint32_t(peer)); });
    settle(cuda::memory_order_acquire);
  }
  __device__ __forceinline__ ncclGin gin() const { return ncclGin(comm, int(channel)); }
  __device__ __forceinline__ ncclGinSignal_t dataSignal(int from) const { return inbox.signal0 + uint32_t(ring(from)); }
  __device__ __forceinline__ ncclGinSignal_t creditSignal(int from) const {
    return inbox.signal0 + uint32_t(comm.nRanks) * inbox.channels + uint32_t(ring(from));
  }
};

struct Outgoing : End {
  uint64_t sent;

  __device__ __forceinline__ Outgoing(ncclDevComm const& comm, ginrsCollInbox const& inbox, int peer, uint32_t channel)
      : End(comm, inbox, peer, channel), sent(line->sent) {}

  /* The payload of the next slot, once it is free. */
  __device__ __forceinline__ char* next() {
    if (isNear()) {
      if (sent >= inbox.slots) await(&line->freed, sent + 1 - inbox.slots);
      return there() + lines() + slot(comm.rank, sent) + kHeader;
    }
    if (sent >= inbox.slots) gin().waitSignal(ncclCoopThread(), creditSignal(peer), sent + 1 - inbox.slots);
    return here(inbox.outbox) + slot(peer, sent) + kHeader;
  }

  /* The slot holds `bytes` of payload; the block's threads have written them and met. */
  __device__ __forceinline__ void publish(uint64_t header, uint32_t bytes) {
    if (isNear()) {
      *reinterpret_cast<uint64_t*>(there() + lines() + slot(comm.rank, sent)) = header;
      sent++;
      tell(&theirLine()->published, sent);
    } else {
      *reinterpret_cast<uint64_t*>(here(inbox.outbox) + slot(peer, sent)) = header;
      gin().put(ncclTeamWorld(comm), peer, comm.resourceWindow, ncclGetResourceBufferOffset(inbox.handle) + lines() + slot(comm.rank, sent),
                comm.resourceWindow, ncclGetResourceBufferOffset(inbox.outbox) + slot(peer, sent), kHeader + bytes,
                ncclGin_SignalInc{dataSignal(comm.rank)});
      sent++;
    }
    line->sent = sent;
  }
};

struct Incoming : End {
  uint64_t received;

  __device__ __forceinline__ Incoming(ncclDevComm const& comm, ginrsCollInbox const& inbox, int peer, uint32_t channel)
      : End(comm, inbox, peer, channel), received(line->received) {}

  /* The payload of the next slot, once it has arrived. Traps if it is of another message than the caller's. */
  __device__ __forceinline__ char const* next(uint64_t header) {
    if (isNear()) {
      await(&line->published, received + 1);
    } else {
      gin().waitSignal(ncclCoopThread(), dataSignal(peer), received + 1);
    }
    char const* at = here(inbox.handle) + lines() + slot(peer, received);
    uint64_t const found = *reinterpret_cast<uint64_t const volatile*>(at);
    if (found != header && !isAborted(comm, true)) {
      if ((found & 255) == kPointToPoint && (header & 255) == kPointToPoint) {
        printf("ginrs: rank %d receives %llu bytes from rank %d, which sends %llu\n", comm.rank, (unsigned long long)(header >> 8), peer,
               (unsigned long long)(found >> 8));
        GINRS_TRAP("ncclRecv: the matching ncclSend has another number of bytes (count times size of the type)");
      }
      GINRS_TRAP("ranks have called different collectives, or with different counts, types or roots");
    }
    return at + kHeader;
  }

  /* The block's threads have read the slot and met. */
  __device__ __forceinline__ void free() {
    received++;
    line->received = received;
    if (isNear()) {
      tell(&theirLine()->freed, received);
    } else {
      gin().signal(ncclTeamWorld(comm), peer, ncclGin_SignalInc{creditSignal(comm.rank)});
    }
  }
};

/* ---- By all threads of a block, for one slot at a time. ---- */

/* fill(slot) writes the payload. */
template <typename Fill>
__device__ __forceinline__ void sendSlot(Outgoing& out, uint64_t header, uint32_t bytes, Fill fill) {
  __shared__ char* target;
  if (threadIdx.x == 0) target = out.next();
  __syncthreads();
  fill(target);
  __syncthreads();
  if (threadIdx.x == 0) out.publish(header, bytes);
}

__device__ __forceinline__ void receiveSlot(Incoming& in, uint64_t header, char* to, uint32_t bytes) {
  __shared__ char const* source;
  if (threadIdx.x == 0) source = in.next(header);
  __syncthreads();
  copy(Crew::block(), to, source, bytes);
  __syncthreads();
  if (threadIdx.x == 0) in.free();
}

}  // namespace coll
}  // namespace ginrs
#endif
