// A rank fails at a random moment of a job's life; all others must end soon, by themselves, and whoever was told of a failure must have
// been told who it was.
//
//   chaos [--rounds N] [--seed S] [--seconds B] [--jobs J] [--machines M | --networks A,B,..] [--verbose]
//                                                                           default: 20 rounds, a seed from the clock, 2 at a time
//
// --machines: the ranks are spread over M machines that share nothing (GINRS_FAKE_MACHINES). --networks: over network namespaces of these
// names, as scripts/networks.sh makes them; needs root. How long the others took to hear of a death is printed, and not judged.
//
// Round i has seed S + i and is the same job again with --seed S+i --rounds 1, up to what the machine does. --seconds ends early.
// Built with either header set; for the CPU device, where a job takes a second.
#include "job.h"

#include <algorithm>
#include <errno.h>
#include <fcntl.h>
#include <iterator>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <vector>

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

// Where the ranks are.
static int machines = 1;
static std::vector<std::string> networks;

struct Plan {
  uint64_t seed;
  int ranks, victim, fault, phase, delay; // delay in microseconds behind the beginning of the phase
  bool nodes;                             // every rank is a node of its own: nothing goes by LSA
  std::vector<int> machine;               // by rank
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
    if (machines > 1) ranks = std::max(ranks, std::min(machines, 4));
    int turn = random.next(2);
    for (int rank = 0; rank < ranks; rank++) machine.push_back(turn ? rank % machines : rank * machines / ranks);
  }
  // As GINRS_FAKE_MACHINES has it.
  std::string places() const {
    std::string list;
    for (int at : machine) list += (list.empty() ? "" : ",") + std::to_string(at);
    return list;
  }
  std::string name() const {
    return "seed " + std::to_string(seed) + ": " + std::to_string(ranks) + " ranks" + (nodes ? " on as many nodes" : "") + (machines > 1 ? " on machines " + places() : "") +
           ", rank " +
           std::to_string(victim) + ": " + faultNames[fault] + " in " + phaseNames[phase] + " + " + std::to_string(delay) + " us";
  }
};

static bool reaches(Board::Rank& rank, int phase, double until) {
  while (rank.phase.load() < phase && rank.outcome.load() == RUNNING && now() < until) usleep(50);
  return rank.phase.load() >= phase;
}

// This process goes over to a network namespace.
static void enterNetwork(const std::string& name) {
  int file = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || setns(file, CLONE_NEWNET) != 0) {
    fprintf(stderr, "chaos: network namespace %s: %s\n", name.c_str(), strerror(errno));
    _exit(2);
  }
  close(file);
}

static bool isNamed(const char* text, int rank, int pid) {
  std::string name = "rank " + std::to_string(rank);
  for (const char* at = text; (at = strstr(at, name.c_str())); at++) {
    char after = at[name.size()];
    if (after < '0' || after > '9') return true;
  }
  return strstr(text, ("pid " + std::to_string(pid)).c_str()) != NULL;
}

// True if all was right; what was seen goes to *out, and to *heard how long a death took to be known to all, in seconds.
static bool runRound(const Plan& plan, std::string* out, double* heard) {
  Board* board = (Board*)mmap(NULL, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int pids[8];
  bool gone[8] = {};
  setenv("GINRS_TIMEOUT", "5", 1);
  setenv("GINRS_INIT_TIMEOUT", "5", 1);
  setenv("GINRS_WAIT_WARN", "1", 1);
  if (plan.nodes) setenv("GINRS_FAKE_NODES", "per-rank", 1);
  if (machines > 1 && networks.empty()) setenv("GINRS_FAKE_MACHINES", plan.places().c_str(), 1);
  for (int rank = 0; rank < plan.ranks; rank++) {
    fflush(NULL);
    pids[rank] = fork();
    if (pids[rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (!networks.empty()) enterNetwork(networks[plan.machine[rank]]);
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
    usleep(200000 + plan.delay * (machines > 1 ? 30 : 10)); // at most 2 s: nobody may take it for an end
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
    if (plan.fault == KILL && plan.phase > INIT && told && !isVictim) *heard = std::max(*heard, shown.toldAt - struck);
    if (plan.fault == STOP && told) note(rank, "failed, though the other was only stopped");
    // Who comes after rank 0 has heard and gone cannot hear it from anybody.
    bool late = strstr(shown.message, "GINRS-E019") != NULL && board->ranks[0].outcome.load() == TOLD;
    if (!isVictim && told && !late && !isNamed(shown.message, plan.victim, pids[plan.victim])) note(rank, "was not told who it was");
    kill(pids[rank], SIGKILL);
    if (!gone[rank]) waitpid(pids[rank], NULL, 0);
  }
  char line[1000];
  snprintf(line, sizeof line, "%s %s: others ended after %.2f s", wrong.empty() ? "PASS" : "FAIL", plan.name().c_str(), std::max(0.0, last - struck));
  *out = line + (*heard > 0 ? ", told after " + std::to_string(*heard) : "") + "\n" + wrong;
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
    else if (i + 1 == argc) return fprintf(stderr, "chaos: %s | chaos [--rounds N] [--seed S] [--seconds B] [--jobs J] [--machines M | --networks A,B,..] [--verbose]\n", argv[i]), 2;
    else if (word == "--rounds") rounds = atoi(argv[++i]);
    else if (word == "--seed") seed = strtoull(argv[++i], NULL, 10);
    else if (word == "--seconds") seconds = atof(argv[++i]);
    else if (word == "--jobs") jobs = atoi(argv[++i]);
    else if (word == "--machines") machines = std::max(1, atoi(argv[++i]));
    else if (word == "--networks") {
      for (char* name = strtok(argv[++i], ","); name; name = strtok(NULL, ",")) networks.push_back(name);
      machines = int(networks.size());
    }
    else return fprintf(stderr, "chaos: unknown option %s\n", argv[i]), 2;
  }
  double begin = now();
  int failed = 0, running = 0, done = 0;
  double* heard = (double*)mmap(NULL, rounds * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
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
      bool right = runRound(plan, &out, &heard[done]);
      if (!right) out += "    again: chaos --verbose --rounds 1 --seed " + std::to_string(plan.seed) + "\n";
      if (right && !verbose) out = "";
      fputs(out.c_str(), stdout);
      fflush(stdout);
      _exit(right ? 0 : 1);
    }
    running++;
  }
  while (running > 0) collect();
  std::vector<double> times;
  std::copy_if(heard, heard + done, std::back_inserter(times), [](double time) { return time > 0; });
  std::sort(times.begin(), times.end());
  if (!times.empty())
    printf("chaos: a kill was known to all after %.1f ms (median of %zu), %.1f ms (99 %%), at most %.1f ms\n", times[times.size() / 2] * 1e3, times.size(),
           times[times.size() * 99 / 100] * 1e3, times.back() * 1e3);
  printf("chaos: %d rounds from seed %llu, %d failed, %.0f s\n", done, (unsigned long long)seed, failed, now() - begin);
  return failed != 0;
}
