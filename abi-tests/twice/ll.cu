// LL all-to-all: rounds of send and recv, of bcast and recvReduce, with elements of 4, 8 and 16 bytes, two blocks at once.
#include "twice.h"

static const int kRounds = 400, kBlocks = 2;


template <typename T>
__device__ T element(unsigned from, unsigned to, unsigned round);
template <>
__device__ unsigned element<unsigned>(unsigned from, unsigned to, unsigned round) {
  return from * 1000003u + to * 4099u + round * 7u;
}
template <>
__device__ unsigned long long element<unsigned long long>(unsigned from, unsigned to, unsigned round) {
  return (unsigned long long)element<unsigned>(from, to, round) << 32 | ~element<unsigned>(to, from, round);
}

template <typename T>
__global__ void exchange(ncclDevComm devComm, ncclLLA2AHandle handle, Found* found) {
  ncclTeam team = ncclTeamLsa(devComm);
  int n = team.nRanks;
  ncclLLA2ASession<ncclCoopCta> session{ncclCoopCta(), devComm, team, handle, blockIdx.x, n, false};
  for (int round = 0; round < kRounds; round++) {
    unsigned key = round * kBlocks + blockIdx.x;
    for (int peer = threadIdx.x; peer < n; peer += blockDim.x) {
      session.send(peer, team.rank, element<T>(team.rank, peer, key));
    }
    for (int peer = threadIdx.x; peer < n; peer += blockDim.x) {
      DEVICE_EXPECT(found, session.template recv<T>(peer), element<T>(peer, team.rank, key));
    }
    session.endEpoch(ncclCoopCta());
  }
}

// Every rank's value to all, summed from the slots by each.
__global__ void reduce(ncclDevComm devComm, ncclLLA2AHandle handle, Found* found) {
  ncclTeam team = ncclTeamLsa(devComm);
  int n = team.nRanks;
  ncclLLA2ASession<ncclCoopCta> session{ncclCoopCta(), devComm, team, handle, blockIdx.x, n, false};
  for (int round = 0; round < kRounds; round++) {
    if (threadIdx.x == 0) session.bcast(team.rank, team.rank * 100u + round);
    if (threadIdx.x < 8) {
      unsigned sum = session.template recvReduce<8, unsigned>(
          0, n, 1, [] __device__(unsigned x) { return x; }, [] __device__(unsigned a, unsigned b) { return a + b; });
      DEVICE_EXPECT(found, sum, (unsigned)(n * (n - 1) / 2 * 100 + n * round));
    }
    session.endEpoch(ncclCoopCta());
  }
}

int runRank(Example& ex) {
  ncclDevCommRequirements reqs = noRequirements();
  ncclDevResourceRequirements list;
  memset(&list, 0, sizeof list);
  ncclLLA2AHandle handle;
  int slots = ncclLLA2ACalcSlots(ncclTeamLsa(ex.comm).nRanks, 8);
  NCCLCHECK(ncclLLA2ACreateRequirement(kBlocks, slots, &handle, &list));
  reqs.resourceRequirementsList = &list;
  ncclDevComm devComm = devCommOf(ex, reqs);
  for (int turn = 0; turn < 2; turn++) {
    Found* found = foundNew();
    exchange<unsigned><<<kBlocks, 64, 0, ex.stream>>>(devComm, handle, found);
    foundReport(ex, found, "4-byte elements");
    found = foundNew();
    exchange<unsigned long long><<<kBlocks, 33, 0, ex.stream>>>(devComm, handle, found);
    foundReport(ex, found, "8-byte elements");
    found = foundNew();
    reduce<<<kBlocks, 64, 0, ex.stream>>>(devComm, handle, found);
    foundReport(ex, found, "bcast and recvReduce");
  }
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.elementsChecked = (size_t)kRounds * kBlocks * ex.nRanks * 4;
  return twiceWrong != 0;
}
