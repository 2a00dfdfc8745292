// ginrs-perf: speed of NCCL's device API, with any library and any headers of 2.28. It uses nothing but the public API:
//     nvcc -std=c++17 -O3 -arch=sm_90 -I INCLUDE -o ginrs-perf perf/main.cu -L LIB -lnccl
//     ginrs-cc -std=c++17 -O2 -o ginrs-perf perf/main.cu          the CPU device, no GPU
#include <pthread.h>
#include <signal.h>

#include "../examples-c/common/ginrs_bootstrap.h"
#include "flush.cuh"
#include "gin_barrier.cuh"
#include "lla2a.cuh"
#include "lsa_allreduce.cuh"
#include "lsa_alltoall.cuh"
#include "lsa_barrier.cuh"
#include "put_bandwidth.cuh"
#include "put_cost.cuh"
#include "put_latency.cuh"
#include "put_rate.cuh"
#include "setup.cuh"

struct Benchmark {
  const char *name, *title;
  void (*run)(Rank&);
  int leastRanks;
};
static const Benchmark kBenchmarks[] = {
    {"setup", "communicators, windows, device communicators; the slowest rank", benchSetup, 1},
    {"floors", "what the machine does without a library", benchFloors, 2},
    {"lsa_barrier", "LSA barrier", benchLsaBarrier, 1},
    {"lla2a", "LL all-to-all, one round", benchLlA2A, 1},
    {"lsa_allreduce", "all-reduce by loads and stores", benchLsaAllReduce, 1},
    {"lsa_alltoall", "all-to-all by stores", benchLsaAllToAll, 1},
    {"put_cost", "starting an operation: time of the GPU thread; ranks 0 and 1", benchPutCost, 2},
    {"put_latency", "round trip of a put with a signal; ranks 0 and 1", benchPutLatency, 2},
    {"put_rate", "small operations of many threads, time per operation; rank 0 to 1", benchPutRate, 2},
    {"put_bandwidth", "large puts; rank 0 to 1", benchPutBandwidth, 2},
    {"flush", "until the source may be reused; rank 0 to 1", benchFlush, 2},
    {"gin_barrier", "GIN barrier", benchGinBarrier, 1},
};

static const char* volatile nowRunning = "start";
static int timeoutSeconds;

// A run that does not end says where it stood. Only calls that a signal handler may make.
static void tooLong(int) {
  char text[160];
  int n = snprintf(text, sizeof text, "ginrs-perf: not done after %d s, in %s | fix: --timeout\n", timeoutSeconds, nowRunning);
  if (write(2, text, n) < 0) _exit(124);
  _exit(124);
}

static bool wanted(const Options& o, const char* name) {
  return o.names.empty() || std::find(o.names.begin(), o.names.end(), name) != o.names.end();
}

static std::string about(Rank& rk) {
  int version = 0, driver = 0, runtime = 0;
  cudaDeviceProp device;
  NCCLCHECK(ncclGetVersion(&version));
  CUDACHECK(cudaDriverGetVersion(&driver));
  CUDACHECK(cudaRuntimeGetVersion(&runtime));
  CUDACHECK(cudaGetDeviceProperties(&device, rk.device));
  const char* backend = getenv("NCCL_GIN_BACKEND");
#if __has_include(<ginrs_device/marker.h>)
  const char* headers = "ginrs";
#else
  const char* headers = "NVIDIA";
#endif
  std::string said = "\"ranks\": " + std::to_string(rk.nRanks) + ", \"device\": " + Table::quoted(device.name) +
                     ", \"headers\": " + Table::quoted(headers) + ", \"nccl\": " + std::to_string(version) + ", \"driver\": " + std::to_string(driver) +
                     ", \"runtime\": " + std::to_string(runtime) + ", \"NCCL_GIN_BACKEND\": " + Table::quoted(backend ? backend : "");
  if (rk.rank == 0) {
    printf("# ginrs-perf: %d ranks on %s, headers of %s, library says %d.%d.%d, CUDA driver %d, runtime %d\n", rk.nRanks, device.name, headers,
           version / 10000, version / 100 % 100, version % 100, driver, runtime);
    fflush(stdout);
  }
  return said;
}

struct Job {
  const Options* options;
  Meeting* meeting;
  int rank, nRanks, device;
  long wrong;
};

static void* runRank(void* argument) {
  Job& job = *(Job*)argument;
  Table table(job.rank == 0);
  Rank rk{*job.options, *job.meeting, table, job.rank, job.nRanks, job.device};
  CUDACHECK(cudaSetDevice(rk.device));
  CUDACHECK(cudaStreamCreateWithFlags(&rk.stream, cudaStreamNonBlocking));
  CUDACHECK(cudaEventCreate(&rk.begin));
  CUDACHECK(cudaEventCreate(&rk.end));
  CUDACHECK(cudaHostAlloc(&rk.out, 4096, cudaHostAllocMapped | cudaHostAllocPortable));
  memset(rk.out, 0, 4096);
  wakeClocks(rk);
  std::string facts = about(rk);
  rk.barrier();
  for (auto& b : kBenchmarks) {
    if (!wanted(*job.options, b.name)) continue;
    nowRunning = b.name;
    if (rk.nRanks < b.leastRanks) {
      table.note(b.name, "wants " + std::to_string(b.leastRanks) + " ranks or more");
      continue;
    }
    table.begin(b.name, b.title);
    b.run(rk);
    rk.barrier();
  }
  nowRunning = "the end";
  rk.close();
  table.end();
  if (rk.rank == 0 && !job.options->json.empty() && !table.json(job.options->json, facts))
    rk.fail(__FILE__, __LINE__, job.options->json, strerror(errno));
  job.wrong = table.wrong();
  CUDACHECK(cudaFreeHost(rk.out));
  CUDACHECK(cudaEventDestroy(rk.begin));
  CUDACHECK(cudaEventDestroy(rk.end));
  CUDACHECK(cudaStreamDestroy(rk.stream));
  return nullptr;
}

int main(int argc, char** argv) {
  Options options;
  bool list = false;
  if (!parseOptions(argc, argv, &options, &list)) return 2;
  if (list) {
    for (auto& b : kBenchmarks) printf("%-14s %s\n", b.name, b.title);
    return 0;
  }
  for (auto& name : options.names) {
    if (std::none_of(std::begin(kBenchmarks), std::end(kBenchmarks), [&](auto& b) { return name == b.name; })) {
      fprintf(stderr, "ginrs-perf: there is no benchmark %s | fix: ginrs-perf --list\n", name.c_str());
      return 2;
    }
  }
  ginrsBootstrap boot;
  if (ginrsBootstrapInit(&boot) != 0) return 1;
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    fprintf(stderr, "ginrs-perf: no CUDA device: %s\n", cudaGetErrorString(error));
    return 1;
  }
  int gpus = options.gpus ? options.gpus : boot.nRanks > 1 ? 1 : devices / options.threads;
  int here = gpus * options.threads, nRanks = here * boot.nRanks;
  /* Ranks that share a GPU measure the host's part and the order of things, no link. */
  const char* share = getenv("GINRS_SHARE_DEVICE");
  bool isShared = share != nullptr && strcmp(share, "1") == 0;
  if (here < 1 || nRanks > kMaxRanks || (!isShared && (boot.localRank + 1) * here > devices)) {
    fprintf(stderr, "ginrs-perf: %d ranks, %d in this process, which is number %d on a machine with %d GPUs; at most %d ranks, one per GPU | fix: -t and -g\n",
            nRanks, here, boot.localRank, devices, kMaxRanks);
    return 2;
  }
  timeoutSeconds = options.timeout;
  signal(SIGALRM, tooLong);
  alarm(options.timeout);

  char name[64] = "";
  Meeting* meeting = boot.rank == 0 ? Meeting::create(name) : nullptr;
  if (ginrsBootstrapBroadcast(&boot, name, sizeof name) != 0) return 1;
  if (!meeting) meeting = Meeting::open(name);
  std::vector<Job> jobs(here);
  std::vector<pthread_t> threads(here);
  for (int i = 0; i < here; i++) {
    jobs[i] = Job{&options, meeting, boot.rank * here + i, nRanks, (boot.localRank * here + i) % devices, 0};
    if (int failed = pthread_create(&threads[i], nullptr, runRank, &jobs[i])) {
      fprintf(stderr, "ginrs-perf: pthread_create: %s\n", strerror(failed));
      return 1;
    }
  }
  for (auto& thread : threads) pthread_join(thread, nullptr);
  if (boot.rank == 0) unlink(name);
  return jobs[0].wrong ? 1 : 0;
}
