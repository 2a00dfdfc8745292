// Times and checks collectives the way nccl-tests does: a table of sizes with time, algorithm and bus bandwidth, out of place and in
// place. It makes the runtime and NCCL calls that such programs make, and is the benchmark of `make gpu-bench-collectives`.
//
//   nccltests [-t THREADS] [-g GPUS_PER_THREAD] [-b BYTES] [-e BYTES] [-f FACTOR] [-n ITERATIONS] [-w WARMUPS] [-a REPEATS]
//             [-C COLLECTIVE,..|all] [-d TYPE,..|all] [-o OP,..|all] [-r ROOT|all] [-c 0|1] [-R 0|1|2,..] [-G LAUNCHES,..] [-m CALLS]
//             [-N 0|1] [--json FILE]
// -R: 0 cudaMalloc, 1 ncclCommRegister, 2 symmetric windows. -G: captured in a graph that is launched so often; 0: no graph. -m: calls in one
// group. -N 1: non-blocking communicators. Under ginrs-run, torchrun, mpirun or srun each process adds its threads' ranks.
// With GINRS_SHARE_DEVICE=1 ranks may have to share GPUs.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <algorithm>
#include <string>
#include <vector>
#include "../../examples-c/common/exit_once.h"
#include "../../examples-c/common/ginrs_bootstrap.h"
#include "case.h"
#include "options.h"

#define CUDACHECK(call)                                                                                             \
  do {                                                                                                              \
    cudaError_t error_ = (call);                                                                                    \
    if (error_ != cudaSuccess) {                                                                                    \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));                    \
      exitOnce(EXIT_FAILURE);                                                                                       \
    }                                                                                                               \
  } while (0)

#define NCCLCHECK(call)                                                                                             \
  do {                                                                                                              \
    ncclResult_t result_ = (call);                                                                                  \
    if (result_ != ncclSuccess && result_ != ncclInProgress) {                                                      \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, ncclGetErrorString(result_), ncclGetLastError(NULL)); \
      exitOnce(EXIT_FAILURE);                                                                                       \
    }                                                                                                               \
  } while (0)

// What of these the measurement at hand has. Each thread has its own.
static thread_local int registered, graphs;

static struct {
  ginrsBootstrap boot;
  ncclUniqueId id;
  int nRanks;
  pthread_barrier_t barrier;
  double slowest;  // of the threads, in the measurement that runs
  unsigned long long wrong;
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
} job;

struct Rank {
  int rank, device;
  ncclComm_t comm = NULL;
  cudaStream_t stream;
  cudaEvent_t begin, end;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  char *send, *recv;
  void* handles[2];
  ncclWindow_t windows[2];
  Finding *found, *seen;  // on the device, and in pinned host memory
};

// One thread with its GPUs.
struct Worker {
  int index;
  std::vector<Rank> ranks;
  pthread_t thread;
};

static void meetThreads() { pthread_barrier_wait(&job.barrier); }

// Polls, so that an error of a communicator ends the wait, as nccl-tests does.
static void waitReady(Rank& r) {
  ncclResult_t state;
  do NCCLCHECK(ncclCommGetAsyncError(r.comm, &state));
  while (state == ncclInProgress);
  NCCLCHECK(state);
}

static void synchronize(Worker& w) {
  for (Rank& r : w.ranks) {
    CUDACHECK(cudaSetDevice(r.device));
    for (unsigned looked = 0;; looked++) {
      cudaError_t state = cudaStreamQuery(r.stream);
      if (state == cudaSuccess) break;
      if (state != cudaErrorNotReady) CUDACHECK(state);
      ncclResult_t error;
      NCCLCHECK(ncclCommGetAsyncError(r.comm, &error));
      NCCLCHECK(error);
      if (looked > 100) usleep(looked > 1000 ? 100 : 0);
    }
  }
}

static void makeComms(Worker& w) {
  if (job.nRanks == args.gpus && !args.nonBlocking) {  // one thread has all
    std::vector<ncclComm_t> comms(args.gpus);
    std::vector<int> devices;
    for (Rank& r : w.ranks) devices.push_back(r.device);
    NCCLCHECK(ncclCommInitAll(comms.data(), args.gpus, devices.data()));
    for (int i = 0; i < args.gpus; i++) w.ranks[i].comm = comms[i];
    return;
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = !args.nonBlocking;
  NCCLCHECK(ncclGroupStart());
  for (Rank& r : w.ranks) {
    CUDACHECK(cudaSetDevice(r.device));
    NCCLCHECK(ncclCommInitRankConfig(&r.comm, job.nRanks, job.id, r.rank, &config));
  }
  NCCLCHECK(ncclGroupEnd());
  for (Rank& r : w.ranks) waitReady(r);
}

static void makeBuffers(Worker& w, size_t bytes) {
  for (Rank& r : w.ranks) {
    CUDACHECK(cudaSetDevice(r.device));
    for (char** at : {&r.send, &r.recv}) {
      if (registered == 0) CUDACHECK(cudaMalloc(at, bytes));
      else NCCLCHECK(ncclMemAlloc((void**)at, bytes));
    }
    CUDACHECK(cudaMalloc(&r.found, sizeof(Finding)));
    CUDACHECK(cudaHostAlloc(&r.seen, sizeof(Finding), cudaHostAllocDefault));
    CUDACHECK(cudaMemset(r.found, 0, sizeof(Finding)));
  }
  if (registered == 0) return;
  NCCLCHECK(ncclGroupStart());
  for (Rank& r : w.ranks) {
    char* both[] = {r.send, r.recv};
    for (int i = 0; i < 2; i++) {
      if (registered == 1) NCCLCHECK(ncclCommRegister(r.comm, both[i], bytes, &r.handles[i]));
      else NCCLCHECK(ncclCommWindowRegister(r.comm, both[i], bytes, &r.windows[i], NCCL_WIN_COLL_SYMMETRIC));
    }
  }
  NCCLCHECK(ncclGroupEnd());
  for (Rank& r : w.ranks) waitReady(r);
}

static void freeBuffers(Worker& w) {
  for (Rank& r : w.ranks) {
    CUDACHECK(cudaSetDevice(r.device));
    for (int i = 0; i < 2; i++) {
      if (registered == 1) NCCLCHECK(ncclCommDeregister(r.comm, r.handles[i]));
      if (registered == 2) NCCLCHECK(ncclCommWindowDeregister(r.comm, r.windows[i]));
    }
    for (char* at : {r.send, r.recv}) {
      if (registered == 0) CUDACHECK(cudaFree(at));
      else NCCLCHECK(ncclMemFree(at));
    }
    CUDACHECK(cudaFree(r.found));
    CUDACHECK(cudaFreeHost(r.seen));
  }
}

static void freeComms(Worker& w) {
  for (Rank& r : w.ranks) {
    CUDACHECK(cudaSetDevice(r.device));
    CUDACHECK(cudaEventDestroy(r.begin));
    CUDACHECK(cudaEventDestroy(r.end));
    CUDACHECK(cudaStreamDestroy(r.stream));
  }
  NCCLCHECK(ncclGroupStart());
  for (Rank& r : w.ranks) NCCLCHECK(ncclCommFinalize(r.comm));
  NCCLCHECK(ncclGroupEnd());
  for (Rank& r : w.ranks) {
    if (args.nonBlocking) waitReady(r);
  }
  for (Rank& r : w.ranks) NCCLCHECK(ncclCommDestroy(r.comm));
}

static Case caseOf(Rank& r, const Case& like) {
  Case c = like;
  c.rank = r.rank;
  place(c, r.send + 128, r.recv + 128);
  return c;
}

static void issue(Worker& w, const Case& like, int calls) {
  for (int i = 0; i < calls; i += args.together) {
    bool group = w.ranks.size() > 1 || args.together > 1;
    if (group) NCCLCHECK(ncclGroupStart());
    for (Rank& r : w.ranks) {
      Case c = caseOf(r, like);
      for (int j = 0; j < args.together && i + j < calls; j++) NCCLCHECK(callCase(c, (ncclRedOp_t)c.values.op, r.comm, r.stream));
    }
    if (group) NCCLCHECK(ncclGroupEnd());
    for (Rank& r : w.ranks) {
      if (args.nonBlocking) waitReady(r);
    }
  }
}

// Microseconds of one call, by the slowest GPU's events.
static double measure(Worker& w, const Case& like) {
  if (graphs) {
    for (Rank& r : w.ranks) CUDACHECK(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
    issue(w, like, args.iterations);
    for (Rank& r : w.ranks) CUDACHECK(cudaStreamEndCapture(r.stream, &r.graph));
    for (Rank& r : w.ranks) {
      CUDACHECK(cudaGraphInstantiate(&r.exec, r.graph, NULL, NULL, 0));
    }
  }
  std::vector<double> times;
  for (int repeat = 0; repeat < args.repeats; repeat++) {
    job.slowest = 0;
    meetThreads();
    issue(w, like, 1);  // the ranks meet on the GPUs
    for (Rank& r : w.ranks) CUDACHECK(cudaEventRecord(r.begin, r.stream));
    if (!graphs) issue(w, like, args.iterations);
    for (int i = 0; i < graphs; i++) {
      for (Rank& r : w.ranks) CUDACHECK(cudaGraphLaunch(r.exec, r.stream));
    }
    for (Rank& r : w.ranks) CUDACHECK(cudaEventRecord(r.end, r.stream));
    synchronize(w);
    for (Rank& r : w.ranks) {
      float milliseconds;
      CUDACHECK(cudaEventElapsedTime(&milliseconds, r.begin, r.end));
      pthread_mutex_lock(&job.lock);
      job.slowest = std::max(job.slowest, (double)milliseconds);
      pthread_mutex_unlock(&job.lock);
    }
    meetThreads();
    times.push_back(job.slowest * 1e3 / args.iterations / std::max(1, graphs));
    meetThreads();
  }
  for (Rank& r : w.ranks) {
    if (!graphs) continue;
    CUDACHECK(cudaGraphExecDestroy(r.exec));
    CUDACHECK(cudaGraphDestroy(r.graph));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Wrong elements over all GPUs of this process.
static unsigned long long checkOnce(Worker& w, const Case& like) {
  if (!args.check) return 0;
  for (Rank& r : w.ranks) {
    CUDACHECK(cudaSetDevice(r.device));
    prepareCase(caseOf(r, like), r.stream);
  }
  issue(w, like, 1);
  for (Rank& r : w.ranks) {
    CUDACHECK(cudaSetDevice(r.device));
    verifyCase(caseOf(r, like), r.found, r.stream);
    CUDACHECK(cudaMemcpyAsync(r.seen, r.found, sizeof(Finding), cudaMemcpyDeviceToHost, r.stream));
    CUDACHECK(cudaMemsetAsync(r.found, 0, sizeof(Finding), r.stream));
  }
  job.wrong = 0;
  meetThreads();
  synchronize(w);
  pthread_mutex_lock(&job.lock);
  for (Rank& r : w.ranks) job.wrong += r.seen->wrong;
  pthread_mutex_unlock(&job.lock);
  meetThreads();
  unsigned long long wrong = job.wrong;
  meetThreads();
  return wrong;
}

// Bus bandwidth over algorithm bandwidth.
static double busFactor(int kind, int n) {
  if (kind == kAllReduce) return 2.0 * (n - 1) / n;
  return kind == kReduce || kind == kBroadcast || kind == kBcast ? 1 : (double)(n - 1) / n;
}

static int badRows = 0;

static void row(Worker& w, const Case& like, size_t bytes) {
  Case c = like;
  TypeFacts t = typeFacts(c.values.type);
  double us[2], bus[2];
  unsigned long long wrong[2];
  for (int inPlace = 0; inPlace < 2; inPlace++) {
    c.inPlace = inPlace;
    us[inPlace] = -1;
    if (c.kind == kAlltoAll && inPlace) continue;  // NCCL has none
    issue(w, c, args.warmups);
    us[inPlace] = measure(w, c);
    wrong[inPlace] = checkOnce(w, c);
    bus[inPlace] = bytes / us[inPlace] * 1e-3 * busFactor(c.kind, job.nRanks);
    if (w.index == 0) badRows += wrong[inPlace] != 0;
    if (w.index != 0 || job.boot.rank != 0 || !args.json) continue;
    int version;
    NCCLCHECK(ncclGetVersion(&version));
    fprintf(args.json,
            "{\"collective\": \"%s\", \"type\": \"%s\", \"op\": \"%s\", \"root\": %d, \"ranks\": %d, \"bytes\": %zu, \"in_place\": %d, \"us\": %.3f, "
            "\"algbw\": %.3f, \"busbw\": %.3f, \"wrong\": %llu, \"registered\": %d, \"graph\": %d, \"version\": %d}\n",
            kindName(c.kind), t.name, opName(c.values.op), c.root, job.nRanks, bytes, inPlace, us[inPlace], bytes / us[inPlace] * 1e-3, bus[inPlace],
            wrong[inPlace], registered, graphs, version);
    fflush(args.json);
  }
  if (w.index != 0 || job.boot.rank != 0) return;
  printf("%12zu %12llu %10s %6s %5d", bytes, (unsigned long long)c.count, t.name, opName(c.values.op), hasRoot(c.kind) ? c.root : -1);
  for (int i = 0; i < 2; i++) {
    if (us[i] < 0) printf(" %9s %8s %8s %7s", "N/A", "", "", "");
    else printf(" %9.2f %8.2f %8.2f %7llu", us[i], bytes / us[i] * 1e-3, bus[i], wrong[i]);
  }
  printf("\n");
  fflush(stdout);
}

static void table(Worker& w) {
  bool says = w.index == 0 && job.boot.rank == 0;
  static const char* const memories[] = {"cudaMalloc", "ncclCommRegister", "symmetric windows"};
  if (says) {
    printf("# %s%s\n#%11s %12s %10s %6s %5s %9s %8s %8s %7s %9s %8s %8s %7s\n#%11s %12s %10s %6s %5s %9s %8s %8s %7s %9s\n", memories[registered],
           graphs ? ", in a graph" : "", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong",
           "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "in place");
  }
  for (int kind : args.kinds) {
    if (says && args.kinds.size() > 1) printf("# %s\n", kindName(kind));
    bool parts = kind != kAllReduce && kind != kReduce && kind != kBroadcast && kind != kBcast;
    const std::vector<int> none = {kMove}, &ops = reduces(kind) ? args.ops : none;
    int firstRoot = args.root < 0 ? 0 : args.root, roots = hasRoot(kind) && args.root < 0 ? job.nRanks : firstRoot + 1;
    for (size_t bytes = args.from; bytes <= args.to; bytes *= args.factor) {
      for (int type : args.types) {
        for (int op : ops) {
          for (int root = firstRoot; root < roots; root++) {
            Case c = {};
            c.values = {type, op, job.nRanks, 1};
            c.kind = kind;
            c.root = root;
            c.where = memories[registered];
            // The size is that of the larger buffer.
            size_t unit = typeFacts(type).bytes * (parts ? job.nRanks : 1);
            c.count = bytes / unit;
            row(w, c, c.count * unit);
          }
        }
      }
      if (bytes == 0) break;
    }
  }
}

static void* work(void* argument) {
  Worker& w = *(Worker*)argument;
  for (int i = 0; i < args.gpus; i++) {
    Rank r;
    int local = w.index * args.gpus + i;
    r.rank = job.boot.rank * args.threads * args.gpus + local;
    r.device = job.boot.localRank * args.threads * args.gpus + local;
    if (getenv("GINRS_SHARE_DEVICE")) {
      int devices;
      CUDACHECK(cudaGetDeviceCount(&devices));
      r.device %= devices;
    }
    CUDACHECK(cudaSetDevice(r.device));
    CUDACHECK(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
    CUDACHECK(cudaEventCreate(&r.begin));
    CUDACHECK(cudaEventCreate(&r.end));
    cudaDeviceProp properties;
    CUDACHECK(cudaGetDeviceProperties(&properties, r.device));
    if (job.boot.rank == 0) printf("#   rank %2d device %2d [%02x] %s\n", r.rank, r.device, properties.pciBusID, properties.name);
    w.ranks.push_back(r);
  }
  makeComms(w);
  for (int registration : args.registrations) {
    registered = registration;
    makeBuffers(w, args.to + 4096);
    meetThreads();
    for (int launches : args.graphs) {
      graphs = launches;
      table(w);
    }
    meetThreads();
    freeBuffers(w);
  }
  freeComms(w);
  return NULL;
}

int main(int argc, char** argv) {
  parse(argc, argv);
  if (ginrsBootstrapInit(&job.boot) != 0) return 1;
  job.nRanks = job.boot.nRanks * args.threads * args.gpus;
  if (job.boot.rank == 0) NCCLCHECK(ncclGetUniqueId(&job.id));
  if (ginrsBootstrapBroadcast(&job.boot, &job.id, sizeof job.id) != 0) return 1;
  pthread_barrier_init(&job.barrier, NULL, args.threads);
  std::vector<Worker> workers(args.threads);
  for (int i = args.threads - 1; i >= 0; i--) {
    workers[i].index = i;
    if (i == 0) work(&workers[0]);
    else if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) return perror("pthread_create"), 1;
  }
  for (int i = 1; i < args.threads; i++) pthread_join(workers[i].thread, NULL);
  if (job.boot.rank == 0) printf("# %s\n", badRows ? "WRONG" : "ok");
  if (args.json) fclose(args.json);
  return badRows != 0;
}
