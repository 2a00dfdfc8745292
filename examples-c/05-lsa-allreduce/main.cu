// All-reduce by loads and stores: each rank owns a slice, sums it over all peers' windows and stores the sum into every
// one of them. Two LSA barriers, no copies, no messages. The ranks must be on one node.
#include "../common/example.h"

static const size_t kCount = 1 << 16;
static const int kBlocks = 4, kThreads = 256;

template <typename T>
__global__ void lsaAllReduce(ncclDevComm devComm, ncclWindow_t window, size_t offset, size_t count) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), devComm, ncclTeamLsa(devComm), devComm.lsaBarrier, blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel); // every rank's input is in place

  int nRanks = devComm.lsaSize;
  size_t worker = threadIdx.x + (size_t)blockDim.x * (blockIdx.x + gridDim.x * (size_t)devComm.lsaRank);
  size_t workers = (size_t)blockDim.x * gridDim.x * nRanks;
  for (size_t i = worker; i < count; i += workers) {
    T sum = 0;
    for (int peer = 0; peer < nRanks; peer++) sum += ((const T*)ncclGetLsaPointer(window, offset, peer))[i];
    for (int peer = 0; peer < nRanks; peer++) ((T*)ncclGetLsaPointer(window, offset, peer))[i] = sum;
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_release); // every sum is stored before anybody leaves
}

static float element(int rank, size_t i) { return (float)((i * 31 + rank * 17) % 1024); } // sums are exact in float

int runRank(Example& ex) {
  ncclWindow_t window;
  float* data = (float*)ex.allocWindow(kCount * sizeof(float), &window);
  std::vector<float> host(kCount);
  for (size_t i = 0; i < kCount; i++) host[i] = element(ex.rank, i);
  CUDACHECK(cudaMemcpy(data, host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));

  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.lsaBarrierCount = kBlocks;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
  if (devComm.lsaSize != ex.nRanks) {
    fprintf(stderr, "%d ranks, but only %d share a node: this example needs all of them on one\n", ex.nRanks, devComm.lsaSize);
    return 1;
  }

  lsaAllReduce<float><<<kBlocks, kThreads, 0, ex.stream>>>(devComm, window, 0, kCount);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(ex.stream));

  CUDACHECK(cudaMemcpy(host.data(), data, kCount * sizeof(float), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (size_t i = 0; i < kCount; i++) {
    float sum = 0;
    for (int r = 0; r < ex.nRanks; r++) sum += element(r, i);
    wrong |= host[i] != sum;
  }
  ex.elementsChecked = kCount;
  ex.bytesMoved = 2 * kCount * sizeof(float); // a slice read from and written to each rank, times nRanks slices over nRanks

  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(data, window);
  return wrong;
}
