// Every method of ncclGin once and checked: value sizes, counters, shadows, resets, rolling widths, puts to oneself, windows
// over parts of an allocation, window look-up, user barriers from the requirements list.
#include "../../examples-c/common/example.h"

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) {                                                            \
      printf("api.cu:%d: rank %d thread %d: %s\n", __LINE__, rank, (int)threadIdx.x, #condition); \
      atomicAdd(wrong, 1);                                                         \
    }                                                                              \
  } while (0)

struct Fields {
  uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64; float f32; double f64;
};

__device__ int launches; // once per device, also when ranks are threads

__global__ void values(ncclDevComm devComm, ncclSymPtr<Fields> inbox, ncclSymPtr<Fields> part, int* wrong) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  int rank = world.rank, n = world.nRanks, right = (rank + 1) % n, left = (rank + n - 1) % n;
  if (threadIdx.x == 0) {
    atomicAdd(&launches, 1);
    ncclWindow_t w = inbox.window;
    size_t o = inbox.offset;
    gin.putValue(world, right, w, o + offsetof(Fields, u8), (uint8_t)(rank + 1));
    gin.putValue(world, right, w, o + offsetof(Fields, u16), (uint16_t)(rank * 257 + 2));
    gin.putValue(world, right, w, o + offsetof(Fields, u32), (uint32_t)(rank * 65539u + 0x80000003u));
    gin.putValue(world, right, w, o + offsetof(Fields, u64), 0xfedcba9876543210ull + rank);
    gin.putValue(world, right, w, o + offsetof(Fields, f32), 1.5f + rank);
    gin.putValue(world, right, w, o + offsetof(Fields, f64), -2.25 * (rank + 1), ncclGin_SignalInc{0});
    gin.waitSignal(ncclCoopThread(), 0, 1);
    const Fields* got = inbox.localPtr();
    EXPECT(got->u8 == (uint8_t)(left + 1));
    EXPECT(got->u16 == (uint16_t)(left * 257 + 2));
    EXPECT(got->u32 == left * 65539u + 0x80000003u);
    EXPECT(got->u64 == 0xfedcba9876543210ull + left);
    EXPECT(got->f32 == 1.5f + left);
    EXPECT(got->f64 == -2.25 * (left + 1));

    // The second window starts inside the same allocation.
    gin.put(world, right, part, inbox, 1, ncclGin_SignalAdd{1, 5}, ncclGin_CounterInc{0});
    gin.waitCounter(ncclCoopThread(), 0, 1);
    gin.waitSignal(ncclCoopThread(), 1, 5);
    EXPECT(gin.readCounter(0) == 1);
    EXPECT(part.localPtr()->u64 == 0xfedcba9876543210ull + (left + n - 1) % n);
    gin.resetCounter(0);
    EXPECT(gin.readCounter(0) == 0);

    // To oneself, nothing in it, with a signal and a counter.
    gin.put(world, rank, inbox, inbox, 0, ncclGin_SignalInc{2}, ncclGin_CounterInc{1});
    gin.waitSignal(ncclCoopThread(), 2, 1);
    gin.waitCounter(ncclCoopThread(), 1, 1, 8);
    gin.resetSignal(2);
    EXPECT(gin.readSignal(2) == 0);

    // Shadows follow what was awaited.
    gin.increaseSignalShadow(3, 2);
    gin.signal(world, right, ncclGin_SignalInc{3});
    gin.signal(world, right, ncclGin_SignalInc{3});
    gin.waitSignalMeetShadow(ncclCoopThread(), 3);
    EXPECT(*gin.getSignalShadowPtr(3) == 2);
    gin.signal(world, right, ncclGin_SignalInc{3});
    uint64_t before, delta;
    gin.waitSignalFollowShadow(ncclCoopThread(), 3, (uint64_t)1, &before, &delta);
    EXPECT(before == 2 && delta >= 1);

    // Only the low bits count: 2^40 - 1 added to a zero signal reads as 255 in 8 bits.
    gin.signal(world, right, ncclGin_SignalAdd{4, (1ull << 40) - 1});
    gin.waitSignal(ncclCoopThread(), 4, (1ull << 40) - 1);
    EXPECT(gin.readSignal(4, 8) == 255);
    EXPECT(gin.readSignal(4, 32) == 0xffffffffull);
    gin.flush(ncclCoopThread());
  }
}

__global__ void barriers(ncclDevComm devComm, ncclGinBarrierHandle userGin, ncclLsaBarrierHandle userLsa, ncclSymPtr<int> slots,
                         int rounds, int* wrong) {
  ncclGin gin(devComm, blockIdx.x);
  ncclTeam world = ncclTeamWorld(devComm);
  int rank = world.rank, n = world.nRanks;
  for (int session = 0; session < 2; session++) { // the epoch survives the session
    ncclGinBarrierSession<ncclCoopCta> g(ncclCoopCta(), gin, world, userGin, blockIdx.x);
    for (int round = 0; round < rounds; round++) {
      int value = (session * rounds + round + 1) * 100 + rank;
      if (threadIdx.x == 0)
        for (int peer = 0; peer < n; peer++)
          gin.putValue(world, peer, slots + (blockIdx.x * n + rank), value, ncclGin_SignalInc{(ncclGinSignal_t)(5 + blockIdx.x)});
      gin.waitSignal(ncclCoopCta(), 5 + blockIdx.x, (uint64_t)n * (session * rounds + round + 1));
      for (int from = threadIdx.x; from < n; from += blockDim.x)
        EXPECT(slots.localPtr()[blockIdx.x * n + from] == (session * rounds + round + 1) * 100 + from);
      g.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
    }
  }
  if (devComm.lsaSize == n) {
    ncclTeam lsa = ncclTeamLsa(devComm);
    ncclLsaBarrierSession<ncclCoopCta> l(ncclCoopCta(), devComm, lsa, userLsa, blockIdx.x);
    for (int round = 0; round < rounds; round++) {
      if (threadIdx.x == 0) slots.lsaPtr((rank + 1) % n)[blockIdx.x * n + rank] = round * 7 + rank;
      l.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
      int left = (rank + n - 1) % n;
      EXPECT(slots.localPtr()[blockIdx.x * n + left] == round * 7 + left);
      l.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
    }
  }
}

__global__ void lookUp(ncclDevComm devComm, char* memory, ncclWindow_t first, ncclWindow_t second, size_t secondStart, int* wrong) {
  int rank = devComm.rank;
  EXPECT(ncclFindWindow(ncclCoopCta(), devComm, memory + 5) == first);
  EXPECT((char*)ncclGetLsaPointer(first, 8, devComm.lsaRank) == (char*)ncclGetLocalPointer(first, 8));
  EXPECT((char*)ncclGetLocalPointer(second, 0) == (char*)ncclGetLocalPointer(first, secondStart));
  EXPECT((char*)ncclGetPeerPointer(first, 8, ncclTeamLsa(devComm), 0) == (char*)ncclGetLsaPointer(first, 8, 0));
}

__global__ void readLaunches(int* out) { *out = launches; }

int runRank(Example& ex) {
  const size_t total = 8 << 20, partStart = 3 << 20;
  char* memory;
  NCCLCHECK(ncclMemAlloc((void**)&memory, total));
  CUDACHECK(cudaMemset(memory, 0, total));
  ncclWindow_t whole = NULL, part = NULL;
  NCCLCHECK(ncclCommWindowRegister(ex.comm, memory, 2 << 20, &whole, NCCL_WIN_COLL_SYMMETRIC));
  NCCLCHECK(ncclCommWindowRegister(ex.comm, memory + partStart, total - partStart, &part, NCCL_WIN_COLL_SYMMETRIC));

  const int barriersPerKind = 3, rounds = 20;
  ncclGinBarrierHandle userGin;
  ncclLsaBarrierHandle userLsa;
  ncclDevResourceRequirements ginReq, lsaReq;
  NCCLCHECK(ncclGinBarrierCreateRequirement(ex.comm, ncclTeamWorld(ex.comm), barriersPerKind, &userGin, &ginReq));
  NCCLCHECK(ncclLsaBarrierCreateRequirement(ncclTeamLsa(ex.comm), barriersPerKind, &userLsa, &lsaReq));
  ginReq.next = &lsaReq;
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.resourceRequirementsList = &ginReq;
  reqs.ginSignalCount = 8;
  reqs.ginCounterCount = 2;

  int *deviceWrong, wrong = 0, launched = 0;
  CUDACHECK(cudaMalloc(&deviceWrong, 2 * sizeof(int)));
  CUDACHECK(cudaMemset(deviceWrong, 0, 2 * sizeof(int)));
  for (int again = 0; again < 2; again++) { // ids are reused: they must start at zero again
    ncclDevComm devComm;
    NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));
    values<<<1, 32, 0, ex.stream>>>(devComm, ncclSymPtr<Fields>(whole, 256), ncclSymPtr<Fields>(part, 4096), deviceWrong);
    barriers<<<barriersPerKind, 64, 0, ex.stream>>>(devComm, userGin, userLsa, ncclSymPtr<int>(whole, 1 << 20), rounds, deviceWrong);
    lookUp<<<1, 32, 0, ex.stream>>>(devComm, memory, whole, part, partStart, deviceWrong);
    readLaunches<<<1, 1, 0, ex.stream>>>(deviceWrong + 1);
    CUDACHECK(cudaGetLastError());
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  }
  CUDACHECK(cudaMemcpy(&wrong, deviceWrong, sizeof wrong, cudaMemcpyDeviceToHost));
  CUDACHECK(cudaMemcpy(&launched, deviceWrong + 1, sizeof launched, cudaMemcpyDeviceToHost));
  if (launched != 2) printf("rank %d: __device__ counter is %d, not 2\n", ex.rank, launched), wrong++;
  ex.elementsChecked = 1;
  CUDACHECK(cudaFree(deviceWrong));
  NCCLCHECK(ncclCommWindowDeregister(ex.comm, part));
  NCCLCHECK(ncclCommWindowDeregister(ex.comm, whole));
  NCCLCHECK(ncclMemFree(memory));
  return wrong;
}
