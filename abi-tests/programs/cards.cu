// Two communicators of each rank, threads of one process, over one card (abi-tests/soft-verbs), which tells something while the first is at
// work. CARDS=queue: of one of its queues, which ends it, and the second goes on. CARDS=port: of the port, which ends nothing. CARDS=device:
// that it works no more, which ends both; a third communicator opens it anew. Nothing is told where a kernel of the first names the second's
// signals (CARDS=signals) or its sink (CARDS=sink): that ends the first, also on the model of a card.
#include <sys/wait.h>
#include <unistd.h>

#include "../../examples-c/common/example.h"

static const int kRounds = 20, kPatience = 10 * 1000;

// Each round is a signal to the next rank and one from the rank before.
__global__ void pass(ncclDevComm devComm) {
  ncclGin gin(devComm, 0);
  ncclTeam world = ncclTeamWorld(devComm);
  for (int round = 1; round <= kRounds; round++) {
    if (threadIdx.x == 0) gin.signal(world, (world.rank + 1) % world.nRanks, ncclGin_SignalInc{0});
    gin.waitSignal(ncclCoopCta(), 0, round);
  }
}

// An add to the next rank's signal, with one key of the other communicator's contexts.
__global__ void name(ncclDevComm devComm, ncclDevComm other, bool signals) {
  auto context = [](ncclDevComm const& of) { return static_cast<ncclGinGdakiGPUContext*>(of.ginHandles[0]); };
  int next = (devComm.rank + 1) % devComm.nRanks;
  doca_gpu_dev_verbs_addr signal{8ull * devComm.ginSignalBase, context(signals ? other : devComm)->signals_table.rkeys[next]};
  doca_gpu_dev_verbs_addr sink{0, context(signals ? devComm : other)->sink_buffer_lkey};
  doca_gpu_dev_verbs_ticket_t ticket;
  doca_gpu_dev_verbs_signal<DOCA_GPUNETIO_VERBS_SIGNAL_OP_ADD>(&context(devComm)->gdqp[next], signal, sink, 1, &ticket);
}

static int wrong = 0;

static void expect(bool right, const char* what, ncclComm_t comm) {
  if (right) return;
  __sync_fetch_and_add(&wrong, 1);
  fprintf(stderr, "%s: %s\n", what, ncclGetLastError(comm));
}

static ncclResult_t state(ncclComm_t comm) {
  ncclResult_t result;
  NCCLCHECK(ncclCommGetAsyncError(comm, &result));
  return result;
}

static bool ends(ncclComm_t comm) {
  for (int ms = 0; ms < kPatience && state(comm) == ncclSuccess; ms++) usleep(1000);
  return state(comm) != ncclSuccess;
}

// So often the library has warned of the port, in NCCL_DEBUG_FILE.
static int told() {
  static char text[1 << 16];
  FILE* file = fopen(getenv("NCCL_DEBUG_FILE"), "r");
  if (file == NULL) return 0;
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  int times = 0;
  for (const char* at = text; (at = strstr(at, "GINRS-E116")) != NULL; at++) times++;
  return times;
}

static ncclDevComm devCommOf(ncclComm_t comm) {
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = 1;
  ncclDevComm devComm;
  NCCLCHECK(ncclDevCommCreate(comm, &reqs, &devComm));
  return devComm;
}

static void run(Example& ex, ncclDevComm& devComm) {
  pass<<<1, 32, 0, ex.stream>>>(devComm);
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(ex.stream));
}

// As ncclCommDestroy of one rank waits for no other.
static void together(int ranks) {
  static int come = 0;
  int at = __sync_add_and_fetch(&come, 1), all = (at + ranks - 1) / ranks * ranks;
  while (__sync_fetch_and_add(&come, 0) < all) usleep(100);
}

int runRank(Example& ex) {
  const char* cards = getenv("CARDS");
  bool signals = !strcmp(cards, "signals"), names = signals || !strcmp(cards, "sink"), device = !strcmp(cards, "device");
  bool queue = names || !strcmp(cards, "queue");
  static ncclUniqueId ids[2];
  if (ex.rank == 0) {
    for (ncclUniqueId& id : ids) NCCLCHECK(ncclGetUniqueId(&id));
  }
  together(ex.nRanks);
  ncclComm_t first = ex.comm, second, third;
  NCCLCHECK(ncclCommInitRank(&second, ex.nRanks, ids[0], ex.rank));
  ncclDevComm devComms[2] = {devCommOf(first), devCommOf(second)};
  // A forked child has the card open, too, and leaves it to its parent.
  pid_t child = fork();
  if (child == 0) exit(ncclCommDestroy(first) == ncclSuccess);
  int status = -1;
  waitpid(child, &status, 0);
  expect(status == 0, "a forked child has ended a communicator of its parent's", NULL);
  if (!names) {
    run(ex, devComms[0]);
  } else if (ex.rank == 0) {
    name<<<1, 1, 0, ex.stream>>>(devComms[0], devComms[1], signals);
    CUDACHECK(cudaGetLastError());
    CUDACHECK(cudaStreamSynchronize(ex.stream));
  }
  if (queue || device) expect(ends(first), "the first has not ended", first);
  if (device) {
    expect(ends(second), "the second has not ended", second);
    NCCLCHECK(ncclCommInitRank(&third, ex.nRanks, ids[1], ex.rank));
    ncclDevComm devComm = devCommOf(third);
    run(ex, devComm);
    expect(state(third) == ncclSuccess, "the third has ended", third);
    together(ex.nRanks);
    NCCLCHECK(ncclDevCommDestroy(third, &devComm));
    NCCLCHECK(ncclCommDestroy(third));
    NCCLCHECK(ncclCommAbort(second));
  } else {
    run(ex, devComms[1]);
    for (int ms = 0; !queue && ex.rank == 0 && ms < kPatience && told() < 2 * ex.nRanks; ms++) usleep(1000);
    if (!queue && ex.rank == 0) expect(told() == 2 * ex.nRanks, "not each rank of both is told of the port", first);
    if (!queue) expect(state(first) == ncclSuccess, "the first has ended", first);
    expect(state(second) == ncclSuccess, "the second has ended", second);
    together(ex.nRanks);
    NCCLCHECK(ncclDevCommDestroy(second, &devComms[1]));
    NCCLCHECK(ncclCommDestroy(second));
  }
  // The caller's end of the first wants one that works.
  if (queue || device) {
    NCCLCHECK(ncclCommAbort(first));
    together(ex.nRanks);
    if (ex.rank == 0) NCCLCHECK(ncclGetUniqueId(&ids[0]));
    together(ex.nRanks);
    NCCLCHECK(ncclCommInitRank(&ex.comm, ex.nRanks, ids[0], ex.rank));
  } else {
    NCCLCHECK(ncclDevCommDestroy(first, &devComms[0]));
  }
  return wrong;
}
