// Communicators that are destroyed while their last calls run: each is made, used, destroyed, and only then the stream waited for. What a
// rank's kernels have yet to send must still arrive, also when nothing else happens in the process, which then ends.
//
//   ginrs-run -n 2 ./unwaited     also ./unwaited --threads 2, and over several nodes (GINRS_FAKE_NODES)
#include "../../examples-c/common/example.h"
#include <vector>

int runRank(Example& ex) {
  const size_t count = 20000;
  const int calls = 20;
  float *send, *recv;
  CUDACHECK(cudaMalloc(&send, count * sizeof(float)));
  CUDACHECK(cudaMalloc(&recv, count * sizeof(float)));
  std::vector<float> host(count, 1.0f);
  CUDACHECK(cudaMemcpy(send, host.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  int wrong = 0, last = ex.nRanks - 1;
  for (int round = 0; round < 4; round++) {
    ncclComm_t comm;
    NCCLCHECK(ncclCommSplit(ex.comm, 0, ex.rank, &comm, NULL));
    for (int i = 0; i < calls; i++) NCCLCHECK(ncclAllReduce(send, recv, count, ncclFloat, ncclSum, comm, ex.stream));
    if (ex.rank == 0 && last > 0) NCCLCHECK(ncclSend(recv, count, ncclFloat, last, comm, ex.stream));
    if (ex.rank == last && last > 0) NCCLCHECK(ncclRecv(recv, count, ncclFloat, 0, comm, ex.stream));
    NCCLCHECK(ncclCommDestroy(comm));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    CUDACHECK(cudaMemcpy(host.data(), recv, count * sizeof(float), cudaMemcpyDeviceToHost));
    for (float x : host) wrong += x != (float)ex.nRanks;
    ex.elementsChecked += count;
  }
  return wrong != 0;
}
