/* Who am I, and how do all ranks get the ncclUniqueId? For programs that ginrs-run, torchrun, mpirun or srun start; alone, a
 * program is rank 0 of 1. C and C++ (Linux), header only, before or after nccl.h:
 *
 *   ginrsBootstrap boot;
 *   if (ginrsBootstrapInit(&boot) != 0) return 1;
 *   if (boot.rank == 0) ncclGetUniqueId(&id);
 *   if (ginrsBootstrapBroadcast(&boot, &id, sizeof id) != 0) return 1;
 *
 * or, for the last two lines,
 *
 *   if (ginrsBootstrapUniqueId(&boot, &id) != 0) return 1;
 *
 * All return 0, or print what was wrong to stderr and return -1. Every rank makes the same broadcasts in the same order.
 *
 * On several machines ginrs-run --hosts brings broadcasts to all ranks. Other launchers do not: there ginrsBootstrapUniqueId lets
 * every rank make the same id, from NCCL_COMM_ID or else from MASTER_ADDR and the port behind MASTER_PORT, and from the job's secret
 * (GINRS_SECRET_FILE, docs/environment.md). It must be the first call into the library then.
 *
 * Rank 0 listens on a Unix socket and gives its bytes to every rank that asks, until all have. The socket lies in a folder that
 * only this user can enter: GINRS_RUN_ID, which ginrs-run makes for the job, else ginrs-UID in TMPDIR (or /tmp). There its name
 * says which job it is: MASTER_PORT, or the job's id of mpirun or srun. Both ends ask the kernel whether the other is the same
 * user, so another user can neither get nor plant an id, and because a rank 0 that lives answers, nothing of an earlier job is
 * ever taken. Silent or broken connections hold nobody up. Every wait ends after GINRS_BOOTSTRAP_TIMEOUT seconds (60). */
#ifndef GINRS_BOOTSTRAP_H_
#define GINRS_BOOTSTRAP_H_
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__) && !defined(__USE_MISC)
#error "ginrs_bootstrap.h: -std=c11, or _POSIX_C_SOURCE or _XOPEN_SOURCE alone, hides what it needs of Unix: include this one first, or use -D_GNU_SOURCE"
#endif

typedef struct ginrsBootstrap {
  int rank, nRanks, localRank;
  int round; /* broadcasts so far */
  int far;   /* some ranks are on other machines, as far as the launcher says */
} ginrsBootstrap;

static inline int ginrsBootstrapFail(const ginrsBootstrap* boot, const char* what, const char* detail) {
  fprintf(stderr, "ginrs bootstrap: rank %d of %d: %s%s%s\n", boot->rank, boot->nRanks, what, detail[0] ? ": " : "", detail);
  return -1;
}

/* A number from the environment; -1 if it is not there or none. */
static inline int ginrsBootstrapNumber(const char* name) {
  const char* text = getenv(name);
  char* end;
  long value;
  if (text == NULL || text[0] == 0) return -1;
  value = strtol(text, &end, 10);
  return *end != 0 || value < 0 || value > 0x7fffffff ? -1 : (int)value;
}

static inline double ginrsBootstrapNow(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline double ginrsBootstrapDeadline(void) {
  const char* text = getenv("GINRS_BOOTSTRAP_TIMEOUT");
  int seconds = ginrsBootstrapNumber("GINRS_BOOTSTRAP_TIMEOUT");
  if (text != NULL && text[0] != 0 && seconds <= 0) {
    fprintf(stderr, "ginrs bootstrap: GINRS_BOOTSTRAP_TIMEOUT=%s is no number of seconds above 0, using 60\n", text);
  }
  return ginrsBootstrapNow() + (seconds > 0 ? seconds : 60);
}

static inline void ginrsBootstrapPause(int milliseconds) {
  struct timespec pause = {0, milliseconds * 1000000L};
  nanosleep(&pause, NULL);
}

static inline int ginrsBootstrapInit(ginrsBootstrap* boot) {
  /* mpirun before srun: it may run inside an allocation of Slurm's, whose variables are there too. */
  static const char* const names[][4] = {
      {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_NUM_NODES"},
  };
  size_t i;
  boot->rank = boot->localRank = boot->round = boot->far = 0;
  boot->nRanks = 1;
  for (i = 0; i < sizeof names / sizeof names[0]; i++) {
    char detail[160];
    if (getenv(names[i][0]) == NULL || getenv(names[i][1]) == NULL) continue;
    boot->rank = ginrsBootstrapNumber(names[i][0]);
    boot->nRanks = ginrsBootstrapNumber(names[i][1]);
    boot->localRank = ginrsBootstrapNumber(names[i][2]);
    if (boot->localRank < 0) boot->localRank = boot->rank;
    boot->far = ginrsBootstrapNumber(names[i][3]);
    boot->far = i == 3 ? boot->far > 1 : boot->far > 0 && boot->far < boot->nRanks;
    if (boot->rank >= 0 && boot->rank < boot->nRanks) return 0;
    snprintf(detail, sizeof detail, "%s=%s %s=%s", names[i][0], getenv(names[i][0]), names[i][1], getenv(names[i][1]));
    return ginrsBootstrapFail(boot, "the environment names no valid rank", detail);
  }
  /* Each of several ranks would be a job of its own, and all would be well. */
  for (i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (ginrsBootstrapNumber(names[i][0]) > 0) {
      char detail[160];
      boot->rank = ginrsBootstrapNumber(names[i][0]);
      snprintf(detail, sizeof detail, "%s=%d, and %s is not set", names[i][0], boot->rank, names[i][1]);
      return ginrsBootstrapFail(boot, "the environment says which rank, and not of how many", detail);
    }
  }
  return 0;
}

/* ---- where rank 0 listens ---- */

/* Folders that may be the job's, in order; NULL after the last. Somebody else may hold the first name in /tmp. */
static inline const char* ginrsBootstrapFolder(int i, char* path, size_t bytes) {
  const char *run = getenv("GINRS_RUN_ID"), *temporary = getenv("TMPDIR");
  int length;
  if (run != NULL && run[0] != 0) return i == 0 ? run : NULL;
  if (temporary == NULL || temporary[0] == 0) temporary = "/tmp";
  length = snprintf(path, bytes, i == 0 ? "%s/ginrs-%ld" : "%s/ginrs-%ld.%d", temporary, (long)geteuid(), i);
  return i < 8 && length > 0 && (size_t)length < bytes ? path : NULL;
}

/* Closes and returns -1; errno stays. */
static inline int ginrsBootstrapClose(int fd) {
  int why = errno;
  close(fd);
  errno = why;
  return -1;
}

/* A descriptor of it, if it is a folder that only this user can enter; else -1 with errno. */
static inline int ginrsBootstrapOpenFolder(const char* path) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || (fstat(fd, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 077) == 0)) return fd;
  errno = EPERM;
  return ginrsBootstrapClose(fd);
}

/* Equal on all ranks of a job, different for jobs of one user that run at the same time; -1 where nothing names the job. */
static inline int ginrsBootstrapJob(char* name, size_t bytes) {
  static const char* const names[] = {"MASTER_PORT",    "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                                      "PMI_JOBID",      "SLURM_JOB_ID",        "SLURM_STEP_ID"};
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a: the values may hold any letter, a file's name may not */
  /* What torchrun sets is enough by itself: it may run inside mpirun's or srun's jobs, more than one in each. */
  size_t i, last = getenv("MASTER_PORT") != NULL ? 2 : sizeof names / sizeof names[0];
  int found = getenv("GINRS_RUN_ID") != NULL; /* a folder for the job alone */
  for (i = 0; i < last; i++) {
    const char* c = getenv(names[i]);
    found |= c != NULL && c[0] != 0;
    for (; c != NULL && *c != 0; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    hash = (hash ^ (uint64_t)i) * 0x100000001b3u;
  }
  snprintf(name, bytes, "bootstrap-%016llx", (unsigned long long)hash);
  return found ? 0 : -1;
}

/* The way through the descriptor always fits into an address, however long the folder's path is. */
static inline struct sockaddr_un ginrsBootstrapAddress(int folder, const char* name) {
  struct sockaddr_un address;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder, name);
  return address;
}

/* The process at the other end, or 0 if it is of another user. */
static inline int ginrsBootstrapPeer(int fd) {
  struct {
    pid_t pid;
    uid_t uid;
    gid_t gid;
  } peer;
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid()) return 0;
  return peer.pid > 0 ? (int)peer.pid : 1; /* a pid that cannot be seen from here is 0 */
}

/* A socket that is connected to what listens there; -1 with errno. */
static inline int ginrsBootstrapConnect(int folder, const char* name) {
  struct sockaddr_un to = ginrsBootstrapAddress(folder, name);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return fd < 0 || connect(fd, (struct sockaddr*)&to, sizeof to) == 0 ? fd : ginrsBootstrapClose(fd);
}

/* ---- what travels ---- */

typedef struct ginrsBootstrapGreeting { /* a rank asks */
  char magic[8];
  uint32_t rank, nRanks, round, bytes;
} ginrsBootstrapGreeting;

typedef struct ginrsBootstrapAnswer { /* rank 0: same as asked, and the bytes follow; or what it has instead */
  char magic[8];
  uint32_t nRanks, round, bytes, good;
} ginrsBootstrapAnswer;

#define GINRS_BOOTSTRAP_MAGIC "ginrsid2"

/* Receives (into) or sends (from) some bytes, without waiting: how many, 0 for none now, -1 if the connection is over. */
static inline long ginrsBootstrapSome(int fd, void* into, const void* from, size_t bytes) {
  ssize_t n = into != NULL ? recv(fd, into, bytes, MSG_DONTWAIT) : send(fd, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n > 0) return (long)n;
  return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* All of the bytes before the deadline. */
static inline int ginrsBootstrapAll(int fd, void* into, const void* from, size_t bytes, double deadline) {
  size_t done = 0;
  while (done < bytes) {
    struct pollfd ready = {fd, (short)(into != NULL ? POLLIN : POLLOUT), 0};
    double left = deadline - ginrsBootstrapNow();
    long n;
    if (left <= 0) return -1;
    poll(&ready, 1, (int)(left < 1000 ? left * 1000 : 1000000) + 1);
    n = ginrsBootstrapSome(fd, into ? (char*)into + done : NULL, from ? (const char*)from + done : NULL, bytes - done);
    if (n < 0) return -1;
    done += (size_t)n;
  }
  return 0;
}

/* ---- rank 0 ---- */

/* Connections that are served at the same time. Each has 2 s to ask, and as long for every step of the answer. Where all seats are
 * taken the one that has been silent for longest goes: a rank asks as soon as it is connected. */
enum { ginrsBootstrapSeats = 64 };

typedef struct ginrsBootstrapSeat {
  int fd, pid, at; /* where poll has it */
  double since;
  size_t got, sent, whole; /* of the greeting; of the answer, and its size */
  ginrsBootstrapGreeting greeting;
} ginrsBootstrapSeat;

typedef struct ginrsBootstrapServer {
  const ginrsBootstrap* boot;
  char *answer, *seen; /* the answer is its head and the bytes */
  int served;
  char complaint[160]; /* about the last rank that asked for something else, or could not be let in */
} ginrsBootstrapServer;

/* A whole greeting has come: sets the answer's size. Nonzero for who is no rank of ours, or one that is ahead of us. */
static inline int ginrsBootstrapAsked(ginrsBootstrapServer* server, ginrsBootstrapSeat* seat) {
  const ginrsBootstrapGreeting* ask = &seat->greeting;
  ginrsBootstrapAnswer* head = (ginrsBootstrapAnswer*)server->answer;
  if (memcmp(ask->magic, GINRS_BOOTSTRAP_MAGIC, 8) != 0 || ask->round > head->round) return -1;
  if (ask->nRanks == head->nRanks && ask->bytes == head->bytes && ask->round == head->round && ask->rank > 0 &&
      ask->rank < ask->nRanks && !server->seen[ask->rank]) {
    seat->whole = sizeof *head + head->bytes;
  } else {
    snprintf(server->complaint, sizeof server->complaint, "; rank %u of %u (pid %d) asked for %u bytes in broadcast %u%s", ask->rank,
             ask->nRanks, seat->pid, ask->bytes, ask->round, ask->nRanks == head->nRanks ? "" : ", of another number of ranks");
    seat->whole = sizeof *head;
  }
  return 0;
}

/* Moves one connection on. Nonzero: it is over. */
static inline int ginrsBootstrapStep(ginrsBootstrapServer* server, ginrsBootstrapSeat* seat) {
  ginrsBootstrapAnswer* head = (ginrsBootstrapAnswer*)server->answer;
  size_t want = sizeof seat->greeting - seat->got;
  long n = want > 0 ? ginrsBootstrapSome(seat->fd, (char*)&seat->greeting + seat->got, NULL, want) : 0;
  if (n < 0) return -1;
  seat->got += (size_t)n;
  if (seat->got < sizeof seat->greeting) return 0;
  if (seat->whole == 0 && ginrsBootstrapAsked(server, seat) != 0) return -1;
  head->good = seat->whole > sizeof *head;
  n = ginrsBootstrapSome(seat->fd, NULL, server->answer + seat->sent, seat->whole - seat->sent);
  if (n < 0) return -1;
  if (n > 0) seat->since = ginrsBootstrapNow();
  seat->sent += (size_t)n;
  if (seat->sent < seat->whole) return 0;
  if (head->good && !server->seen[seat->greeting.rank]) server->seen[seat->greeting.rank] = 1, server->served++;
  return 1;
}

/* A place for a new connection; -1 if there is none now. */
static inline int ginrsBootstrapPlace(ginrsBootstrapSeat* seats, double now) {
  int i, oldest = -1;
  for (i = 0; i < ginrsBootstrapSeats; i++) {
    if (seats[i].fd < 0) return i;
    if (seats[i].whole == 0 && (oldest < 0 || seats[i].since < seats[oldest].since)) oldest = i;
  }
  if (oldest < 0 || now - seats[oldest].since < 0.05) return -1;
  close(seats[oldest].fd);
  seats[oldest].fd = -1;
  return oldest;
}

/* accept4, which only _GNU_SOURCE declares: another header may have come before this one. */
static inline int ginrsBootstrapAccept(int listener) { return (int)syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC); }

static inline void ginrsBootstrapServe(ginrsBootstrapServer* server, int listener, double deadline) {
  ginrsBootstrapSeat seats[ginrsBootstrapSeats];
  struct pollfd ready[1 + ginrsBootstrapSeats] = {{listener, POLLIN, 0}};
  int i, fd, turn, count;
  for (i = 0; i < ginrsBootstrapSeats; i++) seats[i].fd = -1;
  while (server->served < server->boot->nRanks - 1 && ginrsBootstrapNow() < deadline) {
    double now;
    /* Those that are taken alone: poll refuses more than `ulimit -n`. */
    for (count = 1, i = 0; i < ginrsBootstrapSeats; i++) {
      if (seats[i].fd < 0) continue;
      ready[seats[i].at = count].fd = seats[i].fd;
      ready[count++].events = (short)(seats[i].whole == 0 ? POLLIN : POLLOUT);
    }
    if (poll(ready, (nfds_t)count, 100) < 0) {
      ginrsBootstrapPause(2); /* a signal */
      continue;
    }
    now = ginrsBootstrapNow();
    for (i = 0; i < ginrsBootstrapSeats; i++) {
      if (seats[i].fd < 0 || (!ready[seats[i].at].revents && now - seats[i].since < 2)) continue;
      if (now - seats[i].since < 2 && ginrsBootstrapStep(server, &seats[i]) == 0) continue;
      close(seats[i].fd);
      seats[i].fd = -1;
    }
    /* A few at a time: who floods must not keep the others from being served. */
    for (turn = 0; turn < 16 && ready[0].revents; turn++) {
      i = ginrsBootstrapPlace(seats, now);
      fd = i < 0 ? -1 : ginrsBootstrapAccept(listener);
      if (fd < 0) {
        if (i >= 0 && errno == EAGAIN) break;
        if (i >= 0) snprintf(server->complaint, sizeof server->complaint, "; accept: %s", strerror(errno));
        ginrsBootstrapPause(2); /* no seat or descriptor is free */
        break;
      }
      memset(&seats[i], 0, sizeof seats[i]);
      seats[i].fd = fd;
      seats[i].since = now;
      if ((seats[i].pid = ginrsBootstrapPeer(fd)) == 0 || ginrsBootstrapStep(server, &seats[i]) != 0) {
        close(fd);
        seats[i].fd = -1;
      }
    }
  }
  for (i = 0; i < ginrsBootstrapSeats; i++) close(seats[i].fd);
}

/* A socket that listens under that name; -1 with errno. What nobody listens to any more is replaced. */
static inline int ginrsBootstrapListen(int folder, const char* name, double deadline, int* other) {
  struct sockaddr_un address = ginrsBootstrapAddress(folder, name);
  int probe, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  double now = ginrsBootstrapNow(), last = deadline < now + 2 ? deadline : now + 2;
  for (*other = 0; fd >= 0 && ginrsBootstrapNow() < last; ginrsBootstrapPause(5)) {
    errno = EBUSY;
    if (flock(folder, LOCK_EX | LOCK_NB) != 0) continue; /* two that replace at once would take each other's */
    if ((probe = ginrsBootstrapConnect(folder, name)) >= 0) {
      *other = ginrsBootstrapPeer(probe);
      close(probe);
    } else if (errno == ECONNREFUSED) {
      unlinkat(folder, name, 0);
    }
    probe = bind(fd, (struct sockaddr*)&address, sizeof address) == 0 && listen(fd, 1024) == 0 ? 0 : errno;
    flock(folder, LOCK_UN);
    if (probe == 0) return fd;
    if ((errno = probe) != EADDRINUSE) break;
  }
  return fd < 0 ? -1 : ginrsBootstrapClose(fd);
}

static inline int ginrsBootstrapGive(const ginrsBootstrap* boot, const char* name, const void* data, size_t bytes, double deadline) {
  ginrsBootstrapServer server;
  ginrsBootstrapAnswer head = {{0}, (uint32_t)boot->nRanks, (uint32_t)boot->round, (uint32_t)bytes, 1};
  char path[1024], detail[300];
  const char* where = NULL;
  struct stat status;
  int i, folder = -1, listener, other = 0;
  for (i = 0; folder < 0 && (where = ginrsBootstrapFolder(i, path, sizeof path)) != NULL; i++) {
    if (mkdir(where, 0700) != 0 && errno != EEXIST) return ginrsBootstrapFail(boot, where, strerror(errno));
    folder = ginrsBootstrapOpenFolder(where);
  }
  if (folder < 0) {
    where = ginrsBootstrapFolder(0, path, sizeof path);
    i = where != NULL && stat(where, &status) == 0 && status.st_uid == geteuid();
    return ginrsBootstrapFail(boot, where ? where : "TMPDIR is too long",
                              i ? "others can enter this folder: chmod 700" : "another user has this name: set TMPDIR to a folder of your own");
  }
  listener = ginrsBootstrapListen(folder, name, deadline, &other);
  if (listener < 0) {
    snprintf(detail, sizeof detail, "pid %d is rank 0 of a job that looks the same: give each job its own MASTER_PORT", other);
    close(folder);
    return ginrsBootstrapFail(boot, "cannot listen", other ? detail : strerror(errno));
  }
  memset(&server, 0, sizeof server);
  memcpy(head.magic, GINRS_BOOTSTRAP_MAGIC, 8);
  server.boot = boot;
  server.seen = (char*)calloc((size_t)boot->nRanks, 1);
  server.answer = (char*)malloc(sizeof head + bytes);
  if (server.seen != NULL && server.answer != NULL) {
    memcpy(server.answer, &head, sizeof head);
    memcpy(server.answer + sizeof head, data, bytes);
    ginrsBootstrapServe(&server, listener, deadline);
  }
  unlinkat(folder, name, 0);
  close(listener);
  close(folder);
  free(server.seen);
  free(server.answer);
  if (server.served == boot->nRanks - 1) return 0;
  snprintf(detail, sizeof detail, "%d of %d came%s", server.served, boot->nRanks - 1, server.complaint);
  return ginrsBootstrapFail(boot, "not all ranks asked in time (GINRS_BOOTSTRAP_TIMEOUT)", detail);
}

/* ---- the others ---- */

/* Asks the rank 0 behind a connection. 0: the bytes are there. 1: try again. -1: it has told that we do not fit. */
static inline int ginrsBootstrapAsk(const ginrsBootstrap* boot, int fd, void* data, size_t bytes, double deadline) {
  ginrsBootstrapGreeting ask = {{0}, (uint32_t)boot->rank, (uint32_t)boot->nRanks, (uint32_t)boot->round, (uint32_t)bytes};
  ginrsBootstrapAnswer head;
  char what[60], detail[300];
  int pid = ginrsBootstrapPeer(fd);
  memcpy(ask.magic, GINRS_BOOTSTRAP_MAGIC, 8);
  if (pid == 0 || ginrsBootstrapAll(fd, NULL, &ask, sizeof ask, deadline) != 0 ||
      ginrsBootstrapAll(fd, &head, NULL, sizeof head, deadline) != 0 || memcmp(head.magic, ask.magic, 8) != 0) {
    return 1;
  }
  if (head.good) return ginrsBootstrapAll(fd, data, NULL, bytes, deadline) == 0 ? 0 : 1;
  snprintf(what, sizeof what, "rank 0 (pid %d) has something else", pid);
  snprintf(detail, sizeof detail,
           "%u bytes for %u ranks in broadcast %u, not %u for %u in broadcast %u: do all ranks broadcast the same things in the same "
           "order, each rank once?",
           head.bytes, head.nRanks, head.round, ask.bytes, ask.nRanks, ask.round);
  return ginrsBootstrapFail(boot, what, detail);
}

static inline int ginrsBootstrapTake(const ginrsBootstrap* boot, const char* name, void* data, size_t bytes, double deadline) {
  char path[1024], detail[1200];
  int i, pause = 2, foreign = 0, met = 0;
  for (;;) {
    const char* where;
    for (i = 0; (where = ginrsBootstrapFolder(i, path, sizeof path)) != NULL; i++) {
      int status = 1, fd, folder = ginrsBootstrapOpenFolder(where);
      if (folder < 0) {
        foreign |= errno != ENOENT;
        continue;
      }
      fd = ginrsBootstrapConnect(folder, name);
      close(folder);
      if (fd < 0) continue;
      met = 1;
      status = ginrsBootstrapAsk(boot, fd, data, bytes, deadline);
      close(fd);
      if (status <= 0) return status;
    }
    if (ginrsBootstrapNow() > deadline) break;
    ginrsBootstrapPause(pause);
    if (pause < 50) pause *= 2;
  }
  snprintf(detail, sizeof detail, "%s (%s of %s%s)",
           met ? "it listens, but has not answered" : "nobody listens: has it started, on this machine, as this user?", name,
           ginrsBootstrapFolder(0, path, sizeof path), foreign ? ", or the names after it: another user has that one" : "");
  return ginrsBootstrapFail(boot, "rank 0 did not answer in time (GINRS_BOOTSTRAP_TIMEOUT)", detail);
}

/* Rank 0's bytes to all; every rank calls it, with the same size. */
static inline int ginrsBootstrapBroadcast(ginrsBootstrap* boot, void* data, size_t bytes) {
  double deadline = ginrsBootstrapDeadline();
  char name[40];
  boot->round++;
  if (boot->nRanks == 1) return 0;
  if (boot->far && getenv("GINRS_RUN_ID") == NULL) {
    return ginrsBootstrapFail(boot, "this launcher's ranks are on several machines, and nothing brings bytes from one to another",
                              "start them with ginrs-run --hosts, or get the unique id from ginrsBootstrapUniqueId");
  }
  if (bytes > 0x7fffffff) return ginrsBootstrapFail(boot, "a broadcast of more than 2 GiB", "");
  if (ginrsBootstrapJob(name, sizeof name) != 0) {
    return ginrsBootstrapFail(boot, "no way to share the unique id: start with ginrs-run, or set MASTER_PORT alike on all ranks", "");
  }
  return boot->rank == 0 ? ginrsBootstrapGive(boot, name, data, bytes, deadline)
                         : ginrsBootstrapTake(boot, name, data, bytes, deadline);
}

/* ---- the unique id ---- */

/* All ranks make the same id, or rank 0 makes one for all: whether this one asks the library for it. */
static inline int ginrsBootstrapMakesId(const ginrsBootstrap* boot) {
  const char *address = getenv("MASTER_ADDR"), *point = getenv("NCCL_COMM_ID");
  int port = ginrsBootstrapNumber("MASTER_PORT");
  char made[300];
  if (point != NULL && point[0] != 0) return 1;
  if (!boot->far || getenv("GINRS_RUN_ID") != NULL) return boot->rank == 0;
  if (address == NULL || address[0] == 0 || port <= 0) return 0;
  if (port >= 65535) {
    ginrsBootstrapFail(boot, "ranks meet at the port behind MASTER_PORT, and there is none", getenv("MASTER_PORT"));
    return 0;
  }
  snprintf(made, sizeof made, strchr(address, ':') != NULL ? "[%s]:%d" : "%s:%d", address, port + 1);
  if (setenv("NCCL_COMM_ID", made, 1) == 0) return 1;
  ginrsBootstrapFail(boot, "setenv NCCL_COMM_ID", strerror(errno));
  return 0;
}

/* Behind that: it is on all ranks. */
static inline int ginrsBootstrapShareId(ginrsBootstrap* boot, void* id, size_t bytes) {
  const char* point = getenv("NCCL_COMM_ID");
  if (point != NULL && point[0] != 0) return 0;
  if (boot->far && getenv("GINRS_RUN_ID") == NULL) {
    return ginrsBootstrapFail(boot, "ranks on several machines need a meeting point",
                              "set NCCL_COMM_ID=HOST:PORT, of rank 0's machine, and GINRS_SECRET_FILE alike on all");
  }
  return ginrsBootstrapBroadcast(boot, id, bytes);
}

/* The id of a communicator of all ranks, on all of them. Where nccl.h comes behind this header it is a macro, which takes its arguments twice
 * and has no address. */
#ifdef NCCL_MAJOR
static inline int ginrsBootstrapUniqueId(ginrsBootstrap* boot, ncclUniqueId* id) {
  if (ginrsBootstrapMakesId(boot) && ncclGetUniqueId(id) != ncclSuccess) {
    return ginrsBootstrapFail(boot, "ncclGetUniqueId", ncclGetLastError(NULL));
  }
  return ginrsBootstrapShareId(boot, id, sizeof *id);
}
#else
#define ginrsBootstrapUniqueId(boot, id)                                         \
  (ginrsBootstrapMakesId(boot) && ncclGetUniqueId(id) != ncclSuccess             \
       ? ginrsBootstrapFail((boot), "ncclGetUniqueId", ncclGetLastError(NULL))   \
       : ginrsBootstrapShareId((boot), (id), sizeof(ncclUniqueId)))
#endif
#endif
