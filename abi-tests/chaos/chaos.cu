// A rank fails at a random moment of a job's life; all others must end soon, by themselves, and whoever was told of a failure must have
// been told who it was.
//
//   chaos [--rounds N] [--seed S] [--seconds B] [--jobs J] [--verbose]      default: 20 rounds, a seed from the clock, 2 at a time
//
// Round i has seed S + i and is the same job again with --seed S+i --rounds 1, up to what the machine does. --seconds ends early.
// Built with either header set; for the CPU device, where a job takes a second.
#include "job.h"

#include <algorithm>
#include <errno.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

// Seconds that survivors have: far above the deadlines below, for the machine may be busy.
static const double patience = 60;

struct Random {
  uint64_t state;
  uint32_t next(uint32_t below) {
    state += 0x9e3779b97f4a7c15ull;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return uint32_t((z ^ z >> 31) >> 32) % below;
  }
};

struct Plan {
  uint64_t seed;
  int ranks, victim, fault, phase, delay; // delay in microseconds behind the beginning of the phase
  bool nodes;                             // every rank is a node of its own: nothing goes by LSA
  explicit Plan(uint64_t seed) : seed(seed) {
    Random random = {seed};
    ranks = 2 + random.next(3);
    victim = random.next(ranks);
    fault = random.next(FAULTS);
    if (fault == STOP || fault == DECLINE) fault = random.next(2) ? KILL : fault; // the dull ones less often
    phase = random.next(PHASES);
    if (fault == DECLINE) phase = INIT;
    delay = random.next(4) ? random.next(5000) : random.next(60000);
    nodes = random.next(4) == 0;
    // Whoever makes the id and is gone before the others have it leaves them nothing to wait for.
    if (phase == JOIN && victim == 0) phase = INIT;
    if (phase == JOIN && (fault == LEAVE || fault == DECLINE)) phase = INIT;
  }
  std::string name() const {
    return "seed " + std::to_string(seed) + ": " + std::to_string(ranks) + " ranks" + (nodes ? " on as many nodes" : "") + ", rank " +
           std::to_string(victim) + ": " + faultNames[fault] + " in " + phaseNames[phase] + " + " + std::to_string(delay) + " us";
  }
};

static bool reaches(Board::Rank& rank, int phase, double until) {
  while (rank.phase.load() < phase && rank.outcome.load() == RUNNING && now() < until) usleep(50);
  return rank.phase.load() >= phase;
}

static bool isNamed(const char* text, int rank, int pid) {
  std::string name = "rank " + std::to_string(rank);
  for (const char* at = text; (at = strstr(at, name.c_str())); at++) {
    char after = at[name.size()];
    if (after < '0' || after > '9') return true;
  }
  return strstr(text, ("pid " + std::to_string(pid)).c_str()) != NULL;
}

// True if all was right; what was seen goes to *out.
static bool runRound(const Plan& plan, std::string* out) {
  Board* board = (Board*)mmap(NULL, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int pids[8];
  bool gone[8] = {};
  setenv("GINRS_TIMEOUT", "5", 1);
  setenv("GINRS_INIT_TIMEOUT", "5", 1);
  setenv("GINRS_WAIT_WARN", "1", 1);
  if (plan.nodes) setenv("GINRS_FAKE_NODES", "per-rank", 1);
  for (int rank = 0; rank < plan.ranks; rank++) {
    fflush(NULL);
    pids[rank] = fork();
    if (pids[rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      Life* life = new Life();
      life->job = {board, plan.ranks, rank, plan.fault, plan.victim, plan.phase};
      life->run();
    }
  }
  double begin = now();
  Board::Rank& victim = board->ranks[plan.victim];
  if (reaches(victim, plan.phase, begin + patience)) usleep(plan.delay);
  if (plan.fault == KILL) kill(pids[plan.victim], SIGKILL);
  if (plan.fault == STOP) {
    kill(pids[plan.victim], SIGSTOP);
    usleep(200000 + plan.delay * 10);
    kill(pids[plan.victim], SIGCONT);
  }
  victim.strike.store(1);
  double struck = now(), last = struck;
  int left = plan.ranks;
  std::string wrong;
  auto note = [&](int rank, const char* what) { wrong += "  rank " + std::to_string(rank) + " " + what + "\n"; };
  while (left > 0 && now() < struck + patience) {
    for (int rank = 0; rank < plan.ranks; rank++) {
      int status = 0;
      if (gone[rank] || waitpid(pids[rank], &status, WNOHANG) <= 0) continue;
      gone[rank] = true;
      left--;
      if (rank == plan.victim) continue;
      last = now();
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) note(rank, ("ended with status " + std::to_string(status)).c_str());
    }
    // Nothing ends what it has become.
    if (plan.fault == EXEC && left == 1 && !gone[plan.victim]) break;
    usleep(500);
  }
  for (int rank = 0; rank < plan.ranks; rank++) {
    Board::Rank& shown = board->ranks[rank];
    bool isVictim = rank == plan.victim;
    if (!gone[rank] && !(isVictim && plan.fault == EXEC)) note(rank, "hangs");
    if (!isVictim && shown.outcome.load() == RUNNING && gone[rank]) note(rank, "ended without a word");
    bool told = shown.outcome.load() == TOLD;
    if (plan.fault == STOP && told) note(rank, "failed, though the other was only stopped");
    // Who comes after rank 0 has heard and gone cannot hear it from anybody.
    bool late = strstr(shown.message, "GINRS-E019") != NULL && board->ranks[0].outcome.load() == TOLD;
    if (!isVictim && told && !late && !isNamed(shown.message, plan.victim, pids[plan.victim])) note(rank, "was not told who it was");
    kill(pids[rank], SIGKILL);
    if (!gone[rank]) waitpid(pids[rank], NULL, 0);
  }
  char line[1000];
  snprintf(line, sizeof line, "%s %s: others ended after %.2f s\n", wrong.empty() ? "PASS" : "FAIL", plan.name().c_str(), std::max(0.0, last - struck));
  *out = line + wrong;
  for (int rank = 0; rank < plan.ranks; rank++) {
    Board::Rank& shown = board->ranks[rank];
    static const char* const outcomes[] = {"nothing", "fine", "told"};
    snprintf(line, sizeof line, "    rank %d (pid %d) in %s: %s %s\n", rank, pids[rank], phaseNames[shown.phase.load()], outcomes[shown.outcome.load()],
             shown.message);
    *out += line;
  }
  munmap(board, sizeof(Board));
  return wrong.empty();
}

int main(int argc, char** argv) {
  uint64_t seed = uint64_t(time(NULL));
  int rounds = 20, jobs = 2;
  double seconds = 1e9;
  bool verbose = false;
  for (int i = 1; i < argc; i++) {
    std::string word = argv[i];
    if (word == "--verbose") verbose = true;
    else if (i + 1 == argc) return fprintf(stderr, "chaos: %s | chaos [--rounds N] [--seed S] [--seconds B] [--jobs J] [--verbose]\n", argv[i]), 2;
    else if (word == "--rounds") rounds = atoi(argv[++i]);
    else if (word == "--seed") seed = strtoull(argv[++i], NULL, 10);
    else if (word == "--seconds") seconds = atof(argv[++i]);
    else if (word == "--jobs") jobs = atoi(argv[++i]);
    else return fprintf(stderr, "chaos: unknown option %s\n", argv[i]), 2;
  }
  double begin = now();
  int failed = 0, running = 0, done = 0;
  auto collect = [&] {
    int status = 0;
    if (wait(&status) <= 0) return;
    running--;
    failed += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  };
  for (; done < rounds && now() - begin < seconds; done++) {
    if (running == jobs) collect();
    fflush(NULL);
    if (fork() == 0) {
      std::string out;
      Plan plan(seed + done);
      bool right = runRound(plan, &out);
      if (!right) out += "    again: chaos --verbose --rounds 1 --seed " + std::to_string(plan.seed) + "\n";
      if (right && !verbose) out = "";
      fputs(out.c_str(), stdout);
      fflush(stdout);
      _exit(right ? 0 : 1);
    }
    running++;
  }
  while (running > 0) collect();
  printf("chaos: %d rounds from seed %llu, %d failed, %.0f s\n", done, (unsigned long long)seed, failed, now() - begin);
  return failed != 0;
}
