/* The sends and receives of a group, side by side. A block is a channel of a set of rounds. A message of round r goes
 * from rank a to rank a + r; a block takes its rounds in order, so of all messages that are outstanding one of the lowest round can always
 * go on. Sets of rounds share nothing. */
#ifndef GINRS_COLLECTIVES_P2P_CUH_
#define GINRS_COLLECTIVES_P2P_CUH_
#include "channel.cuh"
#include "group.cuh"

namespace ginrs {
namespace coll {

__device__ __forceinline__ uint32_t channelsOf(ginrsP2pWork const& work, uint64_t bytes) {
  uint64_t const wanted = bytes / work.bytesPerChannel + 1;
  return wanted < work.channels ? uint32_t(wanted) : work.channels;
}

/* Calls slot(at, bytes) for the channel's share of a message; once for an empty one, on channel 0. */
template <typename Slot>
__device__ __forceinline__ void slots(ginrsP2pWork const& work, ginrsP2pItem const& item, uint32_t channel, Slot slot) {
  uint32_t const channels = channelsOf(work, item.bytes);
  if (channel >= channels) return;
  Share const share = Share::of(item.bytes, channels, channel);
  uint32_t const most = payloadOf(work.inbox);
  uint64_t done = 0;
  if (share.bytes == 0 && channel > 0) return;
  do {
    uint32_t const bytes = uint32_t(min(uint64_t(most), share.bytes - done));
    slot(static_cast<char*>(item.at) + share.begin + done, bytes);
    done += bytes;
  } while (done < share.bytes && hasUse(work.comm));
}

/* The n-th send to the rank itself goes to its n-th receive from itself: no slots, a copy. */
__device__ __forceinline__ void copyToSelf(ginrsP2pWork const& work, Group const& group, uint32_t send, uint32_t channel) {
  uint32_t nth = 0;
  for (uint32_t i = 0; i < send; i++) nth += int(work.items[i].peer) == work.comm.rank;
  for (uint32_t i = work.nSends; i < work.nSends + work.nRecvs; i++) {
    if (int(work.items[i].peer) != work.comm.rank || nth-- > 0) continue;
    ginrsP2pItem const &from = work.items[send], &to = work.items[i];
    if (from.bytes != to.bytes) GINRS_TRAP("ncclRecv: the matching ncclSend has another number of bytes (count times size of the type)");
    Share const share = Share::of(from.bytes, work.channels, channel);
    copy(group.crew(), static_cast<char*>(to.at) + share.begin, static_cast<char const*>(from.at) + share.begin, share.bytes);
    return;
  }
  GINRS_TRAP("ncclSend to the rank itself without an ncclRecv in the same group");
}

__device__ __forceinline__ void pointToPoint(ginrsP2pWork const& work) {
  uint32_t const set = blockIdx.x / work.channels, channel = blockIdx.x % work.channels;
  Group const group = Group::own(work.nSends > 0, work.nRecvs > 0);
  bool const sends = group.sends();
  uint32_t const first = sends ? 0 : work.nSends, last = sends ? work.nSends : work.nSends + work.nRecvs;
  for (uint32_t i = first; i < last; i++) {
    ginrsP2pItem const& item = work.items[i];
    if (item.round % work.sets != set) continue;
    uint64_t const header = headerOf(kPointToPoint, item.bytes);
    if (int(item.peer) == work.comm.rank) {
      if (sends) copyToSelf(work, group, i, channel);
    } else if (sends) {
      Outgoing out(work.comm, work.inbox, Ring::ofPair(work.comm, item.peer), channel);
      slots(work, item, channel, [&](char* at, uint32_t bytes) {
        copy(group.crew(), out.open(group, work.comm, work.inbox), at, bytes);
        out.close(group, work.comm, work.inbox, header, bytes);
      });
    } else {
      Incoming in(work.comm, work.inbox, Ring::ofPair(work.comm, item.peer), channel);
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
