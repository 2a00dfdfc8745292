/* Reductions of any buffers, slice by slice. Inside an LSA team the ranks bring their inputs to scratch that all of them reach, meet, and
 * each reduces its piece from everybody's. Between teams the pieces go along rails: each rank has to do with one rank of another team
 * at a time, and only that crosses. Blocks do not wait for each other, so while one waits for its rail another works in its team. */
#ifndef GINRS_COLLECTIVES_BUFFERED_CUH_
#define GINRS_COLLECTIVES_BUFFERED_CUH_
#include "rail.cuh"
#include "scratch.cuh"

namespace ginrs {
namespace coll {

template <typename T>
__device__ __forceinline__ void reducePiece(Operation<T> const& op, uint64_t bytes, Sources const& from, Targets const& to) {
  bool const alike = (uint64_t(to.at(0)) & 15) == 0; /* all else is in scratch and slots */
  reduceTo<T>(op, Crew::block(), bytes / sizeof(typename T::Stored), alike, from, to);
}

/* Every team's piece, reduced, in everybody's: in log2(teams) rounds, which takes more bytes than a ring. What is more than a power of
 * two of teams is added to others before, and told after. In order of teams, so that all get the same bits. */
template <typename T>
__device__ __forceinline__ void exchangeByDoubling(ginrsCollWork const& work, Rail const& rail, Operation<T> const& op, char* piece, uint64_t bytes) {
  if (bytes == 0) return;
  int paired = 1;
  while (2 * paired <= rail.teams) paired *= 2;
  if (rail.self >= paired) {
    ToTeam(work, rail.self - paired).send(work, piece, bytes);
    FromTeam(work, rail.self - paired).receive(work, piece, bytes);
    return;
  }
  bool const stands = rail.self + paired < rail.teams; /* for another */
  for (int distance = stands ? paired : 1; distance != 0;) {
    int const other = rail.self ^ distance;
    if (distance < paired) ToTeam(work, other).send(work, piece, bytes);
    FromTeam in(work, other);
    char const* const theirs = in.open(work);
    char const *const low = other < rail.self ? theirs : piece, *const high = other < rail.self ? piece : theirs;
    bool const last = distance == paired / 2;
    reducePiece<T>(last ? op : op.partial(), bytes, Sources{{const_cast<char*>(low), high - low}, 0, 2, nullptr}, Targets::one(piece));
    in.close(work);
    distance = last ? 0 : distance == paired ? 1 : 2 * distance;
  }
  if (stands) ToTeam(work, rail.self + paired).send(work, piece, bytes);
}

/* ---- All-reduce. ---- */

/* The rank's piece in as many parts as there are teams. Each part goes once around and is added to what the team has brought for it,
 * and once more to be told. `team`: the piece in everybody's bank, `mine`: its offset in theirs for results. */
template <typename T>
__device__ __forceinline__ void exchangeByRing(ginrsCollWork const& work, Rail const& rail, Neighbours& ring, Scratch const& scratch,
                                               Operation<T> const& op, Places const& team, uint64_t mine, uint64_t bytes) {
  Parts const parts = Parts::of(bytes, rail.teams);
  for (int step = 0; step < 2 * rail.teams - 1; step++) {
    bool const adds = step < rail.teams, whole = step == rail.teams - 1; /* with this step the part is of all teams */
    int const part = rail.behind(adds ? step : step - rail.teams);
    uint64_t const size = parts.size(part), at = parts.begin(part);
    if (size == 0) continue;
    char const* const received = step > 0 ? ring.in.open(work) : nullptr;
    char* const slot = step < 2 * rail.teams - 2 ? ring.out.open(work) : nullptr;
    Targets const told = scratch.everybody(mine + at, slot);
    if (adds) {
      reducePiece<T>(whole ? op : op.partial(), size, Sources{{team.first + at, team.stride}, scratch.self, scratch.n, received},
                     whole ? told : Targets::one(slot));
    } else {
      spreadByBlock(told, received, size);
    }
    if (received != nullptr) ring.in.close(work);
    if (slot != nullptr) ring.out.close(work, size);
  }
}

template <typename T>
__device__ __forceinline__ void allReduceBuffered(ginrsCollWork const& work, Scratch& scratch) {
  Rail const rail = Rail::of(work.comm);
  Operation<T> const op = Operation<T>::of(work);
  char const* const send = static_cast<char const*>(work.send.at);
  char* const recv = static_cast<char*>(work.recv.at);
  int const n = scratch.n, self = scratch.self;
  bool const byRing = work.along == GINRS_COLL_RING;
  Neighbours ring(work, rail);
  Slices const slices = Slices::of(work.count * sizeof(typename T::Stored), n * (byRing ? scratch.piece : scratch.message), n * 128);
  for (uint64_t at = slices.first(); at < slices.total; at += slices.step()) {
    uint64_t const bytes = slices.bytes(at);
    Parts const parts = Parts::of(bytes, n);
    uint64_t const mine = parts.begin(self), size = parts.size(self);
    scratch.bring<T>(op, 0, send + at, bytes);
    scratch.meet();
    Places const team = scratch.bank(mine);
    scratch.next();
    if (rail.teams == 1) {
      reducePiece<T>(op, size, Sources{team, self, n, nullptr}, scratch.everybody(mine, nullptr));
    } else if (byRing) {
      exchangeByRing<T>(work, rail, ring, scratch, op, team, mine, size);
    } else {
      char* const piece = scratch.own();
      reducePiece<T>(op.partial(), size, Sources{team, self, n, nullptr}, Targets::one(piece));
      __syncthreads();
      exchangeByDoubling<T>(work, rail, op, piece, size);
      __syncthreads();
      spreadByBlock(scratch.everybody(mine, nullptr), piece, size);
    }
    scratch.meet();
    scratch.take(recv + at, 0, bytes);
    scratch.next();
  }
}

/* ---- Reduce-scatter: every team's block goes once around the rail, and ends at that team. ---- */

template <typename T>
__device__ __forceinline__ void reduceScatterByRing(ginrsCollWork const& work, Scratch& scratch) {
  Rail const rail = Rail::of(work.comm);
  Operation<T> const op = Operation<T>::of(work);
  char const* const send = static_cast<char const*>(work.send.at);
  char* const recv = static_cast<char*>(work.recv.at);
  int const n = scratch.n, self = scratch.self, teams = rail.teams;
  uint64_t const part = work.count * sizeof(typename T::Stored);
  Neighbours ring(work, rail);
  Slices const slices = Slices::of(part, scratch.message, 128);
  for (uint64_t at = slices.first(); at < slices.total; at += slices.step()) {
    uint64_t const bytes = slices.bytes(at);
    for (int step = 0; step < teams; step++) {
      int const team = turn(rail.behind(1), teams - step, teams);
      bool const last = step == teams - 1;
      for (int k = 0; k < n; k++) scratch.bring<T>(op, k * scratch.message, send + uint64_t(team * n + k) * part + at, bytes);
      scratch.meet();
      Places const from = scratch.bank(self * scratch.message);
      scratch.next();
      char const* const received = step > 0 ? ring.in.open(work) : nullptr;
      char* const to = last ? recv + at : ring.out.open(work);
      reducePiece<T>(last ? op : op.partial(), bytes, Sources{from, self, n, received}, Targets::one(to));
      if (step > 0) ring.in.close(work);
      if (!last) ring.out.close(work, bytes);
    }
  }
}

/* ---- Reduce: every team's pieces to its parent, the root team's to the root. ---- */

template <typename T>
__device__ __forceinline__ void reduceByTree(ginrsCollWork const& work, Scratch& scratch) {
  Tree const tree = Tree::of(work);
  Operation<T> const op = Operation<T>::of(work);
  char const* const send = static_cast<char const*>(work.send.at);
  int const n = scratch.n, self = scratch.self, root = int(work.root) % n;
  Slices const slices = Slices::of(work.count * sizeof(typename T::Stored), n * scratch.message, n * 128);
  for (uint64_t at = slices.first(); at < slices.total; at += slices.step()) {
    uint64_t const bytes = slices.bytes(at);
    Parts const parts = Parts::of(bytes, n);
    uint64_t const mine = parts.begin(self), size = parts.size(self);
    scratch.bring<T>(op, 0, send + at, bytes);
    scratch.meet();
    Sources from = {scratch.bank(mine), self, n, nullptr};
    scratch.next();
    if (size > 0) {
      /* Children one after the other; with the last one the sum goes where it belongs. */
      int distance = 1;
      while (distance <= tree.widest && tree.hasChild(distance)) {
        int const following = 2 * distance;
        bool const last = following > tree.widest || !tree.hasChild(following);
        if (last) break;
        FromTeam in(work, tree.child(distance));
        from.more = in.open(work);
        reducePiece<T>(op.partial(), size, from, Targets::one(scratch.own()));
        in.close(work);
        from = {{scratch.own(), 0}, 0, 1, nullptr};
        distance = following;
      }
      bool const hasChild = distance <= tree.widest && tree.hasChild(distance);
      FromTeam in(work, hasChild ? tree.child(distance) : tree.rail.self);
      if (hasChild) from.more = in.open(work);
      if (tree.isRoot()) {
        reducePiece<T>(op, size, from, Targets::one(scratch.bank(mine).at(root)));
        if (hasChild) in.close(work);
      } else {
        ToTeam out(work, tree.parent());
        reducePiece<T>(op.partial(), size, from, Targets::one(out.open(work)));
        if (hasChild) in.close(work);
        out.close(work, size);
      }
    }
    if (tree.isRoot()) {
      scratch.meet();
      if (self == root) scratch.take(static_cast<char*>(work.recv.at) + at, 0, bytes);
      scratch.next();
    }
  }
}

template <typename T>
__device__ __forceinline__ void reducingBuffered(ginrsCollWork const& work) {
  Barrier barrier{ncclCoopCta(), work.comm, ncclTeamTagLsa(), blockIdx.x};
  Scratch scratch(work, barrier);
  switch (work.kind) {
    case GINRS_COLL_ALL_REDUCE: allReduceBuffered<T>(work, scratch); break;
    case GINRS_COLL_REDUCE_SCATTER: reduceScatterByRing<T>(work, scratch); break;
    default: reduceByTree<T>(work, scratch);
  }
  scratch.end();
}

}  // namespace coll
}  // namespace ginrs
#endif
