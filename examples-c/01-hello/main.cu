// The smallest GIN program: rank 0 writes a greeting into every other rank's window and raises a signal there;
// they wait for the signal and read.
#include "../common/example.h"

struct Greeting {
  int from, to;
  char text[56];
};

// One thread. The signal becomes visible at `peer` only after the payload of its put: whoever saw it may read.
__global__ void hello(ncclDevComm devComm, ncclWindow_t window, const Greeting* outbox, Greeting* inbox) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  if (devComm.rank == 0) {
    for (int peer = 1; peer < devComm.nRanks; peer++) {
      size_t source = (size_t)((const char*)(outbox + peer) - (const char*)inbox);
      gin.put(world, peer, window, 0, window, source, sizeof(Greeting), ncclGin_SignalInc{0});
    }
    gin.flush(ncclCoopThread()); // the outbox may be reused from here on
  } else {
    gin.waitSignal(ncclCoopThread(), 0, 1);
  }
}

int runRank(Example& ex) {
  // Word 0 of the window is the inbox; rank 0's outbox for peer p stands behind it.
  size_t bytes = sizeof(Greeting) * (ex.nRanks + 1);
  ncclWindow_t window;
  Greeting* inbox = (Greeting*)ex.allocWindow(bytes, &window);
  Greeting* outbox = inbox + 1;
  std::vector<Greeting> letters(ex.nRanks);
  for (int peer = 0; peer < ex.nRanks; peer++) {
    letters[peer].from = ex.rank;
    letters[peer].to = peer;
    snprintf(letters[peer].text, sizeof letters[peer].text, "hello rank %d, this is rank %d", peer, ex.rank);
  }
  CUDACHECK(cudaMemcpy(outbox, letters.data(), sizeof(Greeting) * ex.nRanks, cudaMemcpyHostToDevice));

  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = 1;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &devComm));

  hello<<<1, 1, 0, ex.stream>>>(devComm, window, outbox, inbox);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(ex.stream));

  int wrong = 0;
  if (ex.rank != 0) {
    Greeting got;
    CUDACHECK(cudaMemcpy(&got, inbox, sizeof got, cudaMemcpyDeviceToHost));
    printf("rank %d got: %s\n", ex.rank, got.text);
    wrong = got.from != 0 || got.to != ex.rank;
    ex.elementsChecked = 1;
  } else {
    ex.bytesMoved = sizeof(Greeting) * (ex.nRanks - 1);
  }
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &devComm));
  ex.freeWindow(inbox, window);
  return wrong;
}
