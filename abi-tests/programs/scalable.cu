// ncclCommInitRankScalable: every id is a meeting point, made on a rank of its own; ncclGroupSimulateEnd; what is refused. LATE: so many seconds
// later the last rank comes to one.
#include "children.h"

#include <unistd.h>

// Ids of the ranks `maker(i)`, on every rank.
static std::vector<ncclUniqueId> ids(Example& ex, int count) {
  ncclUniqueId* device;
  CUDACHECK(cudaMalloc((void**)&device, count * sizeof *device));
  std::vector<ncclUniqueId> all(count);
  for (int i = 0; i < count; i++) {
    int maker = (i * ex.nRanks + ex.nRanks - 1) / count; // not the first of its block
    if (ex.rank == maker) {
      NCCLCHECK(ncclGetUniqueId(&all[i]));
      CUDACHECK(cudaMemcpy(device + i, &all[i], sizeof *device, cudaMemcpyHostToDevice));
    }
    NCCLCHECK(ncclBroadcast(device + i, device + i, sizeof *device, ncclInt8, maker, ex.comm, ex.stream));
  }
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  CUDACHECK(cudaMemcpy(all.data(), device, count * sizeof *device, cudaMemcpyDeviceToHost));
  CUDACHECK(cudaFree(device));
  return all;
}

static void simulate(Example& ex) {
  int* value;
  CUDACHECK(cudaMalloc((void**)&value, sizeof *value));
  CUDACHECK(cudaMemset(value, 1, sizeof *value));
  CUDACHECK(cudaStreamSynchronize(NULL));
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclAllReduce(value, value, 1, ncclInt, ncclSum, ex.comm, ex.stream));
  NCCLCHECK(ncclGroupSimulateEnd(&info));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  int got;
  CUDACHECK(cudaMemcpy(&got, value, sizeof got, cudaMemcpyDeviceToHost));
  WANT(got == 0x01010101, "%x: the collective has run", got);
  WANT(info.estimatedTime == -1.0f, "%f", info.estimatedTime);
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclGroupSimulateEnd(&info));
  WANT(info.estimatedTime == 0.0f, "%f", info.estimatedTime);
  CUDACHECK(cudaFree(value));

  // An older struct, without the estimate; a newer, larger one; one that is none; no group.
  struct { ncclSimInfo_t known; char more[40]; } newer;
  memset(&newer, 0x5a, sizeof newer);
  newer.known = NCCL_SIM_INFO_INITIALIZER;
  newer.known.size = sizeof newer;
  newer.known.version = 23000;
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclGroupSimulateEnd(&newer.known));
  WANT(newer.known.estimatedTime == 0.0f && newer.more[0] == 0x5a, "newer");
  info.size = 16;
  info.estimatedTime = 42.0f;
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclGroupSimulateEnd(&info));
  WANT(info.estimatedTime == 42.0f, "%f", info.estimatedTime);
  info.magic = 7;
  NCCLCHECK(ncclGroupStart());
  RETURNS(ncclInvalidArgument, ncclGroupSimulateEnd(&info));
  NCCLCHECK(ncclGroupStart());
  RETURNS(ncclInvalidArgument, ncclGroupSimulateEnd(NULL));
  info = NCCL_SIM_INFO_INITIALIZER;
  RETURNS(ncclInvalidUsage, ncclGroupSimulateEnd(&info));
}

int runRank(Example& ex) {
  for (int count = 1; count <= ex.nRanks; count++) {
    std::vector<ncclUniqueId> all = ids(ex, count);
    ncclComm_t comm;
    // The other blocks wait for it.
    if (getenv("LATE") && count == 2 && ex.rank == ex.nRanks - 1) usleep(1000000 * atoi(getenv("LATE")));
    NCCLCHECK(ncclCommInitRankScalable(&comm, ex.nRanks, ex.rank, count, all.data(), NULL));
    wantPlace(comm, ex.rank, ex.nRanks);
    Traffic traffic;
    traffic.open(comm);
    traffic.start(2);
    traffic.check(ex);
    traffic.close();
    NCCLCHECK(ncclCommDestroy(comm));
  }
  std::vector<ncclUniqueId> all = ids(ex, 2);
  ncclComm_t comm;
  int n = ex.nRanks, r = ex.rank;
  RETURNS(ncclInvalidArgument, ncclCommInitRankScalable(&comm, n, r, 0, all.data(), NULL));
  RETURNS(ncclInvalidArgument, ncclCommInitRankScalable(&comm, n, r, n + 1, all.data(), NULL));
  RETURNS(ncclInvalidArgument, ncclCommInitRankScalable(&comm, n, n, 1, all.data(), NULL));
  RETURNS(ncclInvalidArgument, ncclCommInitRankScalable(&comm, n, r, 1, NULL, NULL));
  RETURNS(ncclInvalidArgument, ncclCommInitRankScalable(NULL, n, r, 1, all.data(), NULL));
  all[1] = all[0];
  if (n > 1) RETURNS(ncclInvalidArgument, ncclCommInitRankScalable(&comm, n, r, 2, all.data(), NULL)); // one id twice
  simulate(ex);
  return 0;
}
