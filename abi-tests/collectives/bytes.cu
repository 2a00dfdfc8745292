// Some calls of one collective and nothing else, so that what GIN has carried is theirs: KIND as in case.h, BYTES of its count, CALLS.
//
//   NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET KIND=AllReduce BYTES=1048576 GINRS_FAKE_NODES=0,0,1,1 ginrs-run -n 4 ./bytes
#include "../../examples-c/common/example.h"
#include "case.h"

int runRank(Example& ex) {
  const char *kind = getenv("KIND"), *bytes = getenv("BYTES"), *calls = getenv("CALLS");
  Case c = {};
  c.values = {ncclFloat32, kSum, ex.nRanks, 1};
  c.count = (bytes ? atoll(bytes) : 1 << 20) / 4;
  c.rank = ex.rank;
  c.root = ex.nRanks - 1;
  while (kind && c.kind < kKinds && strcmp(kind, kindName(c.kind)) != 0) c.kind++;
  if (c.kind == kKinds) fprintf(stderr, "KIND=%s is none\n", kind), exit(2);
  char *send, *recv;
  CUDACHECK(cudaMalloc(&send, c.inputs() * 4));
  CUDACHECK(cudaMalloc(&recv, c.outputs() * 4));
  place(c, send, recv);
  for (int i = calls ? atoi(calls) : 1; i > 0; i--) NCCLCHECK(callCase(c, ncclSum, ex.comm, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  CUDACHECK(cudaFree(send));
  CUDACHECK(cudaFree(recv));
  return 0;
}
