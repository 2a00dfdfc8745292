/* The sends and receives of a group, side by side. A block is a channel of a set of rounds. A message of round r goes
 * from rank a to rank a + r; a block takes its rounds in order, so of all messages that are outstanding one of the lowest round can always
 * go on. Sets of rounds share nothing. A large message goes straight to where it is received, if the sender sees that place, else by slots. */
#ifndef GINRS_COLLECTIVES_P2P_CUH_
#define GINRS_COLLECTIVES_P2P_CUH_
#include "channel.cuh"
#include "group.cuh"

namespace ginrs {
namespace coll {

/* Whether a message of so many bytes may go straight to where it is received. The receiver tells of that place in any case. */
__device__ __forceinline__ bool mayGoStraight(ginrsP2pWork const& work, uint64_t bytes) { return work.straight != 0 && bytes >= work.straight; }

__device__ __forceinline__ uint32_t channelsOf(ginrsP2pWork const& work, uint64_t bytes) {
  uint64_t const wanted = bytes / work.bytesPerChannel + 1, most = mayGoStraight(work, bytes) ? work.channels : work.narrow;
  return uint32_t(wanted < most ? wanted : most);
}

/* Calls slot(at, bytes) for the channel's share of a message; once for an empty one, on channel 0. */
template <typename Slot>
__device__ __forceinline__ void slots(ginrsP2pWork const& work, ginrsP2pItem const& item, uint32_t channel, Slot slot) {
  Share const share = Share::of(item.bytes, channelsOf(work, item.bytes), channel);
  uint32_t const most = payloadOf(work.inbox);
  uint64_t done = 0;
  if (share.bytes == 0 && channel > 0) return;
  do {
    uint32_t const bytes = uint32_t(min(uint64_t(most), share.bytes - done));
    slot(static_cast<char*>(item.at) + share.begin + done, bytes);
    done += bytes;
  } while (done < share.bytes && hasUse(work.comm));
}

/* The n-th of the sends, or of the receives, whose peer is the rank itself. */
__device__ __forceinline__ ginrsP2pItem const& ofItself(ginrsP2pWork const& work, bool sends, uint32_t nth) {
  uint32_t const first = sends ? 0 : work.nSends, last = sends ? work.nSends : work.nSends + work.nRecvs;
  for (uint32_t i = first; i < last; i++) {
    if (int(work.items[i].peer) == work.comm.rank && nth-- == 0) return work.items[i];
  }
  GINRS_TRAP("ncclSend to the rank itself and ncclRecv from it do not match");
  return work.items[first];
}

/* The n-th receive from the rank itself takes its n-th send to itself: no slots, a copy. */
__device__ __forceinline__ void copyToSelf(ginrsP2pWork const& work, Group const& group, uint32_t nth, uint32_t channel) {
  ginrsP2pItem const &from = ofItself(work, true, nth), &to = ofItself(work, false, nth);
  if (from.bytes != to.bytes) GINRS_TRAP("ncclRecv: the matching ncclSend has another number of bytes (count times size of the type)");
  Share const share = Share::of(from.bytes, work.channels, channel);
  copy(group.crew(), static_cast<char*>(to.at) + share.begin, static_cast<char const*>(from.at) + share.begin, share.bytes);
}

/* Whether this rank sends it so: where it receives at the same time. One way alone slots are as fast, and what a rank sends in a group of its own, and is
 * small enough for them, is over before it is received. */
__device__ __forceinline__ bool goesStraight(ginrsP2pWork const& work, uint64_t bytes) { return mayGoStraight(work, bytes) && work.nRecvs > 0; }

/* False if the receiver has no place that this rank's kernels see. */
__device__ __forceinline__ bool sendStraight(ginrsP2pWork const& work, Group const& group, ginrsP2pItem const& item, uint32_t channel, Outgoing& out) {
  uint64_t const header = headerOf(kStraight, item.bytes);
  out.open(group, work.comm, work.inbox);
  out.close(group, work.comm, work.inbox, header, 0);
  char* const to = out.place(group, work.comm, work.inbox);
  if (to == nullptr) return false;
  Share const share = Share::of(item.bytes, channelsOf(work, item.bytes), channel);
  copy(group.crew(), to + share.begin, static_cast<char const*>(item.at) + share.begin, share.bytes);
  out.open(group, work.comm, work.inbox);
  out.close(group, work.comm, work.inbox, header, 0);
  return true;
}

/* False if it comes by slots. */
__device__ __forceinline__ bool receiveStraight(ginrsP2pWork const& work, Group const& group, ginrsP2pItem const& item, Incoming& in) {
  uint64_t const header = headerOf(kStraight, item.bytes);
  in.tell(group, work.comm, work.inbox, item.seen);
  char const* const first = in.open(group, work.comm, work.inbox, headerOf(kPointToPoint, item.bytes), header);
  if (*reinterpret_cast<uint64_t const volatile*>(first - kTravels) != header) return false;
  in.close(group, work.comm, work.inbox);
  if (item.seen == 0) return false;
  in.open(group, work.comm, work.inbox, header);
  in.close(group, work.comm, work.inbox);
  return true;
}

/* Before anything else: so no sender waits until this rank comes to its round. Of a sender the first message alone. */
__device__ __forceinline__ void tellPlaces(ginrsP2pWork const& work, Group const& group, uint32_t set, uint32_t channel) {
  for (uint32_t i = work.nSends; i < work.nSends + work.nRecvs; i++) {
    ginrsP2pItem const& item = work.items[i];
    bool const isFirst = i == work.nSends || work.items[i - 1].peer != item.peer;
    if (!isFirst || int(item.peer) == work.comm.rank || !mayGoStraight(work, item.bytes)) continue;
    if (item.round % work.sets != set || channel >= channelsOf(work, item.bytes)) continue;
    Incoming(work.comm, work.inbox, Ring::ofPair(work.comm, item.peer), channel).tell(group, work.comm, work.inbox, item.seen);
  }
}

__device__ __forceinline__ void pointToPoint(ginrsP2pWork const& work) {
  uint32_t const set = blockIdx.x / work.channels, channel = blockIdx.x % work.channels;
  Group const group = Group::own(work.nSends > 0, work.nRecvs > 0);
  bool const sends = group.sends();
  if (!sends) tellPlaces(work, group, set, channel);
  uint32_t const first = sends ? 0 : work.nSends, last = sends ? work.nSends : work.nSends + work.nRecvs;
  uint32_t itself = 0;
  for (uint32_t i = first; i < last; i++) {
    ginrsP2pItem const& item = work.items[i];
    if (item.round % work.sets != set) continue;
    uint64_t const header = headerOf(kPointToPoint, item.bytes);
    if (int(item.peer) == work.comm.rank) {
      if (sends == (work.sendersCopy != 0)) copyToSelf(work, group, itself++, channel);
    } else if (channel >= channelsOf(work, item.bytes)) {
      continue;
    } else if (sends) {
      Outgoing out(work.comm, work.inbox, Ring::ofPair(work.comm, item.peer), channel);
      if (goesStraight(work, item.bytes) && sendStraight(work, group, item, channel, out)) continue;
      slots(work, item, channel, [&](char* at, uint32_t bytes) {
        copy(group.crew(), out.open(group, work.comm, work.inbox), at, bytes);
        out.close(group, work.comm, work.inbox, header, bytes);
      });
    } else {
      Incoming in(work.comm, work.inbox, Ring::ofPair(work.comm, item.peer), channel);
      if (mayGoStraight(work, item.bytes) && receiveStraight(work, group, item, in)) continue;
      slots(work, item, channel, [&](char* at, uint32_t bytes) {
        copy(group.crew(), at, in.open(group, work.comm, work.inbox, header), bytes);
        in.close(group, work.comm, work.inbox);
      });
    }
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
