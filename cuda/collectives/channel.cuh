/* Messages between ranks: rings of slots in the receiver's inbox.
 *
 *   sender    waits for credit, fills the next slot, publishes it
 *   receiver  waits for it, reads it, frees it
 *
 * To ranks of the LSA team the slot is filled and the counts are told by stores. To others an outgoing slot is filled and put, and the
 * counts are told by GIN signals, which arrive behind the put. Counts outlive launches: nothing here is set up by the host
 * but zeros at the start, so a captured launch can be replayed. They are 64 bits wide and do not wrap.
 *
 * All threads of a Coop, a block or a group, have the same end of a ring, as a value, and open and close its slots together; the first one
 * waits and tells. */
#ifndef GINRS_COLLECTIVES_CHANNEL_CUH_
#define GINRS_COLLECTIVES_CHANNEL_CUH_
#include "move.cuh"
#include "share.cuh"

namespace ginrs {
namespace coll {

/* What a rank keeps of the two rings that have one number, the one it sends in and the one it receives from. */
struct Line {
  uint64_t published; /* slots that the sender has filled here; it writes */
  uint64_t pad0[3];
  uint64_t freed; /* slots of ours that the receiver has freed; it writes */
  uint64_t place, told; /* where it wants the message that begins with slot number told - 1 (seenAt), or 0; it writes, `told` last */
  uint64_t pad1;
  uint64_t received, sent; /* own counts of both */
  uint64_t pad2[6];
};
static_assert(sizeof(Line) == 128, "");

/* A slot begins with the message's kind and length, so that calls that do not fit together are found; at the end of its head, of which
 * only that travels. */
constexpr uint32_t kHeader = 128, kTravels = 16;

__device__ __forceinline__ uint32_t payloadOf(ginrsCollInbox const& inbox) { return inbox.slotBytes - kHeader; }
__device__ __forceinline__ uint64_t headerOf(uint32_t kind, uint64_t bytes) { return bytes << 8 | kind; }
/* What all ranks have to call alike. */
__device__ __forceinline__ uint64_t callOf(ginrsCollWork const& work) {
  return headerOf(work.kind, work.count * work.eltBytes) ^ uint64_t(work.root) << 56;
}
__device__ __forceinline__ void refuseCall() { GINRS_TRAP("ranks have called different collectives, or with different counts, types or roots"); }
constexpr uint32_t kPointToPoint = 255;
/* In two slots without a payload: a message that goes straight to where it is received is about to, and has. */
constexpr uint32_t kStraight = 254;

/* Where this rank's kernels see what `rank` has told of. */
__device__ __forceinline__ uint64_t seenAt(ncclDevComm const& comm, uint64_t told, int rank) {
  if (told >> 63 == 0) return told;
  return reinterpret_cast<uint64_t>(ncclGetResourceBufferLsaPointer(comm, 0, rank)) + uint64_t(int64_t(told << 1) >> 1);
}

/* One ring: its number here and at the peer. */
struct Ring {
  int peer; /* world rank */
  uint32_t here, there;
  bool near; /* the peer is in our LSA team */

  static __device__ __forceinline__ bool isNear(ncclDevComm const& comm, int peer) {
    return unsigned(peer - (comm.rank - comm.lsaRank)) < unsigned(comm.lsaSize);
  }
  /* Between any two ranks: each calls it by the other's rank. */
  static __device__ __forceinline__ Ring ofPair(ncclDevComm const& comm, int peer) {
    return {peer, uint32_t(peer), uint32_t(comm.rank), isNear(comm, peer)};
  }
  /* The same where all ranks are in one LSA team: what GIN would need is not in the code. */
  static __device__ __forceinline__ Ring ofNear(ncclDevComm const& comm, int peer) { return {peer, uint32_t(peer), uint32_t(comm.rank), true}; }

  /* Between two teams of a rail: by the distance from sender to receiver, which is a power of two forwards, or backwards. */
  static __device__ __forceinline__ uint32_t ofDistance(uint32_t distance, uint32_t teams) {
    bool const forwards = (distance & (distance - 1)) == 0;
    uint32_t const steps = forwards ? distance : teams - distance;
    uint32_t exponent = 0;
    while (steps >> exponent > 1) exponent++;
    return 2 * exponent + (forwards ? 0 : 1);
  }
  static __device__ __forceinline__ Ring toTeam(ncclDevComm const& comm, int team) {
    int const teams = comm.nRanks / comm.lsaSize, own = comm.rank / comm.lsaSize;
    uint32_t const number = ofDistance(uint32_t(team < own ? team - own + teams : team - own), teams);
    return {team * comm.lsaSize + comm.lsaRank, number, number, team == own};
  }
  static __device__ __forceinline__ Ring fromTeam(ncclDevComm const& comm, int team) {
    int const teams = comm.nRanks / comm.lsaSize, own = comm.rank / comm.lsaSize;
    uint32_t const number = ofDistance(uint32_t(own < team ? own - team + teams : own - team), teams);
    return {team * comm.lsaSize + comm.lsaRank, number, number, team == own};
  }
};

/* Whether what is left of a call has any use: asked between slices. Behind an abort nothing holds a block up any more, and it would go through
 * all of its bytes. A GPU has done that in milliseconds, and its threads would have to agree; on the CPU device it takes as long as the call,
 * and a block that moves bytes has one thread. */
__device__ __forceinline__ bool hasUse(ncclDevComm const& comm) {
#ifdef __GINRS_CPU__
  return !isAborted(comm, true);
#else
  return true;
#endif
}

/* By one thread: until the word is at least `least`, or the communicator is aborted. `rank` is who counts it up. */
__device__ __forceinline__ void awaitCount(ncclDevComm const& comm, uint64_t* word, uint64_t least, uint32_t rank) {
  until(
      comm, [&] { return look(word, cuda::memory_order_acquire) >= least; }, [&] { return waitsFor(GINRS_WAITS_RANK, rank); });
  settle(cuda::memory_order_acquire);
}

/* Transfers to and from a rank of another LSA team, by one thread. Not inlined: they are long, and
 * a kernel has several calls of each. */
__device__ __noinline__ void awaitSignal(ncclDevComm const& comm, uint32_t channel, ncclGinSignal_t signal, uint64_t least) {
  ncclGin(comm, int(channel)).waitSignal(ncclCoopThread(), signal, least);
}
__device__ __noinline__ void putSlot(ncclDevComm const& comm, uint32_t channel, int peer, ncclWindow_t window, uint64_t to, uint64_t from, uint64_t bytes,
                                     ncclGinSignal_t signal) {
  ncclGin(comm, int(channel)).put(ncclTeamWorld(comm), peer, window, to, window, from, bytes, ncclGin_SignalInc{signal});
}
__device__ __noinline__ void addCredit(ncclDevComm const& comm, uint32_t channel, int peer, ncclGinSignal_t signal, uint32_t slots) {
  ncclGin(comm, int(channel)).signal(ncclTeamWorld(comm), peer, ncclGin_SignalAdd{signal, slots});
}

/* One end of one channel of a ring. */
struct End {
  Ring ring;
  uint32_t channel;
  uint64_t count; /* of slots that this end is done with */

  /* The peer's number in our LSA team, if it is in it. */
  __device__ __forceinline__ int lsaPeer(ncclDevComm const& comm) const { return ring.peer - (comm.rank - comm.lsaRank); }

  __device__ __forceinline__ static char* here(ncclDevComm const& comm, uint32_t handle) {
    return static_cast<char*>(ncclGetResourceBufferLocalPointer(comm, handle));
  }
  __device__ __forceinline__ char* there(ncclDevComm const& comm, ginrsCollInbox const& inbox) const {
    return static_cast<char*>(ncclGetResourceBufferLsaPointer(comm, inbox.handle, lsaPeer(comm)));
  }
  __device__ __forceinline__ uint64_t index(ginrsCollInbox const& inbox, uint32_t ring) const { return uint64_t(ring) * inbox.channels + channel; }
  __device__ __forceinline__ Line* line(ncclDevComm const& comm, ginrsCollInbox const& inbox) const {
    return reinterpret_cast<Line*>(here(comm, inbox.handle)) + index(inbox, ring.here);
  }
  __device__ __forceinline__ Line* theirLine(ncclDevComm const& comm, ginrsCollInbox const& inbox) const {
    return reinterpret_cast<Line*>(there(comm, inbox)) + index(inbox, ring.there);
  }
  __device__ __forceinline__ static uint64_t lines(ginrsCollInbox const& inbox) { return uint64_t(inbox.rings) * inbox.channels * sizeof(Line); }
  /* The next slot of the ring with that number, behind the lines, or from the start of all incoming or outgoing ones. */
  __device__ __forceinline__ uint64_t slot(ginrsCollInbox const& inbox, uint32_t ring) const {
    return (index(inbox, ring) * inbox.slots + (count & (inbox.slots - 1))) * inbox.slotBytes;
  }

  /* So many slots a receiver in another team frees before it says so, where it has many: to say so is a message. Whoever sends no more ahead
   * of what it receives than the other half (rail.cuh) always finds one in the end. */
  __device__ __forceinline__ static uint32_t together(ginrsCollInbox const& inbox) { return inbox.slots > 4 ? inbox.slots / 2 : 1; }

  /* Where in the window that GIN carries. */
  __device__ __forceinline__ uint64_t incoming(ginrsCollInbox const& inbox, uint32_t ring) const { return inbox.incoming * 128ull + slot(inbox, ring); }
  __device__ __forceinline__ uint64_t outgoing(ginrsCollInbox const& inbox) const { return inbox.outgoing * 128ull + slot(inbox, ring.here); }

  __device__ __forceinline__ static void tell(uint64_t* word, uint64_t value) {
    cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(*word).store(value, cuda::memory_order_release);
  }
  __device__ __forceinline__ void await(ncclDevComm const& comm, uint64_t* word, uint64_t least) const {
    awaitCount(comm, word, least, uint32_t(ring.peer));
  }
  __device__ __forceinline__ ncclGinSignal_t dataSignal(ginrsCollInbox const& inbox, uint32_t ring) const {
    return inbox.signal0 + uint32_t(index(inbox, ring));
  }
  __device__ __forceinline__ ncclGinSignal_t creditSignal(ginrsCollInbox const& inbox, uint32_t ring) const {
    return inbox.signal0 + inbox.rings * inbox.channels + uint32_t(index(inbox, ring));
  }
};

struct Outgoing : End {
  __device__ __forceinline__ Outgoing(ncclDevComm const& comm, ginrsCollInbox const& inbox, Ring ring, uint32_t channel) : End{ring, channel, 0} {
    count = line(comm, inbox)->sent;
  }

  /* The payload of the next slot, once it is free. */
  template <typename Coop>
  __device__ __forceinline__ char* open(Coop coop, ncclDevComm const& comm, ginrsCollInbox const& inbox) const {
    if (coop.thread_rank() == 0 && count >= inbox.slots) {
      uint64_t const least = count + 1 - inbox.slots;
      if (ring.near) {
        await(comm, &line(comm, inbox)->freed, least);
      } else {
        awaitSignal(comm, channel, creditSignal(inbox, ring.here), least);
      }
    }
    coop.sync();
    return (ring.near ? there(comm, inbox) + lines(inbox) + slot(inbox, ring.there) : inbox.base + outgoing(inbox)) + kHeader;
  }

  /* The slot holds `bytes` of payload. */
  template <typename Coop>
  __device__ __forceinline__ void close(Coop coop, ncclDevComm const& comm, ginrsCollInbox const& inbox, uint64_t header, uint32_t bytes) {
    /* Before they meet: whoever makes this end anew behind it reads the new count. */
    if (coop.thread_rank() == 0) line(comm, inbox)->sent = count + 1;
    coop.sync();
    if (coop.thread_rank() == 0) {
      if (ring.near) {
        *reinterpret_cast<uint64_t*>(there(comm, inbox) + lines(inbox) + slot(inbox, ring.there) + kHeader - kTravels) = header;
        tell(&theirLine(comm, inbox)->published, count + 1);
      } else {
        uint64_t const from = outgoing(inbox) + kHeader - kTravels, to = incoming(inbox, ring.there) + kHeader - kTravels;
        *reinterpret_cast<uint64_t*>(inbox.base + from) = header;
        putSlot(comm, channel, ring.peer, inbox.window, to, from, kTravels + bytes, dataSignal(inbox, ring.there));
      }
    }
    count++;
  }

  /* Within the team, behind the slot that announces a message: where the receiver wants it, once it has told; null if it has no such place, or behind an abort. */
  template <typename Coop>
  __device__ __forceinline__ char* place(Coop coop, ncclDevComm const& comm, ginrsCollInbox const& inbox) const {
    Line* const own = line(comm, inbox);
    if (coop.thread_rank() == 0) await(comm, &own->told, count);
    coop.sync();
    if (loadRelaxed(&own->told) != count) return nullptr;
    return reinterpret_cast<char*>(seenAt(comm, loadRelaxed(&own->place), lsaPeer(comm)));
  }
};

struct Incoming : End {
  __device__ __forceinline__ Incoming(ncclDevComm const& comm, ginrsCollInbox const& inbox, Ring ring, uint32_t channel) : End{ring, channel, 0} {
    count = line(comm, inbox)->received;
  }

  /* The payload of the next slot, once it has arrived. Traps if it is of another message than the caller's, which may come in either of two ways. */
  template <typename Coop>
  __device__ __forceinline__ char const* open(Coop coop, ncclDevComm const& comm, ginrsCollInbox const& inbox, uint64_t header) const {
    return open(coop, comm, inbox, header, header);
  }
  template <typename Coop>
  __device__ __forceinline__ char const* open(Coop coop, ncclDevComm const& comm, ginrsCollInbox const& inbox, uint64_t header, uint64_t other) const {
    char const* const at = (ring.near ? here(comm, inbox.handle) + lines(inbox) + slot(inbox, ring.here) : inbox.base + incoming(inbox, ring.here)) + kHeader;
    if (coop.thread_rank() == 0) {
      if (ring.near) {
        await(comm, &line(comm, inbox)->published, count + 1);
      } else {
        awaitSignal(comm, channel, dataSignal(inbox, ring.here), count + 1);
      }
      uint64_t const found = *reinterpret_cast<uint64_t const volatile*>(at - kTravels);
      if (found != header && found != other && !isAborted(comm, true)) refuse(comm, found, header);
    }
    coop.sync();
    return at;
  }

  /* Within the team: where the message is wanted that begins with the next slot. */
  template <typename Coop>
  __device__ __forceinline__ void tell(Coop coop, ncclDevComm const& comm, ginrsCollInbox const& inbox, uint64_t place) const {
    if (coop.thread_rank() != 0) return;
    Line* const their = theirLine(comm, inbox);
    storeRelaxed(&their->place, place);
    End::tell(&their->told, count + 1);
  }

  /* All have read the slot. */
  template <typename Coop>
  __device__ __forceinline__ void close(Coop coop, ncclDevComm const& comm, ginrsCollInbox const& inbox) {
    if (coop.thread_rank() == 0) line(comm, inbox)->received = count + 1;
    coop.sync();
    if (coop.thread_rank() == 0) {
      if (ring.near) {
        End::tell(&theirLine(comm, inbox)->freed, count + 1);
      } else if (((count + 1) & (together(inbox) - 1)) == 0) {
        addCredit(comm, channel, ring.peer, creditSignal(inbox, ring.there), together(inbox));
      }
    }
    count++;
  }

 private:
  __device__ __forceinline__ void refuse(ncclDevComm const& comm, uint64_t found, uint64_t header) const {
    if ((found & 255) >= kStraight && (header & 255) >= kStraight) {
      printf("ginrs: rank %d receives %llu bytes from rank %d, which sends %llu\n", comm.rank, (unsigned long long)(header >> 8), ring.peer,
             (unsigned long long)(found >> 8));
      GINRS_TRAP("ncclRecv: the matching ncclSend has another number of bytes (count times size of the type)");
    }
    refuseCall();
  }
};

}  // namespace coll
}  // namespace ginrs
#endif
