/* Reductions of any buffers, slice by slice. Inside an LSA team the ranks bring their inputs to scratch that all of them reach, meet, and
 * each reduces its piece from everybody's. Between teams the pieces go along rails: each rank has to do with one rank of another team
 * at a time, and only that crosses. Blocks do not wait for each other, so while one waits for its rail another works in its team, and
 * what goes along a rail is cut (rail.cuh), so that a block works on one message while others are on their way. */
#ifndef GINRS_COLLECTIVES_BUFFERED_CUH_
#define GINRS_COLLECTIVES_BUFFERED_CUH_
#include "rail.cuh"
#include "scratch.cuh"

namespace ginrs {
namespace coll {

/* Not inlined: it has many callers. */
__device__ __noinline__ void addUp(AnyOperation any, uint64_t bytes, Sources from, Targets to) {
  any.typed([&](auto const& op) { reduceSlowly(op, Crew::block(), bytes / any.work.eltBytes, from, to); });
}

__device__ __forceinline__ void reducePiece(AnyOperation const& op, uint64_t bytes, Sources const& from, Targets const& to) {
  if (from.count() == 1 && !op.divides()) {
    spreadByBlock(to, from.at(0), bytes);
  } else {
    addUp(op, bytes, from, to);
  }
}

/* ---- All-reduce. `team`: the rank's piece of the slice, in everybody's input; `mine`: where in the slice it begins. ---- */

/* Every team's piece, reduced, to all: in log2(teams) rounds, which takes more bytes than a ring. What is more than a power of two of
 * teams, the extras, is added to others before, and told after. A round's sums go to the next round's partner as they are made. In
 * order of teams, so that all get the same bits. */
__device__ __forceinline__ void exchangeByDoubling(ginrsCollWork const& work, Rail const& rail, Scratch const& scratch, AnyOperation const& op,
                                                   Places const& team, Results const& results, uint64_t mine, uint64_t bytes) {
  Cuts const cuts = Cuts::of(work, bytes);
  Sources own = {team, scratch.self, scratch.n, nullptr};
  int paired = 1;
  while (2 * paired <= rail.teams) paired *= 2;
  int const extra = rail.self ^ paired;
  bool const isExtra = rail.self >= paired, hasExtra = !isExtra && extra < rail.teams;
  /* A rank that is alone, and adds nothing yet, need not copy its own. */
  bool const asItIs = isExtra || (scratch.n == 1 && !hasExtra);
  {
    FromTeam in(work, extra < rail.teams ? extra : rail.self);
    ToTeam out(work, isExtra ? extra : rail.self ^ 1);
    for (uint64_t at = 0; at < bytes; at += cuts.each) {
      own.places.first = team.first + at;
      own.more = hasExtra ? in.open(work) : nullptr;
      char* const slot = out.open(work);
      Targets const to = asItIs ? Targets::one(slot) : Targets{{scratch.own() + at, 0}, 0, 1, slot};
      reducePiece(op.partial(), cuts.size(at), own, to);
      if (hasExtra) in.close(work);
      out.close(work, cuts.size(at));
    }
  }
  if (isExtra) {
    FromTeam in(work, extra);
    for (uint64_t at = 0; at < bytes; at += cuts.each) {
      spreadByBlock(results.at(mine + at, nullptr), in.open(work), cuts.size(at));
      in.close(work);
    }
    return;
  }
  char* sum = asItIs ? team.first : scratch.own();
  for (int distance = 1; distance < paired; distance *= 2) {
    int const partner = rail.self ^ distance;
    bool const last = 2 * distance == paired, sends = !last || hasExtra;
    FromTeam in(work, partner);
    ToTeam out(work, !last ? rail.self ^ (2 * distance) : hasExtra ? extra : partner);
    for (uint64_t at = 0; at < bytes; at += cuts.each) {
      char* const theirs = const_cast<char*>(in.open(work));
      char* const slot = sends ? out.open(work) : nullptr;
      char *const low = partner < rail.self ? theirs : sum + at, *const high = partner < rail.self ? sum + at : theirs;
      Targets const to = last ? results.at(mine + at, slot) : Targets{{scratch.own() + at, 0}, 0, 1, slot};
      reducePiece(last ? op : op.partial(), cuts.size(at), Sources{{low, high - low}, 0, 2, nullptr}, to);
      in.close(work);
      if (sends) out.close(work, cuts.size(at));
    }
    sum = scratch.own();
  }
}

/* The piece in as many parts as there are teams. Each part goes once around and is added to what the team has brought for it, and once
 * more to be told. */
__device__ __forceinline__ void exchangeByRing(ginrsCollWork const& work, Rail const& rail, Neighbours& ring, Scratch const& scratch,
                                               AnyOperation const& op, Places const& team, Results const& results, uint64_t mine, uint64_t bytes) {
  Parts const parts = Parts::of(bytes, rail.teams);
  for (int step = 0; step < 2 * rail.teams - 1; step++) {
    bool const adds = step < rail.teams, whole = step == rail.teams - 1; /* with this step the part is of all teams */
    int const part = rail.behind(adds ? step : step - rail.teams);
    Cuts const cuts = Cuts::of(work, parts.size(part));
    for (uint64_t done = 0; done < cuts.bytes; done += cuts.each) {
      uint64_t const at = parts.begin(part) + done, size = cuts.size(done);
      char const* const received = step > 0 ? ring.in.open(work) : nullptr;
      char* const slot = step < 2 * rail.teams - 2 ? ring.out.open(work) : nullptr;
      Targets const told = results.at(mine + at, slot);
      if (adds) {
        reducePiece(whole ? op : op.partial(), size, Sources{{team.first + at, team.stride}, scratch.self, scratch.n, received},
                       whole ? told : Targets::one(slot));
      } else {
        spreadByBlock(told, received, size);
      }
      if (received != nullptr) ring.in.close(work);
      if (slot != nullptr) ring.out.close(work, size);
    }
  }
}

__device__ __noinline__ void allReduceBuffered(ginrsCollWork const& work, Scratch& scratch) {
  Rail const rail = Rail::of(work.comm);
  AnyOperation const op = AnyOperation::of(work);
  int const n = scratch.n, self = scratch.self;
  bool const byRing = work.along == GINRS_COLL_RING;
  Neighbours ring(work, rail);
  Slices const slices = Slices::of(work.count * work.eltBytes, n * (byRing ? scratch.piece : scratch.message), n * 128);
  for (uint64_t at = slices.first(); slices.has(work, at); at += slices.step()) {
    uint64_t const bytes = slices.bytes(at);
    Parts const parts = Parts::of(bytes, n);
    uint64_t const mine = parts.begin(self), size = parts.size(self);
    Places const team = scratch.inputs(op, static_cast<char const*>(work.send.at) + at, mine, bytes);
    Results const results(scratch, static_cast<char*>(work.recv.at) + at);
    if (rail.teams == 1) {
      reducePiece(op, size, Sources{team, self, n, nullptr}, results.at(mine, nullptr));
    } else if (byRing) {
      exchangeByRing(work, rail, ring, scratch, op, team, results, mine, size);
    } else {
      exchangeByDoubling(work, rail, scratch, op, team, results, mine, size);
    }
    results.take(bytes);
  }
}

/* ---- Reduce-scatter: every team's block goes once around the rail, and ends at that team. ---- */

__device__ __noinline__ void reduceScatterByRing(ginrsCollWork const& work, Scratch& scratch) {
  Rail const rail = Rail::of(work.comm);
  AnyOperation const op = AnyOperation::of(work);
  int const n = scratch.n, self = scratch.self, teams = rail.teams;
  uint64_t const part = work.count * work.eltBytes;
  Neighbours ring(work, rail);
  Slices const slices = Slices::of(part, scratch.message, 128);
  for (uint64_t at = slices.first(); slices.has(work, at); at += slices.step()) {
    Cuts const cuts = Cuts::of(work, slices.bytes(at));
    for (int step = 0; step < teams; step++) {
      int const team = turn(rail.behind(1), teams - step, teams);
      bool const last = step == teams - 1;
      char const* const blocks = static_cast<char const*>(work.send.at) + uint64_t(team * n) * part + at;
      Places const from = scratch.inputs(op, blocks, self * scratch.message, cuts.bytes, n, part);
      for (uint64_t done = 0; done < cuts.bytes; done += cuts.each) {
        char const* const received = step > 0 ? ring.in.open(work) : nullptr;
        char* const to = last ? static_cast<char*>(work.recv.at) + at + done : ring.out.open(work);
        reducePiece(last ? op : op.partial(), cuts.size(done), Sources{{from.first + done, from.stride}, self, n, received}, Targets::one(to));
        if (step > 0) ring.in.close(work);
        if (!last) ring.out.close(work, cuts.size(done));
      }
    }
  }
}

/* Small: in log2(teams) rounds and as few bytes (Bruck's, backwards). Block j is what the rank has for the team j places on. In each round
 * the last of them go to the team at which they have come half of their way, which adds them to its first ones. */
__device__ __noinline__ void reduceScatterByRounds(ginrsCollWork const& work, Scratch& scratch) {
  Rail const rail = Rail::of(work.comm);
  AnyOperation const op = AnyOperation::of(work);
  int const n = scratch.n, self = scratch.self, teams = rail.teams;
  uint64_t const part = work.count * work.eltBytes;
  char* const own = scratch.own();
  int farthest = 1;
  while (2 * farthest < teams) farthest *= 2;
  Slices const slices = Slices::of(part, scratch.blockOf(teams), 128);
  for (uint64_t at = slices.first(); slices.has(work, at); at += slices.step()) {
    uint64_t const bytes = slices.bytes(at), each = (bytes + 127) / 128 * 128;
    for (int j = 0; j < teams; j++) {
      char const* const blocks = static_cast<char const*>(work.send.at) + uint64_t(turn(rail.self, j, teams) * n) * part + at;
      for (int k = 0; k < n; k++) scratch.bring(op, k * scratch.message + j * each, blocks + k * part, bytes);
    }
    scratch.meet();
    reducePiece(op.partial(), teams * each, Sources{scratch.bank(self * scratch.message), self, n, nullptr}, Targets::one(own));
    scratch.next();
    __syncthreads();
    int left = teams;
    for (int distance = farthest; distance > 0; distance /= 2) {
      uint64_t const size = (left - distance) * each;
      ToTeam out(work, rail.ahead(distance));
      copyByBlock(out.open(work), own + distance * each, size);
      out.close(work, size);
      FromTeam in(work, rail.behind(distance));
      Sources const both = {{own, 0}, 0, 1, in.open(work)};
      reducePiece(distance == 1 ? op : op.partial(), size, both, Targets::one(own));
      in.close(work);
      left = distance;
    }
    copyByBlock(static_cast<char*>(work.recv.at) + at, own, bytes);
    __syncthreads();
  }
}

__device__ __forceinline__ void reduceScatterBuffered(ginrsCollWork const& work, Scratch& scratch) {
  if (work.along == GINRS_COLL_RING) {
    reduceScatterByRing(work, scratch);
  } else {
    reduceScatterByRounds(work, scratch);
  }
}

/* ---- Reduce: every team's pieces to its parent, the root team's to the root. ---- */

/* A part of the piece, from the children one after the other; with the last one the sum goes where it belongs. */
__device__ __forceinline__ void reduceFromChildren(ginrsCollWork const& work, Tree const& tree, AnyOperation const& op, Sources from, char* own,
                                                   char* result, uint64_t bytes) {
  auto has = [&](int distance) { return distance <= tree.widest && tree.hasChild(distance); };
  int distance = 1;
  for (; has(2 * distance); distance *= 2) {
    FromTeam in(work, tree.child(distance));
    from.more = in.open(work);
    reducePiece(op.partial(), bytes, from, Targets::one(own));
    in.close(work);
    from = {{own, 0}, 0, 1, nullptr};
  }
  bool const hasLast = has(distance);
  FromTeam in(work, hasLast ? tree.child(distance) : tree.rail.self);
  ToTeam out(work, tree.isRoot() ? tree.rail.self : tree.parent());
  if (hasLast) from.more = in.open(work);
  reducePiece(tree.isRoot() ? op : op.partial(), bytes, from, Targets::one(tree.isRoot() ? result : out.open(work)));
  if (hasLast) in.close(work);
  if (!tree.isRoot()) out.close(work, bytes);
}

__device__ __noinline__ void reduceByTree(ginrsCollWork const& work, Scratch& scratch) {
  Tree const tree = Tree::of(work);
  AnyOperation const op = AnyOperation::of(work);
  int const n = scratch.n, self = scratch.self, root = int(work.root) % n;
  Slices const slices = Slices::of(work.count * work.eltBytes, n * scratch.message, n * 128);
  for (uint64_t at = slices.first(); slices.has(work, at); at += slices.step()) {
    uint64_t const bytes = slices.bytes(at);
    Parts const parts = Parts::of(bytes, n);
    uint64_t const mine = parts.begin(self);
    Places const team = scratch.inputs(op, static_cast<char const*>(work.send.at) + at, mine, bytes);
    Results const results(scratch, static_cast<char*>(work.recv.at) + at);
    Cuts const cuts = Cuts::of(work, parts.size(self));
    for (uint64_t done = 0; done < cuts.bytes; done += cuts.each) {
      Sources const from = {{team.first + done, team.stride}, self, n, nullptr};
      reduceFromChildren(work, tree, op, from, scratch.own(), results.of(root, mine + done), cuts.size(done));
    }
    if (tree.isRoot()) results.take(bytes, self == root ? 1 : 0);
  }
}

}  // namespace coll
}  // namespace ginrs
#endif
