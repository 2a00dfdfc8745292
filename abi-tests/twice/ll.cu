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

template <>
__device__ ulonglong2 element<ulonglong2>(unsigned from, unsigned to, unsigned round) {
  unsigned long long low = element<unsigned long long>(from, to, round);
  return make_ulonglong2(low, ~low * 3);
}
__device__ unsigned long long folded(ulonglong2 x) { return x.x ^ x.y * 5; }
template <typename T>
__device__ unsigned long long folded(T x) {
  return x;
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
      DEVICE_EXPECT(found, folded(session.template recv<T>(peer)), folded(element<T>(peer, team.rank, key)));
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

int test(Example& ex) {
  ncclDevCommRequirements reqs = noRequirements();
  ncclDevResourceRequirements list;
  memset(&list, 0, sizeof list);
  ncclLLA2AHandle handle;
  int slots = ncclLLA2ACalcSlots(ncclTeamLsa(ex.comm).nRanks, 16);
  NCCLCHECK(ncclLLA2ACreateRequirement(kBlocks, slots, &handle, &list));
  reqs.resourceRequirementsList = &list;
  ncclDevComm devComm = devCommOf(ex, reqs);
  for (int turn = 0; turn < 2; turn++) {
    Found* found = foundNew(ex);
    exchange<unsigned><<<kBlocks, 64, 0, ex.stream>>>(devComm, handle, found);
    foundReport(ex, found, "4-byte elements");
    found = foundNew(ex);
    exchange<unsigned long long><<<kBlocks, 33, 0, ex.stream>>>(devComm, handle, found);
    foundReport(ex, found, "8-byte elements");
    found = foundNew(ex);
    exchange<ulonglong2><<<kBlocks, 64, 0, ex.stream>>>(devComm, handle, found);
    foundReport(ex, found, "16-byte elements");
    found = foundNew(ex);
    reduce<<<kBlocks, 64, 0, ex.stream>>>(devComm, handle, found);
    foundReport(ex, found, "bcast and recvReduce");
  }
  devCommGone(ex, devComm);
  ex.elementsChecked = (size_t)kRounds * kBlocks * ex.nRanks * 5;
  return twiceWrong != 0;
}
