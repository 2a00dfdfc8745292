// What fault.cu needs beside its ranks: the cases, the shared page on which the ranks report, and the process that starts
// them, makes one fail, and judges.
#pragma once
#include <assert.h>
#include <atomic>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <errno.h>
#include <nccl.h>
#include <nccl_device.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

// LEAVE and LEAVE_STAY: it destroys its communicator, and its process ends, or lives on. EXEC and CLOSE: its process lives on, but its
// descriptors are gone. LONG: all is well, a kernel that waits for nobody runs for long after the last rank has left. STOP: it stands still for some seconds, goes on, and is killed then; only if asked for.
enum Fault { KILL, ABORT_THREAD, ABORT_SAME, ILLEGAL, TRAP, ASSERT, INIT, REGISTER, DEVCOMM, PARENT, LEAVE, LEAVE_STAY, EXEC, CLOSE, LONG, STOP, FAULTS };
static const char* const faultNames[] = {"kill", "abort-thread", "abort-same", "illegal", "trap", "assert", "init", "register",
                                         "devcomm", "parent", "leave", "leave-stay", "exec", "close", "long", "stop"};
// RECV and REDUCE are calls of the host, on a stream.
enum Wait { SIGNAL, RESET, COUNTER, LSA, LSA_HELPER, GIN, GIN_HELPER, HYBRID, LL, TRAFFIC, RECV, REDUCE, WAITS, SPIN, SIGNAL_ALL };
static const char* const waitNames[] = {"signal", "reset", "counter", "lsa", "lsa-helper", "gin",
                                        "gin-helper", "hybrid", "ll", "traffic", "recv", "reduce"};
enum Stage { STARTED, WAITING, DONE, STUCK };

static inline bool isHostFault(int fault) { return fault == INIT || fault == REGISTER || fault == DEVCOMM; }
static inline bool isLeave(int fault) { return fault == LEAVE || fault == LEAVE_STAY; }
static inline bool isDeviceFault(int fault) { return fault == ILLEGAL || fault == TRAP || fault == ASSERT; }

struct Plan {
  int fault, wait, ranks;
  bool blind;
  bool hasWait() const { return !isHostFault(fault) && fault != PARENT && fault != LONG; }
  std::string name() const {
    std::string name = faultNames[fault];
    if (hasWait()) name += std::string(":") + waitNames[wait];
    return blind ? name + " (blind)" : name;
  }
};

struct Handles {
  ncclWindow_t window;
  ncclLLA2AHandle ll;
  ncclLsaBarrierHandle lsa;
  ncclGinBarrierHandle gin;
};

// Shared by all processes of a case.
struct Board {
  struct Rank {
    std::atomic<int> stage;
    int failed;
    double releasedAt, heardAt;
    char text[1024], message[1024];
  };
  ncclUniqueId id;
  std::atomic<int> idMade, go, pids[16];
  Rank ranks[16];
};

static inline double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

// Seconds until a wait counts as endless: FAULT_SECONDS, 20 unless set.
static inline double bound() {
  const char* text = getenv("FAULT_SECONDS");
  return text && atof(text) > 0 ? atof(text) : 20;
}

struct Patience {
  double until;
  explicit Patience(double seconds) : until(now() + seconds) {}
  bool lasts() const { return now() < until; }
};

int runRank(Board* board, Plan plan, int rank);

static inline void startRanks(Board* board, Plan plan, int* pids) {
  fflush(NULL);
  for (int rank = 0; rank < plan.ranks; rank++) {
    pids[rank] = fork();
    if (pids[rank] == 0) {
      prctl(PR_SET_PDEATHSIG, 0);
      const char* timeout = getenv("FAULT_TIMEOUT");
      if (isLeave(plan.fault) || plan.fault == LONG) setenv("GINRS_TIMEOUT", timeout ? timeout : "3", 1);
      exit(runRank(board, plan, rank)); // through all exit handlers: they have to come through too
    }
    board->pids[rank].store(pids[rank]);
  }
}

static inline bool reach(Board* board, int rank, int stage, double seconds) {
  Patience patience(seconds);
  while (board->ranks[rank].stage.load() < stage && patience.lasts()) usleep(200);
  return board->ranks[rank].stage.load() >= stage;
}

// One case: its verdict and figures as text; true if all was right.
static inline bool runCase(Plan plan, std::string* out) {
  Board* board = (Board*)mmap(NULL, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int pids[16] = {}, launcher = 0, last = plan.ranks - 1;
  if (plan.fault == PARENT) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if ((launcher = fork()) == 0) {
      startRanks(board, plan, pids);
      for (;;) pause();
    }
    for (int rank = 0; rank < plan.ranks; rank++)
      while ((pids[rank] = board->pids[rank].load()) == 0) usleep(1000);
  } else {
    startRanks(board, plan, pids);
  }
  bool right = true;
  std::string lines;
  char line[2600];
  for (int rank = 0; rank < plan.ranks; rank++) {
    if (!reach(board, rank, WAITING, 2 * bound())) {
      snprintf(line, sizeof line, "  rank %d does not get as far as its wait:%s\n", rank, board->ranks[rank].text);
      lines += line;
      right = false;
    }
  }
  usleep(300000);
  double begin = now();
  if (right) {
    board->go.store(1);
    if (plan.fault == KILL || plan.fault == REGISTER || plan.fault == DEVCOMM) kill(pids[last], SIGKILL);
    if (plan.fault == PARENT) kill(launcher, SIGKILL);
    if (plan.fault == STOP) {
      kill(pids[last], SIGSTOP);
      usleep(4000000);
      for (int rank = 0; rank < last; rank++)
        if (board->ranks[rank].heardAt > 0) strcat(board->ranks[rank].text, " WRONG a stop is no death;"), board->ranks[rank].failed = 1;
      kill(pids[last], SIGCONT);
      usleep(3000000);
      kill(pids[last], SIGKILL);
    }
    for (int rank = 0; rank < plan.ranks; rank++) {
      Board::Rank& shown = board->ranks[rank];
      bool dies = rank == last && (plan.fault == KILL || plan.fault == STOP || plan.fault == EXEC || plan.fault == CLOSE || isHostFault(plan.fault));
      int status = 0;
      if (dies) {
        if (plan.fault == INIT) kill(pids[rank], SIGKILL);
        continue;
      }
#ifdef __GINRS_CPU__
      // There a kernel that fails may be a process that fails.
      if (rank == last && isDeviceFault(plan.fault)) continue;
#endif
      bool ended = false;
      for (Patience patience(3 * bound()); !ended && patience.lasts(); usleep(500)) {
        ended = waitpid(pids[rank], &status, WNOHANG) != 0;
        // A rank that has given up ends at once, or never.
        if (shown.stage.load() == STUCK && patience.until > now() + 2) patience.until = now() + 2;
      }
      if (!ended) strcat(shown.text, " WRONG the process does not end;");
      bool exited = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
      if (!exited || shown.failed) right = false;
      if (ended && !exited && WIFSIGNALED(status)) snprintf(shown.text + strlen(shown.text), 64, " WRONG ended by signal %d;", WTERMSIG(status));
      snprintf(line, sizeof line, "  rank %d:", rank);
      lines += line;
      auto after = [&](const char* what, double when) {
        snprintf(line, sizeof line, " %s after %.1f ms,", what, (when - begin) * 1e3);
        if (when > 0) lines += line;
      };
      after("released", shown.releasedAt);
      after("heard", shown.heardAt);
      snprintf(line, sizeof line, "%s%s\n", shown.text, ended ? "" : " WRONG it is still there;");
      lines += line;
      snprintf(line, sizeof line, "    \"%.200s\"\n", shown.message);
      if (shown.message[0]) lines += line;
    }
  }
  for (int rank = 0; rank < plan.ranks; rank++) kill(pids[rank], SIGKILL);
  if (launcher) kill(launcher, SIGKILL);
  while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
  }
  *out = std::string(right ? "PASS " : "FAIL ") + plan.name() + " ranks=" + std::to_string(plan.ranks) + "\n" + lines;
  munmap(board, sizeof(Board));
  return right;
}

static inline int usage(const char* wrong) {
  fprintf(stderr, "fault: %s | fault [--ranks N] [--jobs J] [--blind] [FAULT:WAIT | FAULT | WAIT ..]\n  faults:", wrong);
  for (int f = 0; f < FAULTS; f++) fprintf(stderr, " %s", faultNames[f]);
  fprintf(stderr, "\n  waits:");
  for (int w = 0; w < WAITS; w++) fprintf(stderr, " %s", waitNames[w]);
  fprintf(stderr, "\n");
  return 2;
}

// Every combination unless some are asked for; device faults and aborts from a thread with three kinds of wait only.
static inline std::vector<Plan> plansFor(const std::vector<std::string>& wanted, int ranks, bool blind) {
  std::vector<Plan> plans;
  for (int fault = 0; fault < FAULTS; fault++) {
    for (int wait = 0; wait < WAITS; wait++) {
      Plan plan = {fault, wait, ranks, blind};
      if (!plan.hasWait() && wait > 0) continue;
      // Puts to a rank that has left wait for nobody.
      if (wait == TRAFFIC && isLeave(fault)) continue;
      // A blind kernel leaves no note, and the headers that it was compiled with have promised one.
      if (blind && isLeave(fault)) continue;
#if !defined(GINRS_DEVICE_MARKER_H_) && !defined(__GINRS_CPU__)
      // On a GPU a kernel of NVIDIA's headers that computes for longer looks like one that waits: docs/user/failures.md.
      if (fault == LONG) continue;
#endif
      bool host = wait == RECV || wait == REDUCE, chosen = wait == SIGNAL || wait == LSA || wait == LL;
      bool usual = fault == KILL || fault == ABORT_SAME ? !host
                   : fault == LEAVE                     ? chosen || host || wait == GIN
                   : fault == LEAVE_STAY                ? wait == LSA || wait == RECV
                   : fault == EXEC || fault == CLOSE    ? wait == SIGNAL
                                                        : chosen;
      bool asked = wanted.empty() && usual && fault != STOP;
      for (const std::string& word : wanted) {
        asked |= word == faultNames[fault] ? usual : plan.hasWait() && (word == waitNames[wait] ? usual : false);
        asked |= word == std::string(faultNames[fault]) + ":" + waitNames[wait] && plan.hasWait();
      }
      if (asked) plans.push_back(plan);
    }
  }
  return plans;
}

static inline int faultMain(int argc, char** argv) {
  int ranks = 2, jobs = 1;
  bool blind = false;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; i++) {
    std::string word = argv[i];
    if (word == "--blind") blind = true;
    else if ((word == "--ranks" || word == "--jobs") && i + 1 < argc) (word == "--ranks" ? ranks : jobs) = atoi(argv[++i]);
    else if (word[0] == '-') return usage("unknown option");
    else wanted.push_back(word);
  }
  if (ranks < 2 || ranks > 16 || jobs < 1) return usage("2 to 16 ranks, 1 job or more");
  std::vector<Plan> plans = plansFor(wanted, ranks, blind);
  if (plans.empty()) return usage("no such case");
  if (!dlsym(RTLD_DEFAULT, "ginrsGetVersionString")) {
    printf("SKIP fault: this is not libginrs; with NVIDIA's library waits of kernels do not end\n");
    return 0;
  }
  setenv("CUDA_MODULE_LOADING", "EAGER", 0); // a lazy load would wait for the kernel that runs
  setenv("GINRS_INIT_TIMEOUT", "5", 0);      // of host waits for a rank that never comes
  setenv("GINRS_TIMEOUT", "10", 0);
  int failed = 0, running = 0;
  auto collect = [&] {
    int status = 0;
    if (wait(&status) > 0) running--;
    failed += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  };
  for (Plan plan : plans) {
    if (running == jobs) collect();
    fflush(NULL);
    if (fork() == 0) {
      std::string out;
      bool right = runCase(plan, &out);
      fputs(out.c_str(), stdout);
      fflush(stdout);
      _exit(right ? 0 : 1);
    }
    running++;
  }
  while (running > 0) collect();
  printf("fault: %zu cases, %d failed\n", plans.size(), failed);
  return failed != 0;
}
