/* T033, T034: team arithmetic against brute force. */
#include <nccl.h>
#include <nccl_device.h>

#include <vector>

#include "check.h"

static ncclDevComm devComm(int rank, int nRanks, int lsaSize) {
  ncclDevComm comm = {};
  comm.rank = rank;
  comm.nRanks = nRanks;
  comm.nRanks_rcp32 = nccl::utility::idivRcp32(uint32_t(nRanks));
  comm.lsaSize = lsaSize;
  comm.lsaRank = rank % lsaSize;
  comm.lsaSize_rcp32 = nccl::utility::idivRcp32(uint32_t(lsaSize));
  return comm;
}
static int worldRank(int self, ncclTeam team, int rank) {
  return self + (rank - team.rank) * team.stride;
}

static void worldLsaRail() {
  for (int lsaSize = 1; lsaSize <= 9; lsaSize++) {
    for (int nodes = 1; nodes <= 7; nodes++) {
      for (int rank = 0; rank < lsaSize * nodes; rank++) {
        ncclDevComm comm = devComm(rank, lsaSize * nodes, lsaSize);
        ncclTeam world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm), rail = ncclTeamRail(comm);
        CHECK(world.nRanks == lsaSize * nodes && world.rank == rank && world.stride == 1);
        CHECK(lsa.nRanks == lsaSize && lsa.rank == rank % lsaSize && lsa.stride == 1);
        CHECK(rail.nRanks == nodes && rail.rank == rank / lsaSize && rail.stride == lsaSize);
        for (int i = 0; i < nodes; i++) CHECK(ncclTeamRankToWorld(comm, rail, i) == i * lsaSize + rank % lsaSize);
        for (int i = 0; i < lsaSize; i++) {
          CHECK(ncclTeamRankToWorld(comm, lsa, i) == rank - rank % lsaSize + i);
          CHECK(ncclTeamRankToLsa(comm, world, rank - rank % lsaSize + i) == i);
        }
      }
    }
  }
}

/* Every strided team of a world of 13 that contains `self`. */
static std::vector<ncclTeam> teamsOf(int self) {
  std::vector<ncclTeam> teams;
  for (int stride = -3; stride <= 3; stride++) {
    for (int n = 1; stride != 0 && n <= 4; n++) {
      for (int rank = 0; rank < n; rank++) {
        int first = self - rank * stride, last = first + (n - 1) * stride;
        if (first >= 0 && first < 13 && last >= 0 && last < 13) teams.push_back(ncclTeam{n, rank, stride});
      }
    }
  }
  return teams;
}

static void membership() {
  for (int self = 0; self < 13; self++) {
    std::vector<ncclTeam> teams = teamsOf(self);
    for (ncclTeam a : teams) {
      for (ncclTeam b : teams) {
        for (int peer = 0; peer < b.nRanks; peer++) {
          int found = -1;
          for (int i = 0; i < a.nRanks; i++) {
            if (worldRank(self, a, i) == worldRank(self, b, peer)) found = i;
          }
          CHECK(ncclTeamRankIsMember(a, b, peer) == (found >= 0));
          if (found >= 0) CHECK(ncclTeamRankToTeam(a, b, peer) == found);
        }
      }
    }
  }
}

static void difference() {
  for (int self = 0; self < 13; self++) {
    for (ncclTeam parent : {ncclTeam{13, self, 1}, ncclTeam{13, 12 - self, -1}}) {
      for (ncclTeam subset : teamsOf(self)) {
        std::vector<int> rest;
        for (int i = 0; i < parent.nRanks; i++) {
          bool isIn = false;
          for (int j = 0; j < subset.nRanks; j++) isIn |= worldRank(self, parent, i) == worldRank(self, subset, j);
          if (!isIn) rest.push_back(i);
        }
        for (int i = 0; i < int(rest.size()); i++) CHECK(ncclTeamRankInDifference(parent, subset, i) == rest[i]);
      }
    }
  }
}

static void factors() {
  for (int n : {1, 2, 3, 4, 6}) {
    for (int rank = 0; rank < 12; rank++) {
      ncclTeam parent = {12, rank, 2};
      ncclTeam inner = ncclTeamInnerFactor(parent, n), outer = ncclTeamOuterFactor(parent, n);
      if (12 % n != 0) continue;
      CHECK(inner.nRanks == n && inner.rank == rank % n && inner.stride == 2);
      CHECK(outer.nRanks == 12 / n && outer.rank == rank / n && outer.stride == 2 * n);
    }
  }
}

int main() {
  worldLsaRail();
  membership();
  difference();
  factors();
  CHECK(ncclGetResourceBufferOffset(3) == 384);
  CHECK(ncclGetResourceBufferOffset(0xffffffff) == 0xffffffffull * 128);
  return failures;
}
