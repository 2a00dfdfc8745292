// The end of a program whose ranks are threads: an error usually meets all of them at once, and two threads in exit() at the same
// time crash in C libraries before glibc 2.41. The first one exits, the others wait for the end of the process.
#pragma once
#include <pthread.h>
#include <stdlib.h>

static inline void exitOnce(int status) {
  // Recursive: a destructor of the program that runs within exit() may find an error, too.
  static pthread_mutex_t exiting = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  pthread_mutex_lock(&exiting);
  exit(status);
}
