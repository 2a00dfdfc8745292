// A race, and with HANG a wait in vain, on a communicator whose ranks have other numbers in the job: 4 ranks, split by parity; of the odd ones the first puts to
// the second, which reads before it has seen the signal. Both have worked on the communicator of all before.
#include <cuda/atomic>
#include "../../examples-c/common/example.h"

__global__ void kernel(ncclDevComm comm, ncclWindow_t window, int hangs) {
  ncclGin gin(comm, 0);
  {  // Both run from here on: what had ended before the other began would be ordered.
    ncclLsaBarrierSession<ncclCoopThread> both(ncclCoopThread(), comm, ncclTeamTagLsa(), 0);
    both.sync(ncclCoopThread(), cuda::memory_order_acq_rel);
  }
  long* mine = (long*)ncclGetLocalPointer(window, 0);
  if (comm.rank == 0) {
    gin.put(ncclTeamWorld(comm), 1, window, 0, window, 64, 8, ncclGin_SignalInc{0});  // put
    gin.flush(ncclCoopThread());
  } else {
    if (!hangs) mine[1] = mine[0];  // race
    gin.waitSignal(ncclCoopThread(), 0, hangs ? 2 : 1);  // wait
  }
}

static void exchange(Example& ex, ncclComm_t comm, bool talks, int hangs) {
  ncclWindow_t window;
  void* memory;
  NCCLCHECK(ncclMemAlloc(&memory, 4096));
  NCCLCHECK(ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
  ncclDevComm devComm;
  ncclDevCommRequirements needs;
  memset(&needs, 0, sizeof needs);
  needs.ginSignalCount = 1, needs.lsaBarrierCount = 1, needs.ginForceEnable = true;
  NCCLCHECK(ncclDevCommCreate(comm, &needs, &devComm));
  if (talks) kernel<<<1, 1, 0, ex.stream>>>(devComm, window, hangs);
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  NCCLCHECK(ncclDevCommDestroy(comm, &devComm));
  NCCLCHECK(ncclCommWindowDeregister(comm, window));
  NCCLCHECK(ncclMemFree(memory));
}

int runRank(Example& ex) {
  bool const odd = ex.rank % 2 == 1;
  exchange(ex, ex.comm, false, 0);
  ncclComm_t half;
  NCCLCHECK(ncclCommSplit(ex.comm, ex.rank % 2, ex.rank, &half, NULL));
  exchange(ex, half, odd, getenv("HANG") != NULL);
  NCCLCHECK(ncclCommDestroy(half));
  return 0;
}
