/* A rail: the ranks with one lsaRank, one of each LSA team. Slots to and from them, of one message. */
#ifndef GINRS_COLLECTIVES_RAIL_CUH_
#define GINRS_COLLECTIVES_RAIL_CUH_
#include "channel.cuh"
#include "move.cuh"

namespace ginrs {
namespace coll {

/* As functions: they are long, and reductions have many of them. */
__device__ __noinline__ char* openOutgoing(ginrsCollWork const& work, Outgoing out) { return out.open(ncclCoopCta(), work.comm, work.rails); }
__device__ __noinline__ void publishOutgoing(ginrsCollWork const& work, Outgoing out, uint32_t bytes) {
  out.close(ncclCoopCta(), work.comm, work.rails, headerOf(work.kind, work.count * work.eltBytes), bytes);
}
__device__ __noinline__ char const* openIncoming(ginrsCollWork const& work, Incoming in) {
  return in.open(ncclCoopCta(), work.comm, work.rails, headerOf(work.kind, work.count * work.eltBytes));
}
__device__ __noinline__ void freeIncoming(ginrsCollWork const& work, Incoming in) { in.close(ncclCoopCta(), work.comm, work.rails); }

struct ToTeam {
  Outgoing end;
  __device__ __forceinline__ ToTeam(ginrsCollWork const& work, int team) : ToTeam(work, Ring::toTeam(work.comm, team)) {}
  __device__ __forceinline__ ToTeam(ginrsCollWork const& work, Ring ring) : end(work.comm, work.rails, ring, blockIdx.x) {}
  __device__ __forceinline__ char* open(ginrsCollWork const& work) const { return openOutgoing(work, end); }
  __device__ __forceinline__ void close(ginrsCollWork const& work, uint64_t bytes) {
    publishOutgoing(work, end, uint32_t(bytes));
    end.count++;
  }
};

struct FromTeam {
  Incoming end;
  __device__ __forceinline__ FromTeam(ginrsCollWork const& work, int team) : FromTeam(work, Ring::fromTeam(work.comm, team)) {}
  __device__ __forceinline__ FromTeam(ginrsCollWork const& work, Ring ring) : end(work.comm, work.rails, ring, blockIdx.x) {}
  __device__ __forceinline__ char const* open(ginrsCollWork const& work) const { return openIncoming(work, end); }
  __device__ __forceinline__ void close(ginrsCollWork const& work) {
    freeIncoming(work, end);
    end.count++;
  }
};

/* What goes along a rail in a step, a piece or a part of one, is cut into messages, so that one is on its way while the next one is made
 * and the one before is added. All of a step's are sent ahead of what comes back for them: fewer than there are slots by those that are
 * freed together, or each rank of a ring would wait for the next to free one. In the order of steps, and in each of messages, whatever one
 * waits for is before it. */
struct Cuts {
  uint64_t bytes, each;

  static __device__ __forceinline__ Cuts of(ginrsCollWork const& work, uint64_t bytes) {
    uint64_t const ahead = max(work.rails.slots - End::together(work.rails), 1u);
    return {bytes, max((bytes + 128 * ahead - 1) / (128 * ahead) * 128, uint64_t(work.cutBytes))};
  }
  __device__ __forceinline__ uint64_t size(uint64_t at) const { return min(each, bytes - at); }
};

struct Rail {
  int teams, self;

  static __device__ __forceinline__ Rail of(ncclDevComm const& comm) { return {comm.nRanks / comm.lsaSize, comm.rank / comm.lsaSize}; }
  /* The team so many places on, or back: less than all of them. */
  __device__ __forceinline__ int ahead(int places) const { return turn(self, places, teams); }
  __device__ __forceinline__ int behind(int places) const { return turn(self, teams - places, teams); }
};

/* The ends of a rail's ring: to the next team, from the one before. */
struct Neighbours {
  ToTeam out;
  FromTeam in;

  __device__ __forceinline__ Neighbours(ginrsCollWork const& work, Rail const& rail)
      : out(work, rail.ahead(rail.teams > 1)), in(work, rail.behind(rail.teams > 1)) {}
};

/* Who passes what on to whom, from a root team or to it; as a line, for large messages, or as a binomial tree. The team `place` behind
 * the root has its parent `reach` before it, and children 1, 2, 4, .. up to `widest` behind it, as far as there are so many. */
struct Tree {
  Rail rail;
  int place, reach, widest;

  static __device__ __forceinline__ Tree of(ginrsCollWork const& work) {
    Tree const tree = binomial(work);
    return work.along == GINRS_COLL_RING ? Tree{tree.rail, tree.place, 1, 1} : tree;
  }
  static __device__ __forceinline__ Tree binomial(ginrsCollWork const& work) {
    Rail const rail = Rail::of(work.comm);
    int const root = int(work.root) / work.comm.lsaSize, place = rail.self < root ? rail.self - root + rail.teams : rail.self - root;
    int reach = 1;
    while (reach < rail.teams && (place & reach) == 0) reach *= 2;
    return {rail, place, reach, reach / 2};
  }
  __device__ __forceinline__ bool isRoot() const { return place == 0; }
  __device__ __forceinline__ int parent() const { return rail.behind(reach); }
  __device__ __forceinline__ bool hasChild(int distance) const { return place + distance < rail.teams; }
  __device__ __forceinline__ int child(int distance) const { return rail.ahead(distance); }
};

}  // namespace coll
}  // namespace ginrs
#endif
