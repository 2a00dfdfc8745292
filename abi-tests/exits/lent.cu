// lent HOW: two ranks on two machines put much at each other over four contexts (GINRS_OFI_THREADS=1), and when threads move it, of one of them at least,
//   exit      the process ends in the midst of it
//   abort     it calls ncclCommAbort
//   fork      it has a child that calls ncclCommAbort and ends by exit(), and all goes on behind that
#include <dirent.h>
#include <nccl.h>
#include <nccl_device.h>
#include <ginrs_bootstrap.h>
#include <sys/wait.h>

static const size_t kBytes = 4 << 20;
static const int kContexts = 4;

__global__ void exchange(ncclDevComm comm, ncclWindow_t window, volatile int* rounds, int last) {
  ncclGin gin(comm, blockIdx.x);
  for (int i = 1; i <= last; i++) {
    gin.put(ncclTeamWorld(comm), 1 - comm.rank, window, kBytes * (kContexts + blockIdx.x), window, kBytes * blockIdx.x, kBytes,
            ncclGin_SignalInc{blockIdx.x});
    gin.waitSignal(ncclCoopThread(), blockIdx.x, i);
    gin.flush(ncclCoopThread());
    rounds[blockIdx.x] = i;
  }
}

static void need(bool ok, const char* what) {
  if (ok) return;
  printf("%s failed: %s\n", what, ncclGetLastError(NULL));
  exit(2);
}

// Threads that hubs are lent to: they begin when that happens for the first time.
static int movers() {
  int found = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (dirent* task = readdir(tasks)) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    if (FILE* file = fopen(path, "r")) {
      if (fgets(name, sizeof name, file) != NULL) found += strcmp(name, "ginrs ofi\n") == 0;
      fclose(file);
    }
  }
  closedir(tasks);
  return found;
}

int main(int, char** argv) {
  const char* how = argv[1];
  ginrsBootstrap boot;
  ncclUniqueId id;
  ncclComm_t comm;
  ncclWindow_t window;
  ncclDevComm made;
  void* memory;
  int* rounds;
  need(ginrsBootstrapInit(&boot) == 0 && ginrsBootstrapUniqueId(&boot, &id) == 0, "the id");
  need(ncclCommInitRank(&comm, boot.nRanks, id, boot.rank) == ncclSuccess, "ncclCommInitRank");
  need(ncclMemAlloc(&memory, 2 * kContexts * kBytes) == ncclSuccess, "ncclMemAlloc");
  need(ncclCommWindowRegister(comm, memory, 2 * kContexts * kBytes, &window, 0) == ncclSuccess, "ncclCommWindowRegister");
  ncclDevCommRequirements needs = {};
  needs.ginContextCount = needs.ginSignalCount = kContexts;
  needs.ginForceEnable = true;
  need(ncclDevCommCreate(comm, &needs, &made) == ncclSuccess, "ncclDevCommCreate");
  need(cudaMallocHost(&rounds, kContexts * sizeof *rounds) == cudaSuccess, "cudaMallocHost");
  memset(rounds, 0, kContexts * sizeof *rounds);
  exchange<<<kContexts, 1>>>(made, window, rounds, 1 << 30);
  ncclResult_t state = ncclSuccess;
  // The other may be further, and have aborted.
  auto until = [&](auto done) {
    while (!done() && state == ncclSuccess) {
      usleep(1000);
      need(ncclCommGetAsyncError(comm, &state) == ncclSuccess, "ncclCommGetAsyncError");
    }
  };
  until([] { return movers() > 0; });
  if (strcmp(how, "fork") == 0) {
    pid_t child = fork();
    if (child == 0) exit(ncclCommAbort(comm) == ncclInvalidUsage ? 0 : 1);
    int status = -1, then = ((volatile int*)rounds)[0];
    need(waitpid(child, &status, 0) == child && status == 0, "the child");
    until([&] { return ((volatile int*)rounds)[0] >= then + 3; });
  }
  if (strcmp(how, "abort") == 0 || strcmp(how, "fork") == 0) need(ncclCommAbort(comm) == ncclSuccess, "ncclCommAbort");
  puts("ends");
  exit(0);
}
