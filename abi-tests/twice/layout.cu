// The device communicator field by field, as the requirement walk predicts it, and teams on host and device. The same on both
// libraries where no GIN is in play. Three device communicators live at a time.
#include "twice.h"

static unsigned reciprocal(unsigned x) { return 0xffffffffu / x + ((x & (x - 1)) == 0 ? 1 : 0); }
// Which backend was asked for.
static int ginType() {
  const char* type = getenv("NCCL_GIN_TYPE");
  return type && atoi(type) == 3 ? 3 : 2;
}
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

static void sameTeam(ncclTeam got, int nRanks, int rank, int stride) {
  TWICE_EXPECT(got.nRanks, nRanks);
  TWICE_EXPECT(got.rank, rank);
  TWICE_EXPECT(got.stride, stride);
}

__device__ void teamIs(Found* found, ncclTeam got, ncclTeam wanted) {
  DEVICE_EXPECT(found, got.nRanks, wanted.nRanks);
  DEVICE_EXPECT(found, got.rank, wanted.rank);
  DEVICE_EXPECT(found, got.stride, wanted.stride);
}

__global__ void teamsOnDevice(ncclDevComm dc, ncclTeam world, ncclTeam lsa, ncclTeam rail, Found* found) {
  teamIs(found, ncclTeamWorld(dc), world);
  teamIs(found, ncclTeamLsa(dc), lsa);
  teamIs(found, ncclTeamRail(dc), rail);
  int first = dc.rank - dc.lsaRank;
  for (int peer = 0; peer < lsa.nRanks; peer++) {
    DEVICE_EXPECT(found, ncclTeamRankToWorld(dc, lsa, peer), first + peer);
    DEVICE_EXPECT(found, ncclTeamRankToLsa(dc, world, first + peer), peer);
    DEVICE_EXPECT(found, ncclTeamRankToTeam(lsa, world, first + peer), peer);
    DEVICE_EXPECT(found, ncclTeamRankIsMember(lsa, world, first + peer), 1);
  }
  for (int node = 0; node < rail.nRanks; node++) {
    DEVICE_EXPECT(found, ncclTeamRankToWorld(dc, rail, node), node * lsa.nRanks + dc.lsaRank);
  }
  // The ranks of the world that are not of this node, in order.
  for (int i = 0; i < world.nRanks - lsa.nRanks; i++) {
    DEVICE_EXPECT(found, ncclTeamRankInDifference(world, lsa, i), i < first ? i : i + lsa.nRanks);
  }
  for (int size = 1; size <= world.nRanks; size++) {
    if (world.nRanks % size != 0) continue;
    teamIs(found, ncclTeamInnerFactor(world, size), ncclTeam{size, world.rank % size, 1});
    teamIs(found, ncclTeamOuterFactor(world, size), ncclTeam{world.nRanks / size, world.rank / size, size});
  }
}

static void teams(Example& ex, const ncclDevComm& dc) {
  ncclTeam lsa = ncclTeamLsa(ex.comm), rail = ncclTeamRail(ex.comm), world = ncclTeamWorld(ex.comm);
  int nodes = ex.nRanks / lsa.nRanks;
  sameTeam(world, ex.nRanks, ex.rank, 1);
  sameTeam(lsa, lsa.nRanks, ex.rank % lsa.nRanks, 1);
  sameTeam(rail, nodes, ex.rank / lsa.nRanks, lsa.nRanks);
  for (int peer = 0; peer < lsa.nRanks; peer++) {
    TWICE_EXPECT(ncclTeamRankToWorld(ex.comm, lsa, peer), ex.rank - lsa.rank + peer);
    TWICE_EXPECT(ncclTeamRankToLsa(ex.comm, lsa, peer), peer);
  }
  Found* found = foundNew(ex);
  teamsOnDevice<<<1, 1, 0, ex.stream>>>(dc, world, lsa, rail, found);
  foundReport(ex, found, "teams");
}

static size_t shadowsAt(const ncclDevComm& dc) {
  return (size_t)dc.ginSignalShadows - (size_t)dc.resourceWindow_inlined.lsaFlatBase -
         (size_t)dc.lsaRank * dc.resourceWindow_inlined.stride4G * (size_t(4) << 30);
}

// Rail barriers, signals and counters, twice: the second one's ids follow the first one's.
static void withGin(Example& ex) {
  ncclDevCommRequirements reqs = noRequirements();
  reqs.barrierCount = 4;
  reqs.ginSignalCount = 3;
  reqs.ginCounterCount = 2;
  ncclDevComm made[2];
  for (int i = 0; i < 2; i++) {
    ncclDevComm& dc = made[i] = devCommOf(ex, reqs);
    common(ex, dc);
    TWICE_EXPECT(dc.ginContextCount >= 1 && dc.ginContextCount <= 4, 1);
    for (int c = 0; c < 4; c++) {
      TWICE_EXPECT(dc.ginTypes[c], c < dc.ginContextCount ? ginType() : 0);
      TWICE_EXPECT(dc.ginHandles[c] != NULL, c < dc.ginContextCount);
    }
    TWICE_EXPECT(dc.ginSignalCount, 7);
    TWICE_EXPECT(dc.ginCounterCount, 2);
    TWICE_EXPECT(dc.ginSignalBase, made[0].ginSignalBase + 7 * i);
    TWICE_EXPECT(dc.ginCounterBase, made[0].ginCounterBase + 2 * i);
    TWICE_EXPECT(dc.railGinBarrier.signal0, 3);
    Walk walk;
    TWICE_EXPECT(dc.railGinBarrier.bufHandle, walk.place(4 * 16, 4));
    TWICE_EXPECT(dc.lsaBarrier.bufHandle, walk.place(barrierBytes(4, dc.lsaSize), 4));
    TWICE_EXPECT(dc.lsaBarrier.nBarriers, 4);
    TWICE_EXPECT(shadowsAt(dc), up(walk.offset, 128));
  }
  devCommGone(ex, made[0]);
  devCommGone(ex, made[1]);
}

int test(Example& ex) {
  // All zero: no memory.
  ncclDevComm empty = devCommOf(ex, noRequirements());
  common(ex, empty);
  teams(ex, empty);
  TWICE_EXPECT(empty.resourceWindow == NULL, 1);
  TWICE_EXPECT(empty.lsaBarrier.nBarriers, 0);
  if (empty.lsaSize == ex.nRanks) TWICE_EXPECT(empty.ginContextCount, 0);  // on several nodes GIN is always there

  // Barriers alone.
  ncclDevCommRequirements reqs = noRequirements();
  reqs.lsaBarrierCount = 16;
  ncclDevComm barriers = devCommOf(ex, reqs);
  common(ex, barriers);
  TWICE_EXPECT(barriers.lsaBarrier.bufHandle, 0);
  TWICE_EXPECT(barriers.lsaBarrier.nBarriers, 16);
  TWICE_EXPECT(barriers.resourceWindow != NULL, 1);
  size_t shadows = up(barrierBytes(16, barriers.lsaSize), 128);
  TWICE_EXPECT(shadowsAt(barriers), shadows);
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

  TWICE_EXPECT(shadowsAt(listed), up(walk.offset, 128));

  devCommGone(ex, barriers);
  devCommGone(ex, empty);
  devCommGone(ex, listed);
  ex.elementsChecked = 60;
  if (ginHere(ex)) withGin(ex);
  return twiceWrong != 0;
}
