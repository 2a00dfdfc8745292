/* All-gather and broadcast of any buffers, slice by slice: what comes along a rail goes to the scratch of all ranks of the team, and on. */
#ifndef GINRS_COLLECTIVES_COPYING_CUH_
#define GINRS_COLLECTIVES_COPYING_CUH_
#include "rail.cuh"
#include "scratch.cuh"

namespace ginrs {
namespace coll {

/* Every team's blocks go once around, each rank's along its rail. */
__device__ __forceinline__ void allGatherByRing(ginrsCollWork const& work, Scratch& scratch) {
  Rail const rail = Rail::of(work.comm);
  char* const recv = static_cast<char*>(work.recv.at);
  int const n = scratch.n, self = scratch.self, teams = rail.teams;
  uint64_t const part = work.count * work.eltBytes;
  Neighbours ring(work, rail);
  Slices const slices = Slices::of(part, scratch.message, 128);
  for (uint64_t at = slices.first(); at < slices.total; at += slices.step()) {
    uint64_t const bytes = slices.bytes(at);
    for (int step = 0; step < teams; step++) {
      char const* const from = step > 0 ? ring.in.open(work) : static_cast<char const*>(work.send.at) + at;
      char* const slot = step < teams - 1 ? ring.out.open(work) : nullptr;
      spreadByBlock(scratch.everybody(self * scratch.message, slot), from, bytes);
      if (step > 0) ring.in.close(work);
      if (slot != nullptr) ring.out.close(work, bytes);
      scratch.meet();
      uint64_t const first = uint64_t(rail.behind(step)) * n;
      for (int k = 0; k < n; k++) scratch.take(recv + (first + k) * part + at, k * scratch.message, bytes);
      scratch.next();
    }
  }
}

/* The root team's ranks each send a piece of the slice along their rails. */
__device__ __forceinline__ void broadcastByTree(ginrsCollWork const& work, Scratch& scratch) {
  Tree const tree = Tree::of(work);
  char* const recv = static_cast<char*>(work.recv.at);
  int const n = scratch.n, self = scratch.self, root = int(work.root) % n;
  Slices const slices = Slices::of(work.count * work.eltBytes, n * scratch.message, n * 128);
  for (uint64_t at = slices.first(); at < slices.total; at += slices.step()) {
    uint64_t const bytes = slices.bytes(at);
    Parts const parts = Parts::of(bytes, n);
    uint64_t const mine = parts.begin(self), size = parts.size(self);
    auto pass = [&](char const* piece) {
      for (int distance = tree.widest; distance > 0 && size > 0; distance /= 2) {
        if (tree.hasChild(distance)) ToTeam(work, tree.child(distance)).send(work, piece, size);
      }
    };
    if (tree.isRoot()) {
      if (self == root) copyByBlock(scratch.bank(0).at(root), static_cast<char const*>(work.send.at) + at, bytes);
      scratch.meet();
      pass(scratch.bank(mine).at(root));
      if (self != root || work.recv.at != work.send.at) copyByBlock(recv + at, scratch.bank(0).at(root), bytes);
    } else {
      if (size > 0) {
        FromTeam in(work, tree.parent());
        char const* const piece = in.open(work);
        pass(piece);
        spreadByBlock(scratch.everybody(mine, nullptr), piece, size);
        in.close(work);
      }
      scratch.meet();
      scratch.take(recv + at, 0, bytes);
    }
    scratch.next();
  }
}

__device__ __forceinline__ void copyingBuffered(ginrsCollWork const& work) {
  Barrier barrier{ncclCoopCta(), work.comm, ncclTeamTagLsa(), blockIdx.x};
  Scratch scratch(work, barrier);
  if (work.kind == GINRS_COLL_ALL_GATHER) {
    allGatherByRing(work, scratch);
  } else {
    broadcastByTree(work, scratch);
  }
  scratch.end();
}

}  // namespace coll
}  // namespace ginrs
#endif
