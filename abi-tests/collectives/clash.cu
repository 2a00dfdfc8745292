// Calls of one group that touch the same memory. CLASH: recvs, into buffers that share bytes; output, a reduction in place that is sent on; lawful, what
// several calls only read, a part that stays in place, and a message to oneself that does.
#include "../../examples-c/common/example.h"

int runRank(Example& ex) {
  const char* clash = getenv("CLASH");
  const size_t count = 1000;
  int peer = (ex.rank + 1) % ex.nRanks;
  int *a, *b;
  CUDACHECK(cudaMalloc((void**)&a, ex.nRanks * count * sizeof(int)));
  CUDACHECK(cudaMalloc((void**)&b, 4 * count * sizeof(int)));
  CUDACHECK(cudaMemset(a, 0, ex.nRanks * count * sizeof(int)));
  for (int turn = 0; turn < 2; turn++) {
    NCCLCHECK(ncclGroupStart());
    if (strcmp(clash, "recvs") == 0) {
      for (int i = 0; i < 2; i++) NCCLCHECK(ncclSend(a, count, ncclInt32, peer, ex.comm, ex.stream));
      NCCLCHECK(ncclRecv(b, count, ncclInt32, peer, ex.comm, ex.stream));              // first recv
      NCCLCHECK(ncclRecv(b + count - 1, count, ncclInt32, peer, ex.comm, ex.stream));  // second recv
    } else if (strcmp(clash, "output") == 0) {
      NCCLCHECK(ncclSend(a, count, ncclInt32, peer, ex.comm, ex.stream));
      NCCLCHECK(ncclRecv(b, count, ncclInt32, peer, ex.comm, ex.stream));
      NCCLCHECK(ncclAllReduce(a, a, count, ncclInt32, ncclSum, ex.comm, ex.stream));
    } else {
      NCCLCHECK(ncclAllGather(a + ex.rank * count, a, count, ncclInt32, ex.comm, ex.stream));
      NCCLCHECK(ncclSend(a + ex.rank * count, count, ncclInt32, peer, ex.comm, ex.stream));
      NCCLCHECK(ncclRecv(b, count, ncclInt32, peer, ex.comm, ex.stream));
      NCCLCHECK(ncclAllReduce(a + ex.rank * count, b + count, count, ncclInt32, ncclSum, ex.comm, ex.stream));
      NCCLCHECK(ncclSend(b + 3 * count, count, ncclInt32, ex.rank, ex.comm, ex.stream));
      NCCLCHECK(ncclRecv(b + 3 * count, count, ncclInt32, ex.rank, ex.comm, ex.stream));
    }
    NCCLCHECK(ncclGroupEnd());
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  }
  printf("rank %d: ok\n", ex.rank);
  return 0;
}
