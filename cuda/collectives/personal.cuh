/* All-to-all, gather and scatter between LSA teams: each rank has other bytes for each. Along the rails alone, so two teams exchange a message
 * for each rail and not one for each pair of ranks; inside a team through its scratch. A rank reaches those of its rail in the rings that
 * all pairs have.
 *
 * A message of an all-to-all has what one rank has for all of the other team, which deals it out there. The other way round, what a whole team has
 * for one rank, a team would have to meet before anything could leave. */
#ifndef GINRS_COLLECTIVES_PERSONAL_CUH_
#define GINRS_COLLECTIVES_PERSONAL_CUH_
#include "rail.cuh"
#include "scratch.cuh"

namespace ginrs {
namespace coll {

/* The rail's rank of any team, in the rings of all pairs, which `rails` is here. */
__device__ __forceinline__ Ring rankOf(ginrsCollWork const& work, int team) {
  return Ring::ofPair(work.comm, team * work.comm.lsaSize + work.comm.lsaRank);
}

/* Slices of what a rank has for one other, its block: so many of them fit into a message, and one for each team into a piece of the
 * scratch. `block` of src/coll/along.rs counts the same. */
__device__ __forceinline__ Slices slicesOfBlock(ginrsCollWork const& work, Scratch const& scratch, int teams, int together) {
  uint64_t const most = min(uint64_t(payloadOf(work.rails) / together), scratch.piece / teams);
  return Slices::of(work.count * work.eltBytes, most / 128 * 128, 128);
}
/* How far apart the blocks of a slice are in messages and in the scratch. */
__device__ __forceinline__ uint64_t apart(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

/* A slice's messages to a team are as many as a ring has slots, at most. So all can be sent before any is received: the slots are free once the
 * receiver has taken what it was sent for the slice before, and for that it waits for nobody who waits for it. */
__device__ __noinline__ void allToAllAlongRails(ginrsCollWork const& work, Scratch& scratch) {
  Rail const rail = Rail::of(work.comm);
  int const n = scratch.n, self = scratch.self, teams = rail.teams;
  uint64_t const part = work.count * work.eltBytes;
  Slices const slices = slicesOfBlock(work, scratch, teams, (n + work.rails.slots - 1) / work.rails.slots);
  for (uint64_t at = slices.first(); slices.has(work, at); at += slices.step()) {
    uint64_t const bytes = slices.bytes(at), each = apart(bytes);
    int const most = int(min(payloadOf(work.rails) / each, uint64_t(n)));
    char const* const send = static_cast<char const*>(work.send.at) + at;
    char* const recv = static_cast<char*>(work.recv.at) + at;
    for (int step = 1; step < teams; step++) {
      int const team = rail.ahead(step);
      ToTeam out(work, rankOf(work, team));
      for (int k = 0; k < n; k += most) {
        int const rows = min(most, n - k);
        rowsByBlock(out.open(work), each, send + (uint64_t(team) * n + k) * part, part, bytes, rows);
        out.close(work, rows * each);
      }
    }
    /* To everybody's bank: behind what this rank is, by team. */
    auto deal = [&](int team, int k, int rows, char const* from, uint64_t fromApart) {
      Places const places = scratch.bank(self * scratch.piece + team * each);
      rowsByBlock(places.at(k), places.stride, from, fromApart, bytes, rows);
    };
    deal(rail.self, 0, n, send + uint64_t(rail.self) * n * part, part);
    for (int step = 1; step < teams; step++) {
      int const team = rail.behind(step);
      FromTeam in(work, rankOf(work, team));
      for (int k = 0; k < n; k += most) {
        deal(team, k, min(most, n - k), in.open(work), each);
        in.close(work);
      }
    }
    scratch.meet();
    for (int team = 0; team < teams; team++) {
      rowsByBlock(recv + uint64_t(team) * n * part, part, scratch.bank(team * each).at(self), scratch.piece, bytes, n);
    }
    scratch.next();
  }
}

/* Which teams a team passes blocks on for, from the root's or to it: a star, in which every block crosses once, or the binomial tree, in which
 * the root's team has fewest messages. Blocks go by place: that of the team j behind this one is the j-th. */
struct Fan {
  Tree tree;
  bool star;

  static __device__ __forceinline__ Fan of(ginrsCollWork const& work) {
    bool const star = work.along == GINRS_COLL_RING;
    Tree tree = Tree::binomial(work);
    if (star) tree.reach = tree.place, tree.widest = tree.isRoot() ? tree.rail.teams - 1 : 0;
    return {tree, star};
  }
  /* Blocks of a message: of what the team at that distance and those behind it have, and at most. */
  __device__ __forceinline__ int blocks(int distance) const { return star ? 1 : min(distance, tree.rail.teams - tree.place - distance); }
  __device__ __forceinline__ int together() const { return star ? 1 : max(1, tree.rail.teams / 2); }
  /* Of this team's own message. */
  __device__ __forceinline__ int own() const { return star ? 1 : min(tree.reach, tree.rail.teams - tree.place); }
  __device__ __forceinline__ int nearer(int distance) const { return star ? distance - 1 : distance / 2; }
  __device__ __forceinline__ int farther(int distance) const { return star ? distance + 1 : distance * 2; }
};

/* The root deals its blocks to its team; each of those sends what is for its rail. */
__device__ __noinline__ void scatterAlongRails(ginrsCollWork const& work, Scratch& scratch) {
  Fan const fan = Fan::of(work);
  Tree const& tree = fan.tree;
  int const n = scratch.n, self = scratch.self, teams = tree.rail.teams, root = int(work.root) % n;
  uint64_t const part = work.count * work.eltBytes;
  Slices const slices = slicesOfBlock(work, scratch, teams, fan.together());
  for (uint64_t at = slices.first(); slices.has(work, at); at += slices.step()) {
    uint64_t const bytes = slices.bytes(at), each = apart(bytes);
    FromTeam in(work, rankOf(work, tree.isRoot() ? tree.rail.self : tree.parent()));
    char const* from;
    if (tree.isRoot()) {
      for (int j = 0; j < teams && self == root; j++) {
        Places const places = scratch.bank(j * each);
        rowsByBlock(places.first, places.stride, static_cast<char const*>(work.send.at) + uint64_t(tree.rail.ahead(j)) * n * part + at, part, bytes, n);
      }
      scratch.meet();
      from = scratch.bank(0).at(self);
      scratch.next();
    } else {
      from = in.open(work);
    }
    for (int distance = tree.widest; distance > 0; distance = fan.nearer(distance)) {
      if (!tree.hasChild(distance)) continue;
      uint64_t const size = fan.blocks(distance) * each;
      ToTeam out(work, rankOf(work, tree.child(distance)));
      copyByBlock(out.open(work), from + distance * each, size);
      out.close(work, size);
    }
    copyByBlock(static_cast<char*>(work.recv.at) + at, from, bytes);
    if (!tree.isRoot()) in.close(work);
  }
}

/* The same, backwards. */
__device__ __noinline__ void gatherAlongRails(ginrsCollWork const& work, Scratch& scratch) {
  Fan const fan = Fan::of(work);
  Tree const& tree = fan.tree;
  int const n = scratch.n, self = scratch.self, teams = tree.rail.teams, root = int(work.root) % n;
  uint64_t const part = work.count * work.eltBytes;
  Slices const slices = slicesOfBlock(work, scratch, teams, fan.together());
  for (uint64_t at = slices.first(); slices.has(work, at); at += slices.step()) {
    uint64_t const bytes = slices.bytes(at), each = apart(bytes);
    ToTeam out(work, rankOf(work, tree.isRoot() ? tree.rail.self : tree.parent()));
    char* const to = tree.isRoot() ? scratch.bank(self * scratch.piece).at(root) : out.open(work);
    copyByBlock(to, static_cast<char const*>(work.send.at) + at, bytes);
    for (int distance = 1; distance <= tree.widest && tree.hasChild(distance); distance = fan.farther(distance)) {
      FromTeam in(work, rankOf(work, tree.child(distance)));
      copyByBlock(to + distance * each, in.open(work), fan.blocks(distance) * each);
      in.close(work);
    }
    if (!tree.isRoot()) {
      out.close(work, fan.own() * each);
      continue;
    }
    scratch.meet();
    for (int j = 0; j < teams && self == root; j++) {
      char* const recv = static_cast<char*>(work.recv.at) + uint64_t(tree.rail.ahead(j)) * n * part + at;
      rowsByBlock(recv, part, scratch.bank(j * each).at(self), scratch.piece, bytes, n);
    }
    scratch.next();
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
