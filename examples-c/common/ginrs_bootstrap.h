/* Who am I, and how do all ranks get the ncclUniqueId? For programs started by ginrs-run, torchrun, mpirun or srun; alone,
 * a program is rank 0 of 1. C and C++ (POSIX), header only:
 *
 *   ginrsBootstrap boot;
 *   if (ginrsBootstrapInit(&boot) != 0) return 1;
 *   if (boot.rank == 0) ncclGetUniqueId(&id);
 *   if (ginrsBootstrapBroadcast(&boot, &id, sizeof id) != 0) return 1;
 *
 * Both return 0, or print what was wrong to stderr and return -1. Bytes travel by the first of these that there is:
 *   1. a file in GINRS_RUN_ID, the private folder that ginrs-run makes for the job
 *   2. TCP to MASTER_ADDR, port MASTER_PORT + 1 (torchrun's own store listens on MASTER_PORT); rank 0 serves
 *   3. a file in TMPDIR named by the job's id, where all ranks are on one machine (mpirun, srun)
 * Every wait ends after GINRS_BOOTSTRAP_TIMEOUT seconds, 60 unless set. Over TCP the bytes are not encrypted. */
#ifndef GINRS_BOOTSTRAP_H_
#define GINRS_BOOTSTRAP_H_
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct ginrsBootstrap {
  int rank, nRanks, localRank;
  int round; /* broadcasts so far: each has its own file or greeting */
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
  int seconds = ginrsBootstrapNumber("GINRS_BOOTSTRAP_TIMEOUT");
  return ginrsBootstrapNow() + (seconds > 0 ? seconds : 60);
}

static inline void ginrsBootstrapPause(void) {
  struct timespec pause = {0, 2000000};
  nanosleep(&pause, NULL);
}

static inline int ginrsBootstrapInit(ginrsBootstrap* boot) {
  /* mpirun before srun: it may run inside an allocation of Slurm's, whose variables are there too. */
  static const char* const names[][3] = {
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
  };
  size_t i;
  boot->rank = boot->localRank = boot->round = 0;
  boot->nRanks = 1;
  for (i = 0; i < sizeof names / sizeof names[0]; i++) {
    char detail[160];
    if (getenv(names[i][0]) == NULL || getenv(names[i][1]) == NULL) continue;
    boot->rank = ginrsBootstrapNumber(names[i][0]);
    boot->nRanks = ginrsBootstrapNumber(names[i][1]);
    boot->localRank = ginrsBootstrapNumber(names[i][2]);
    if (boot->localRank < 0) boot->localRank = boot->rank;
    if (boot->rank >= 0 && boot->rank < boot->nRanks) return 0;
    snprintf(detail, sizeof detail, "%s=%s %s=%s", names[i][0], getenv(names[i][0]), names[i][1], getenv(names[i][1]));
    return ginrsBootstrapFail(boot, "the environment names no valid rank", detail);
  }
  return 0;
}

/* ---- by file ---- */

static inline int ginrsBootstrapWriteFile(const ginrsBootstrap* boot, const char* path, const void* data, size_t bytes) {
  char temporary[1100];
  int fd;
  snprintf(temporary, sizeof temporary, "%s.new", path);
  unlink(temporary);
  fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes || close(fd) != 0) {
    return ginrsBootstrapFail(boot, temporary, strerror(errno));
  }
  /* The name appears when all bytes are there. */
  return rename(temporary, path) == 0 ? 0 : ginrsBootstrapFail(boot, path, strerror(errno));
}

static inline int ginrsBootstrapReadFile(const ginrsBootstrap* boot, const char* path, void* data, size_t bytes) {
  double deadline = ginrsBootstrapDeadline();
  for (;;) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
      struct stat status;
      int ours = fstat(fd, &status) == 0 && status.st_uid == geteuid();
      ssize_t got = ours && (size_t)status.st_size == bytes ? read(fd, data, bytes) : -1;
      close(fd);
      if (!ours) return ginrsBootstrapFail(boot, path, "belongs to another user");
      if (got == (ssize_t)bytes) return 0;
      return ginrsBootstrapFail(boot, path, "has another size: do all ranks broadcast the same things in the same order?");
    }
    if (errno != ENOENT) return ginrsBootstrapFail(boot, path, strerror(errno));
    if (ginrsBootstrapNow() > deadline) {
      return ginrsBootstrapFail(boot, path, "rank 0 did not write it in time (GINRS_BOOTSTRAP_TIMEOUT)");
    }
    ginrsBootstrapPause();
  }
}

/* Nobody removes a shared TMPDIR for us: readers say that they are done, then rank 0 removes the file. */
static inline int ginrsBootstrapSharedFile(const ginrsBootstrap* boot, const char* path, void* data, size_t bytes) {
  char done[1100];
  double deadline = ginrsBootstrapDeadline();
  int r, status = 0;
  if (boot->rank != 0) {
    if (ginrsBootstrapReadFile(boot, path, data, bytes) != 0) return -1;
    snprintf(done, sizeof done, "%s.%d", path, boot->rank);
    return ginrsBootstrapWriteFile(boot, done, "", 0);
  }
  if (ginrsBootstrapWriteFile(boot, path, data, bytes) != 0) return -1;
  for (r = 1; r < boot->nRanks && status == 0; r++) {
    snprintf(done, sizeof done, "%s.%d", path, r);
    while (unlink(done) != 0 && status == 0) {
      if (ginrsBootstrapNow() > deadline) {
        status = ginrsBootstrapFail(boot, done, "this rank did not read in time; are all ranks on one machine?");
      }
      ginrsBootstrapPause();
    }
  }
  unlink(path);
  return status;
}

/* ---- by TCP ---- */

typedef struct ginrsBootstrapGreeting {
  char magic[8];
  uint32_t rank, nRanks, round, bytes; /* network order */
} ginrsBootstrapGreeting;

/* Sends (events POLLOUT) or receives (POLLIN) all bytes before the deadline. */
static inline int ginrsBootstrapMove(int fd, short events, void* data, size_t bytes, double deadline) {
  char* at = (char*)data;
  while (bytes > 0) {
    struct pollfd ready = {fd, events, 0};
    double left = deadline - ginrsBootstrapNow();
    ssize_t moved;
    if (left <= 0 || poll(&ready, 1, (int)(left * 1000) + 1) <= 0) return -1;
    moved = events == POLLIN ? recv(fd, at, bytes, MSG_DONTWAIT) : send(fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR)) return -1;
    if (moved > 0) at += moved, bytes -= (size_t)moved;
  }
  return 0;
}

/* A socket that listens at MASTER_ADDR:MASTER_PORT+1 (rank 0) or is connected to it; -1 with errno. */
static inline int ginrsBootstrapSocket(int listening, const char* host, int port) {
  struct addrinfo hints, *found, *a;
  char service[16];
  int fd = -1, on = 1;
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  snprintf(service, sizeof service, "%d", port);
  if (getaddrinfo(host, service, &hints, &found) != 0) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  for (a = found; a != NULL; a = a->ai_next) {
    fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    if (listening) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listening ? bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0
                  : connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
      break;
    }
    on = errno;
    close(fd);
    errno = on;
    fd = -1;
  }
  freeaddrinfo(found);
  return fd;
}

static inline int ginrsBootstrapServe(const ginrsBootstrap* boot, int listener, const ginrsBootstrapGreeting* want, void* data,
                                      size_t bytes, double deadline) {
  int served = 0;
  char* seen = (char*)calloc((size_t)boot->nRanks, 1);
  char detail[64];
  while (seen != NULL && served < boot->nRanks - 1) {
    ginrsBootstrapGreeting got;
    struct pollfd ready = {listener, POLLIN, 0};
    double left = deadline - ginrsBootstrapNow();
    uint32_t rank;
    int fd;
    if (left <= 0) break;
    if (poll(&ready, 1, (int)(left * 1000) + 1) <= 0 || (fd = accept(listener, NULL, NULL)) < 0) continue;
    /* Strangers may connect: each has 2 s to greet, and only the greeting of a missing rank counts. */
    if (ginrsBootstrapMove(fd, POLLIN, &got, sizeof got, ginrsBootstrapNow() + 2) == 0) {
      rank = ntohl(got.rank);
      got.rank = want->rank;
      if (memcmp(&got, want, sizeof got) == 0 && rank > 0 && rank < (uint32_t)boot->nRanks && !seen[rank] &&
          ginrsBootstrapMove(fd, POLLOUT, data, bytes, deadline) == 0) {
        seen[rank] = 1;
        served++;
      }
    }
    close(fd);
  }
  free(seen);
  if (served == boot->nRanks - 1) return 0;
  snprintf(detail, sizeof detail, "%d of %d came", served, boot->nRanks - 1);
  return ginrsBootstrapFail(boot, "not all ranks asked for the unique id in time (GINRS_BOOTSTRAP_TIMEOUT)", detail);
}

static inline int ginrsBootstrapTcp(const ginrsBootstrap* boot, const char* host, int port, void* data, size_t bytes) {
  double deadline = ginrsBootstrapDeadline();
  ginrsBootstrapGreeting greeting;
  char where[300];
  int fd, status;
  memcpy(greeting.magic, "ginrsid1", 8);
  greeting.rank = htonl((uint32_t)boot->rank);
  greeting.nRanks = htonl((uint32_t)boot->nRanks);
  greeting.round = htonl((uint32_t)boot->round);
  greeting.bytes = htonl((uint32_t)bytes);
  snprintf(where, sizeof where, "%s port %d (MASTER_PORT + 1)", host, port);
  if (boot->rank == 0) {
    fd = ginrsBootstrapSocket(1, host, port);
    if (fd < 0) return ginrsBootstrapFail(boot, where, strerror(errno));
    status = ginrsBootstrapServe(boot, fd, &greeting, data, bytes, deadline);
    close(fd);
    return status;
  }
  for (;;) {
    fd = ginrsBootstrapSocket(0, host, port);
    if (fd >= 0) {
      status = ginrsBootstrapMove(fd, POLLOUT, &greeting, sizeof greeting, deadline);
      if (status == 0) status = ginrsBootstrapMove(fd, POLLIN, data, bytes, deadline);
      close(fd);
      if (status == 0) return 0;
    }
    if (ginrsBootstrapNow() > deadline) {
      return ginrsBootstrapFail(boot, where, "rank 0 did not answer in time (GINRS_BOOTSTRAP_TIMEOUT)");
    }
    ginrsBootstrapPause();
  }
}

/* ---- which of them ---- */

/* Rank 0's bytes to all; every rank calls it, with the same size. */
static inline int ginrsBootstrapBroadcast(ginrsBootstrap* boot, void* data, size_t bytes) {
  static const char* const jobs[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID"};
  const char *folder = getenv("GINRS_RUN_ID"), *host = getenv("MASTER_ADDR"), *job = NULL;
  const char* step = getenv("SLURM_STEP_ID");
  int port = ginrsBootstrapNumber("MASTER_PORT");
  char path[1024], *c;
  size_t i;
  boot->round++;
  if (boot->nRanks == 1) return 0;
  if (folder != NULL && folder[0] != 0) {
    if ((size_t)snprintf(path, sizeof path, "%s/broadcast-%d", folder, boot->round) >= sizeof path) {
      return ginrsBootstrapFail(boot, "GINRS_RUN_ID is too long", folder);
    }
    return boot->rank == 0 ? ginrsBootstrapWriteFile(boot, path, data, bytes) : ginrsBootstrapReadFile(boot, path, data, bytes);
  }
  if (host != NULL && host[0] != 0 && port > 0) {
    if (port >= 65535) return ginrsBootstrapFail(boot, "MASTER_PORT + 1 is no port", getenv("MASTER_PORT"));
    return ginrsBootstrapTcp(boot, host, port + 1, data, bytes);
  }
  for (i = 0; i < sizeof jobs / sizeof jobs[0] && (job == NULL || job[0] == 0); i++) job = getenv(jobs[i]);
  if (job == NULL || job[0] == 0) {
    return ginrsBootstrapFail(boot, "no way to share the unique id: start with ginrs-run, or set MASTER_ADDR and MASTER_PORT", "");
  }
  folder = getenv("TMPDIR");
  if (folder == NULL || folder[0] == 0) folder = "/tmp";
  if ((size_t)snprintf(path, sizeof path, "%s/ginrs-%ld-%s-%s-%d", folder, (long)geteuid(), job, step ? step : "0", boot->round) >=
      sizeof path) {
    return ginrsBootstrapFail(boot, "TMPDIR is too long", folder);
  }
  for (c = path + strlen(folder) + 1; *c != 0; c++) {
    if (*c == '/') *c = '_';
  }
  return ginrsBootstrapSharedFile(boot, path, data, bytes);
}
#endif
