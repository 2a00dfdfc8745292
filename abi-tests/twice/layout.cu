// The device communicator field by field, as the requirement walk predicts it; the same on both libraries where no GIN is in
// play. Three device communicators live at a time.
#include "twice.h"

static unsigned reciprocal(unsigned x) { return 0xffffffffu / x + ((x & (x - 1)) == 0 ? 1 : 0); }
static size_t up(size_t x, size_t to) { return (x + to - 1) / to * to; }

// Where the walk puts things: the rail entry first (empty here), the LSA barriers, then the list.
struct Walk {
  size_t offset = 0;
  unsigned place(size_t bytes, size_t align) {
    offset = up(offset, align > 128 ? align : 128);
    unsigned handle = (unsigned)(offset / 128);
    offset += bytes;
    return handle;
  }
};
static size_t barrierBytes(int barriers, int ranks) { return 4 * (3 * (size_t)barriers + (size_t)barriers * ranks); }

static void common(Example& ex, const ncclDevComm& dc) {
  ncclTeam lsa = ncclTeamLsa(ex.comm);
  TWICE_EXPECT(dc.rank, ex.rank);
  TWICE_EXPECT(dc.nRanks, ex.nRanks);
  TWICE_EXPECT(dc.nRanks_rcp32, reciprocal(ex.nRanks));
  TWICE_EXPECT(dc.lsaSize, lsa.nRanks);
  TWICE_EXPECT(dc.lsaRank, lsa.rank);
  TWICE_EXPECT(dc.lsaSize_rcp32, reciprocal(lsa.nRanks));
  TWICE_EXPECT(dc.windowTable != NULL, 1);
}

int runRank(Example& ex) {
  // All zero: no memory.
  ncclDevComm empty = devCommOf(ex, noRequirements());
  common(ex, empty);
  TWICE_EXPECT(empty.resourceWindow == NULL, 1);
  TWICE_EXPECT(empty.lsaBarrier.nBarriers, 0);
  TWICE_EXPECT(empty.ginContextCount, 0);

  // Barriers alone.
  ncclDevCommRequirements reqs = noRequirements();
  reqs.lsaBarrierCount = 16;
  ncclDevComm barriers = devCommOf(ex, reqs);
  common(ex, barriers);
  TWICE_EXPECT(barriers.lsaBarrier.bufHandle, 0);
  TWICE_EXPECT(barriers.lsaBarrier.nBarriers, 16);
  TWICE_EXPECT(barriers.resourceWindow != NULL, 1);
  size_t shadows = up(barrierBytes(16, barriers.lsaSize), 128);
  size_t base = (size_t)barriers.resourceWindow_inlined.lsaFlatBase +
                (size_t)barriers.lsaRank * barriers.resourceWindow_inlined.stride4G * (size_t(4) << 30);
  TWICE_EXPECT((size_t)barriers.ginSignalShadows - base, shadows);
  TWICE_EXPECT(barriers.resourceWindow_inlined.worldRank, ex.rank);
  TWICE_EXPECT(barriers.resourceWindow_inlined.ginOffset4K, 0);

  // A list: an LL all-to-all, a barrier of our own, and a buffer with a large alignment.
  ncclDevResourceRequirements list[3];
  memset(list, 0, sizeof list);
  ncclLLA2AHandle a2a;
  ncclLsaBarrierHandle own;
  ncclDevResourceHandle buffer = 77;
  NCCLCHECK(ncclLLA2ACreateRequirement(2, 100, &a2a, &list[0]));
  NCCLCHECK(ncclLsaBarrierCreateRequirement(ncclTeamLsa(ex.comm), 5, &own, &list[1]));
  list[2].bufferSize = 1000;
  list[2].bufferAlign = 8192;
  list[2].outBufferHandle = &buffer;
  list[0].next = &list[1];
  list[1].next = &list[2];
  TWICE_EXPECT(list[0].bufferSize, 2 * (1 + 2 * 100) * 16);
  TWICE_EXPECT(list[1].bufferSize, barrierBytes(5, barriers.lsaSize));
  reqs.resourceRequirementsList = list;
  ncclDevComm listed = devCommOf(ex, reqs);
  common(ex, listed);
  Walk walk;
  walk.place(0, 4);
  TWICE_EXPECT(listed.lsaBarrier.bufHandle, walk.place(barrierBytes(16, listed.lsaSize), 4));
  TWICE_EXPECT(a2a.bufHandle, walk.place(list[0].bufferSize, 16));
  TWICE_EXPECT(a2a.nSlots, 100);
  TWICE_EXPECT(own.bufHandle, walk.place(list[1].bufferSize, 4));
  TWICE_EXPECT(own.nBarriers, 5);
  TWICE_EXPECT(buffer, walk.place(1000, 8192));
  TWICE_EXPECT(ncclGetResourceBufferOffset(buffer), (size_t)buffer * 128);
  TWICE_EXPECT(listed.resourceWindow != barriers.resourceWindow, 1);

  NCCLCHECK(ncclDevCommDestroy(ex.comm, &barriers));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &empty));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &listed));
  ex.elementsChecked = 40;
  return twiceWrong != 0;
}
