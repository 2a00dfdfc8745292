// Small messages with data and flag in one store (LLA2A): in each round every rank broadcasts a vector and reduces what
// it received from all of them. No barrier: the flag in each 16-byte line says that the line is new.
#include "../common/example.h"

static const int kElements = 32; // per rank and round: one for each thread
static const int kRounds = 50;

// One CTA of kElements threads; thread e broadcasts element e and reduces element e of all ranks.
__global__ void llBroadcastReduce(ncclDevComm devComm, ncclLLA2AHandle handle, const double* input, double* output, int rounds) {
  ncclTeam lsa = ncclTeamLsa(devComm);
  ncclLLA2ASession<ncclCoopCta> a2a(ncclCoopCta(), devComm, lsa, handle, blockIdx.x, kElements * lsa.nRanks);
  int e = threadIdx.x;
  double carried = input[e];
  for (int round = 0; round < rounds; round++) {
    a2a.bcast(lsa.rank * kElements + e, carried);
    double sum = a2a.recvReduce<4, double>(
        e, lsa.nRanks, kElements, [](double x) { return x; }, [](double x, double y) { return x + y; });
    carried = sum / lsa.nRanks + lsa.rank; // ranks differ again in the next round
    a2a.endEpoch(ncclCoopCta());
  }
  output[e] = carried;
}

int runRank(Example& ex) {
  double *input, *output, host[kElements];
  CUDACHECK(cudaMalloc(&input, sizeof host));
  CUDACHECK(cudaMalloc(&output, sizeof host));
  for (int e = 0; e < kElements; e++) host[e] = ex.rank * 64 + e;
  CUDACHECK(cudaMemcpy(input, host, sizeof host, cudaMemcpyHostToDevice));

  ncclLLA2AHandle handle;
  ncclDevResourceRequirements resource;
  NCCLCHECK(ncclLLA2ACreateRequirement(1, ncclLLA2ACalcSlots(kElements * ex.nRanks, sizeof(double)), &handle, &resource));
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.resourceRequirementsList = &resource;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  if (devComm.lsaSize != ex.nRanks) {
    fprintf(stderr, "%d ranks, but only %d share a node: this example needs all of them on one\n", ex.nRanks, devComm.lsaSize);
    return 1;
  }

  llBroadcastReduce<<<1, kElements, 0, ex.stream>>>(devComm, handle, input, output, kRounds);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  CUDACHECK(cudaMemcpy(host, output, sizeof host, cudaMemcpyDeviceToHost));

  // The same sums on the host, in the same order.
  int wrong = 0;
  for (int e = 0; e < kElements; e++) {
    std::vector<double> carried(ex.nRanks);
    for (int r = 0; r < ex.nRanks; r++) carried[r] = r * 64 + e;
    for (int round = 0; round < kRounds; round++) {
      double sum = carried[0];
      for (int r = 1; r < ex.nRanks; r++) sum += carried[r];
      for (int r = 0; r < ex.nRanks; r++) carried[r] = sum / ex.nRanks + r;
    }
    wrong |= host[e] != carried[ex.rank];
  }
  ex.elementsChecked = kElements;
  ex.bytesMoved = (size_t)kRounds * kElements * sizeof(double) * ex.nRanks;

  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  CUDACHECK(cudaFree(input));
  CUDACHECK(cudaFree(output));
  return wrong;
}
