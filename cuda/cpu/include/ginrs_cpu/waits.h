/* Calls of the device API, and waits that last, as the device headers tell the CPU device of them: who waits, for what, since when,
 * at which line of the user's. A call of the device API is noted on the stack of the CUDA thread that makes it, at the cost of a few
 * stores; a wait is told only once it has gone on for many turns. */
#ifndef GINRS_CPU_WAITS_H_
#define GINRS_CPU_WAITS_H_
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum {
  GINRS_CPU_CALL_SIGNAL = 1,      /* id: the signal; context */
  GINRS_CPU_CALL_COUNTER = 2,     /* id: the counter; context */
  GINRS_CPU_CALL_FLUSH = 3,       /* context */
  GINRS_CPU_CALL_PUT = 4,         /* put, putValue and signal; id: the world rank of the peer; context */
  GINRS_CPU_CALL_GIN_BARRIER = 5, /* id: its index; context */
  GINRS_CPU_CALL_LSA_BARRIER = 6, /* id: its index */
  GINRS_CPU_CALL_BARRIER = 7,     /* the hybrid one, which calls an LSA barrier and a GIN barrier */
  GINRS_CPU_CALL_LLA2A = 8,       /* id: the first slot */
  GINRS_CPU_CALL_WINDOW = 9,      /* a pointer into a window; waits for nothing */
  GINRS_CPU_CALL_FOREIGN = 256    /* and one of these: it is the beginning of a ginrsCpuForeign */
};

/* A call of the device API by a CUDA thread. Headers call each other: the outermost is the user's. */
typedef struct ginrsCpuCall {
  const struct ginrsCpuCall* outer;
  const char* file;
  int32_t line;
  uint32_t kind, context, id;
} ginrsCpuCall;

/* A wait of the running CUDA thread, which lasts until ginrs_cpu_wait_end(). */
typedef struct ginrsCpuWait {
  const void* owner; /* the communicator's abort word, in host memory */
  const void* word;  /* what has to reach `wants`; null where it is no single word */
  uint64_t wants;
  uint32_t bits; /* the low bits of the word that count, rolling; up to 32 of a word of 32 bits */
  uint32_t note; /* GINRS_WAITS_ and for whom (ginrs_device/marker.h) */
} ginrsCpuWait;
/* A call of another NCCL's device headers, which does not tell of its wait: it is asked when its thread has used up a turn within it. */
typedef struct ginrsCpuForeign {
  ginrsCpuCall call;
  int (*waits)(const struct ginrsCpuForeign* self, ginrsCpuWait* wait); /* not 0: it waits, for this */
  uint32_t turns;  /* so many turns were used up; the CPU device's, as is the next */
  uint32_t isTold; /* its wait has begun */
} ginrsCpuForeign;
void ginrs_cpu_wait_begin(const ginrsCpuWait* wait); /* copies */
void ginrs_cpu_wait_end(void);

/* The running thread reads a signal or counter of its rank, in the call that it makes just now, and finds this value: who does so over and over waits,
 * nobody knows for what. `owner` as in ginrsCpuWait. */
void ginrs_cpu_polled(const void* owner, uint64_t value);

/* What the call of the running thread named and what there is not, in words: printed with the line of the call. Once for each kernel. */
void ginrs_cpu_refused(const char* what);
/* `what`, called at that line, gave a pointer for a rank that an LSA team of so many does not have: its part of the window would be the
 * `bytes` from `at` on. Told when a kernel touches it. */
void ginrs_cpu_no_rank(const char* what, int32_t rank, int32_t ranks, const void* at, size_t bytes, const char* file, int32_t line);

/* The group of the running thread begins and ends a session of a barrier, or of a block of an LL all-to-all, that is known by the word in which
 * it keeps its epoch between sessions. Told of one that is in a session already. */
void ginrs_cpu_session_begin(const void* word);
void ginrs_cpu_session_end(const void* word);

/* A wait of the running thread has ended because its communicator was aborted: from here on the threads of a kernel may go different ways. */
void ginrs_cpu_aborted(void);

/* The timeline (GINRS_TIMELINE): not 0 while one is written; atomic. What follows is called then only. */
extern uint32_t ginrs_cpu_timeline;
uint64_t ginrs_cpu_timeline_now(void);
/* The running CUDA thread has written a descriptor to a slot, under the queue's index; since when. */
void ginrs_cpu_timeline_post(uint64_t began, const void* slot, uint32_t index);
/* It has stored to a peer itself. `signal` is the number of the word in its context plus one, 0 for none. */
void ginrs_cpu_timeline_direct(uint64_t began, uint64_t bytes, uint64_t signal, uint64_t add);
/* It waits from here to there, however shortly. */
void ginrs_cpu_timeline_wait(const ginrsCpuWait* wait);
void ginrs_cpu_timeline_wait_end(void);

#ifdef __cplusplus
}
#endif
#endif
