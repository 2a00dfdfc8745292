// A wall clock that is set ten days forwards and back five times a second, for a program that preloads it. The monotonic clock goes on as ever.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long leap(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return ((now.tv_sec * 5 + now.tv_nsec / 200000000) % 3 - 1) * 864000;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  int const result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)) now->tv_sec += leap();
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec fine;
  clock_gettime(CLOCK_REALTIME, &fine);
  *now = (struct timeval){fine.tv_sec, fine.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* now) {
  struct timespec fine;
  clock_gettime(CLOCK_REALTIME, &fine);
  if (now) *now = fine.tv_sec;
  return fine.tv_sec;
}
