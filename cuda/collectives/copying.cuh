/* All-gather and broadcast of any buffers, slice by slice: what comes along a rail goes to the scratch of all ranks of the team, and on. */
#ifndef GINRS_COLLECTIVES_COPYING_CUH_
#define GINRS_COLLECTIVES_COPYING_CUH_
#include "rail.cuh"
#include "scratch.cuh"

namespace ginrs {
namespace coll {

/* Every team's blocks go once around, each rank's along its rail. */
__device__ __noinline__ void allGatherByRing(ginrsCollWork const& work, Scratch& scratch) {
  Rail const rail = Rail::of(work.comm);
  int const n = scratch.n, self = scratch.self, teams = rail.teams;
  uint64_t const part = work.count * work.eltBytes;
  Neighbours ring(work, rail);
  Slices const slices = Slices::of(part, scratch.message, 128);
  for (uint64_t at = slices.first(); slices.has(work, at); at += slices.step()) {
    Cuts const cuts = Cuts::of(work, slices.bytes(at));
    for (int step = 0; step < teams; step++) {
      Results const results(scratch, static_cast<char*>(work.recv.at) + uint64_t(rail.behind(step)) * n * part + at);
      for (uint64_t done = 0; done < cuts.bytes; done += cuts.each) {
        char const* const from = step > 0 ? ring.in.open(work) : static_cast<char const*>(work.send.at) + at + done;
        char* const slot = step < teams - 1 ? ring.out.open(work) : nullptr;
        spreadByBlock(results.at(self * scratch.message + done, slot), from, cuts.size(done));
        if (step > 0) ring.in.close(work);
        if (slot != nullptr) ring.out.close(work, cuts.size(done));
      }
      results.take(cuts.bytes, n, part);
    }
  }
}

/* Small: in log2(teams) rounds and as few bytes (Bruck's). Block j is that of the team j places on; each round as many come from the
 * first team that is missing as there are here. */
__device__ __noinline__ void allGatherByRounds(ginrsCollWork const& work, Scratch& scratch) {
  Rail const rail = Rail::of(work.comm);
  int const n = scratch.n, self = scratch.self, teams = rail.teams;
  uint64_t const part = work.count * work.eltBytes;
  char* const own = scratch.own();
  Slices const slices = Slices::of(part, scratch.blockOf(teams), 128);
  for (uint64_t at = slices.first(); slices.has(work, at); at += slices.step()) {
    uint64_t const bytes = slices.bytes(at), each = (bytes + 127) / 128 * 128;
    copyByBlock(own, static_cast<char const*>(work.send.at) + at, bytes);
    __syncthreads();
    for (int distance = 1; distance < teams; distance *= 2) {
      uint64_t const size = min(distance, teams - distance) * each;
      ToTeam out(work, rail.behind(distance));
      copyByBlock(out.open(work), own, size);
      out.close(work, size);
      FromTeam in(work, rail.ahead(distance));
      copyByBlock(own + distance * each, in.open(work), size);
      in.close(work);
    }
    spreadByBlock(Targets{scratch.bank(self * scratch.message), self, n, nullptr}, own, teams * each);
    scratch.meet();
    for (int k = 0; k < n; k++) {
      char const* const blocks = scratch.bank(k * scratch.message).at(self);
      for (int j = 0; j < teams; j++) {
        uint64_t const rank = uint64_t(turn(rail.self, j, teams)) * n + k;
        copyByBlock(static_cast<char*>(work.recv.at) + rank * part + at, blocks + j * each, bytes);
      }
    }
    scratch.next();
  }
}

__device__ __forceinline__ void allGatherBuffered(ginrsCollWork const& work, Scratch& scratch) {
  if (work.along == GINRS_COLL_RING) {
    allGatherByRing(work, scratch);
  } else {
    allGatherByRounds(work, scratch);
  }
}

/* The root team's ranks each send a piece of the slice along their rails. */
__device__ __noinline__ void broadcastByTree(ginrsCollWork const& work, Scratch& scratch) {
  Tree const tree = Tree::of(work);
  int const n = scratch.n, self = scratch.self, root = int(work.root) % n;
  auto pass = [&](char const* from, uint64_t bytes) {
    for (int distance = tree.widest; distance > 0; distance /= 2) {
      if (!tree.hasChild(distance)) continue;
      ToTeam out(work, tree.child(distance));
      copyByBlock(out.open(work), from, bytes);
      out.close(work, bytes);
    }
  };
  Slices const slices = Slices::of(work.count * work.eltBytes, n * scratch.message, n * 128);
  for (uint64_t at = slices.first(); slices.has(work, at); at += slices.step()) {
    uint64_t const bytes = slices.bytes(at);
    Parts const parts = Parts::of(bytes, n);
    Cuts const cuts = Cuts::of(work, parts.size(self));
    char* const recv = static_cast<char*>(work.recv.at) + at;
    if (tree.isRoot()) {
      char const* from = static_cast<char const*>(work.send.at) + at;
      if (n > 1) {
        char* const shared = scratch.bank(0).at(root);
        if (self == root) copyByBlock(shared, from, bytes);
        scratch.meet();
        scratch.next();
        from = shared;
      }
      for (uint64_t done = 0; done < cuts.bytes; done += cuts.each) pass(from + parts.begin(self) + done, cuts.size(done));
      if (self != root || work.recv.at != work.send.at) copyByBlock(recv, from, bytes);
    } else {
      Results const results(scratch, recv);
      FromTeam in(work, tree.parent());
      for (uint64_t done = 0; done < cuts.bytes; done += cuts.each) {
        char const* const piece = in.open(work);
        pass(piece, cuts.size(done));
        spreadByBlock(results.at(parts.begin(self) + done, nullptr), piece, cuts.size(done));
        in.close(work);
      }
      results.take(bytes);
    }
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
