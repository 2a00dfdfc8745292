/* What only moves bytes, among ranks of one LSA team, from buffers and to buffers that are in no window: each rank tells the others where
 * their kernels see its buffer, or that not all of them do. Where all have told, the loops of the direct way go over those addresses; else
 * it is staged. So ranks need not agree beforehand, and what a rank passes may change from call to call. */
#ifndef GINRS_COLLECTIVES_MAPPED_CUH_
#define GINRS_COLLECTIVES_MAPPED_CUH_
#include "direct.cuh"
#include "staged.cuh"

namespace ginrs {
namespace coll {

/* In each rank's memory, zero at first. */
struct MappedBoard {
  uint32_t arrived; /* blocks of this rank that have come to the present meeting */
  uint32_t met;     /* meetings; wraps */
  uint64_t pad[15];
  /* By rank of the team. That rank writes before the first meeting of a launch; read before the last, in which `at` becomes 0. */
  struct Told {
    uint64_t at;   /* where this rank's kernels see its buffer, or 0 */
    uint64_t call; /* callOf */
  } told[GINRS_MAPPED_RANKS];

  static __device__ __forceinline__ MappedBoard* of(ginrsMappedWork const& work, int rank) {
    return static_cast<MappedBoard*>(ncclGetResourceBufferLsaPointer(work.coll.comm, work.board, rank));
  }
};
static_assert(sizeof(MappedBoard) == GINRS_MAPPED_BOARD, "src/coll/setup.rs makes it");

/* All blocks of all ranks of the team meet: those of a rank at its board, the last of them the other ranks' last ones. */
struct Meeting {
  ncclDevComm const& comm;
  MappedBoard* own;

  /* `last`: of a launch. */
  __device__ __noinline__ void sync(bool last = false) const {
    __shared__ bool isLast;
    __shared__ uint32_t before;
    __syncthreads();
    if (threadIdx.x == 0) {
      /* It does not change until all have arrived. */
      before = loadRelaxed(&own->met);
      cuda::atomic_ref<uint32_t, cuda::thread_scope_device> arrived(own->arrived);
      isLast = arrived.fetch_add(1, cuda::memory_order_acq_rel) + 1 == allBlocks();
    }
    __syncthreads();
    if (isLast) {
      for (int k = threadIdx.x; last && k < comm.lsaSize; k += blockDim.x) storeRelaxed(&own->told[k].at, uint64_t(0));
      {
        Barrier barrier{ncclCoopCta(), comm, ncclTeamTagLsa(), 0};
        barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
      }
      if (threadIdx.x == 0) {
        storeRelaxed(&own->arrived, 0u);
        cuda::atomic_ref<uint32_t, cuda::thread_scope_device>(own->met).store(before + 1, cuda::memory_order_release);
      }
    } else if (threadIdx.x == 0) {
      until(
          comm, [&] { return look(&own->met, cuda::memory_order_acquire) != before; },
          [&] { return waitsFor(GINRS_WAITS_LSA, 0xffffff, &own->met, before + 1, 32); });
      settle(cuda::memory_order_acquire);
    }
    __syncthreads();
  }
};

/* A place of every rank's buffer: those begin anywhere. */
struct MappedPlaces {
  uint64_t const* begins;
  uint64_t offset;

  __device__ __forceinline__ char* at(int rank) const { return reinterpret_cast<char*>(begins[rank] + offset); }
  __device__ __forceinline__ MappedPlaces ahead(uint64_t by) const { return {begins, offset + by}; }
  __device__ __forceinline__ void spread(Crew crew, char const* from, uint64_t bytes, int self, int n) const {
    uint64_t different = 0;
    for (int k = 1; k < n; k++) different |= begins[k] ^ begins[0];
    if ((different & 15) == 0) {
      MappedPlaces const to = *this;
      copyTo<8>(crew, from, bytes, n, [=](int k) { return to.at(turn(self, k, n)); });
    } else {
      for (int k = 0; k < n; k++) copy(crew, at(turn(self, k, n)), from, bytes);
    }
  }
};

/* What all ranks have to call alike. */
__device__ __forceinline__ uint64_t callOf(ginrsCollWork const& work) {
  return headerOf(work.kind, work.count * work.eltBytes) ^ uint64_t(work.root) << 56;
}

/* The first meeting. True if every rank has told where its buffer is, for the same call: the same on all of them. Other calls are refused
 * on the staged way. */
__device__ __forceinline__ bool agree(ginrsMappedWork const& work, Meeting const& meeting, uint64_t* begins) {
  ncclDevComm const& comm = work.coll.comm;
  uint64_t const call = callOf(work.coll);
  bool told = true;
  if (ownBlock() == 0) {
    for (int k = threadIdx.x; k < comm.lsaSize; k += blockDim.x) MappedBoard::of(work, k)->told[comm.lsaRank] = {work.at[k], call};
  }
  meeting.sync();
  for (int k = threadIdx.x; k < comm.lsaSize; k += blockDim.x) {
    MappedBoard::Told* const of = &meeting.own->told[k];
    begins[k] = loadRelaxed(&of->at);
    told = told && begins[k] != 0 && loadRelaxed(&of->call) == call;
  }
  /* Who has left the meeting by an abort may find places of an earlier launch. */
  if (threadIdx.x == 0) told = told && !isAborted(comm, true);
  return __syncthreads_and(told) != 0;
}

__device__ __forceinline__ void copyingMapped(ginrsMappedWork const& work) {
  __shared__ uint64_t begins[GINRS_MAPPED_RANKS];
  Meeting const meeting{work.coll.comm, MappedBoard::of(work, work.coll.comm.lsaRank)};
  bool const agreed = agree(work, meeting, begins);
  if (agreed) copyingTogether(work.coll, MappedPlaces{begins, 0}, [&] { meeting.sync(); });
  /* All of them have read what they were told, and, where they agreed, all bytes are there. */
  meeting.sync(true);
  if (!agreed) copyingStaged(work.coll);
}

}  // namespace coll
}  // namespace ginrs
#endif
