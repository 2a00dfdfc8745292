/* The race detector's side of compiled kernels (ginrs-cc --check=race; cpu-device/src/race/). The compiler's hooks for ThreadSanitizer
 * are called, and no libtsan: each name stands for a function of the CPU device. (libtsan knows 8192 threads, does not know whose
 * fibers meet at a barrier or when the proxy reads, and would watch the library's own threads, too.) */
#ifndef GINRS_CPU_RACE_H_
#define GINRS_CPU_RACE_H_
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A put, putValue or signal as the user called it. */
typedef struct ginrsCpuRacePut {
  const char* file;
  int32_t line;
  int32_t rank, peer; /* world ranks */
  uint32_t context;
  const void* comm;   /* ncclDevComm::windowTable, by which a communicator is known here */
  const void* source; /* NULL: a value */
  const void* target; /* NULL: none, or not within the LSA team */
  uint64_t window, offset; /* the target's in its rank's window of this handle, 0: none */
  uint64_t bytes;
  int64_t signal, counter; /* absolute ids; -1: none. From bit 32 of the signal's on how it is raised (2 bits), then its number for the user */
  uint64_t add;            /* to the signal */
} ginrsCpuRacePut;
void ginrs_cpu_race_put(const ginrsCpuRacePut* put); /* before it is posted, by the thread that posts it */

enum { GINRS_CPU_RACE_INC = 1, GINRS_CPU_RACE_ADD = 2 }; /* 0 is what programs with older headers tell */
enum { GINRS_CPU_RACE_SIGNAL = 0, GINRS_CPU_RACE_COUNTER = 1 };
/* The thread has seen such a word of its rank at a value that it waited for, or has read it; of so many bits, 0: all 64. (0 of 64 bits of a
 * counter is what programs with older headers tell, who give no value.) */
void ginrs_cpu_race_seen(int kind, const void* comm, int32_t rank, uint32_t context, uint32_t id, uint64_t value, int bits);
/* The next of these two calls that the thread makes is of relaxed order: a put without a payload releases nothing, what was seen is not acquired. */
void ginrs_cpu_race_relaxed(void);
/* A word is zero again, by a call of the user's, who knows it by `number`. */
typedef struct ginrsCpuRaceReset {
  const char* file;
  int32_t line, kind, rank;
  uint32_t context, id, number;
  const void* comm;
} ginrsCpuRaceReset;
void ginrs_cpu_race_reset(const ginrsCpuRaceReset* reset);
/* The memory by which a context is known. */
void ginrs_cpu_race_context(const void* comm, int32_t rank, uint32_t context, const void* handle);
/* What `rank` has posted on a context has been read. */
void ginrs_cpu_race_flushed(const void* comm, int32_t rank, uint32_t context);

/* A window as its rank sees it. */
typedef struct ginrsCpuRaceWindow {
  uintptr_t base; /* the program's address of its memory */
  uint64_t bytes;
  uintptr_t first; /* the flat address of the first LSA rank's */
  uint64_t stride; /* to the next one's */
  int32_t rank, lsaRank, lsaSize;
} ginrsCpuRaceWindow;
void ginrs_cpu_race_window(const ginrsCpuRaceWindow* window); /* by a kernel that may name it */

/* The next atomic access or fence of the thread is of block scope. */
void ginrs_cpu_race_narrow(void);
/* The thread begins to copy a kernel's arguments for itself, or to destroy its copies, as no GPU does: it may read what the host has. 0: it is done. */
void ginrs_cpu_race_copying(int is);
/* Plain accesses, as the compiler announces those of a structure. */
void ginrs_cpu_race_read_range(void* at, size_t bytes);
void ginrs_cpu_race_write_range(void* at, size_t bytes);
/* The same with a cache hint, as code polls, too: held against other plain accesses, and not against atomics. */
void ginrs_cpu_race_hinted(void* at, size_t bytes, int writes);
/* By libginrs, which finds it with dlsym: ranks of a communicator are on other machines; `rank` has destroyed a (device) communicator,
 * and what it had posted has been done, or may be done yet where that has failed; ranks of a communicator are in other processes, which
 * have not all offered to be one job. By an object when it is loaded (launch.h): it was not compiled for the detector. */
enum { GINRS_CPU_RACE_FAR = 1, GINRS_CPU_RACE_SETTLED = 2, GINRS_CPU_RACE_UNWATCHED = 3, GINRS_CPU_RACE_FAILED = 4, GINRS_CPU_RACE_APART = 5 };
void ginrs_cpu_race_told(int what, int32_t rank);
/* By libginrs, too: a file is mapped there, whole; what is mapped there next is another memory. */
void ginrs_cpu_race_mapped(uintptr_t at, size_t bytes, int fd);
void ginrs_cpu_race_unmapped(uintptr_t at, size_t bytes);
/* And: a communicator's table of windows in this process, and its name in all; a window of a rank of this process: its handle there, its
 * number on all ranks, and where it begins, in its flat space. */
void ginrs_cpu_race_comm(const void* table, uint64_t name);
void ginrs_cpu_race_landing(uint64_t name, int32_t rank, uint64_t window, uint64_t number, uintptr_t at);
/* And: a window of a rank of this process, with this device, the number-th that it has registered with the communicator of this name. */
void ginrs_cpu_race_registered(int device, const ginrsCpuRaceWindow* window, uint64_t number, uint64_t name);
/* And: the numbers that the ranks of the communicator of this name have in the job, where they are others. */
void ginrs_cpu_race_family(uint64_t name, const uint32_t* ranks, size_t count);
/* Processes of one machine are watched as one job. What this one offers for that, a descriptor of memory of so many bytes; whether it is
 * a job's already. -1: nothing is watched. Then what all of a communicator's have chosen, the same memory for all. */
int ginrs_cpu_race_offer(int* joined, uint64_t* bytes);
void ginrs_cpu_race_join(int fd);
/* And: what the next launch of this thread reads and writes, a collective's, for the call `name` of the program's, and which launch of its communicator
 * that is; 0 spans: none any more. */
typedef struct ginrsCpuRaceSpan {
  uintptr_t at;
  uint64_t bytes;
  int32_t writes;
} ginrsCpuRaceSpan;
void ginrs_cpu_race_touches(const char* name, const ginrsCpuRaceSpan* spans, size_t count, uint64_t number);
/* And: where host code has called it, on this thread, 0 where that is not known; the line of such a place, not terminated: its length, 0 where it is
 * not known or too long. */
uint64_t ginrs_cpu_race_site(void);
size_t ginrs_cpu_race_line(uint64_t site, char* line, size_t room);

#ifdef __cplusplus
}
#endif

#ifdef __GINRS_RACE__
#define GINRS_CPU_COPYING(is) ginrs_cpu_race_copying(is)
#define GINRS_CPU_NARROW(is) ((is) ? ginrs_cpu_race_narrow() : (void)0)
/* Of an access that is made as a volatile one, so that it happens once and whole, and is no more than a plain one to its program: it orders, as code
 * polls through such, and is looked at. */
#define GINRS_CPU_PLAIN_READ(at, bytes) ginrs_cpu_race_read_range(const_cast<char*>(reinterpret_cast<const char*>(at)), bytes)
#define GINRS_CPU_PLAIN_WRITE(at, bytes) ginrs_cpu_race_write_range(reinterpret_cast<char*>(at), bytes)
#define GINRS_CPU_HINTED(at, bytes, writes) ginrs_cpu_race_hinted(const_cast<char*>(reinterpret_cast<const char*>(at)), bytes, writes)
#define GINRS_CPU_RACE_NAME(name) __asm__(".set __tsan_" #name ", ginrs_cpu_race_" #name);
#define GINRS_CPU_RACE_SIZES(name) \
  GINRS_CPU_RACE_NAME(name##1) GINRS_CPU_RACE_NAME(name##2) GINRS_CPU_RACE_NAME(name##4) GINRS_CPU_RACE_NAME(name##8) GINRS_CPU_RACE_NAME(name##16)
GINRS_CPU_RACE_NAME(init)
GINRS_CPU_RACE_NAME(func_entry)
GINRS_CPU_RACE_NAME(func_exit)
GINRS_CPU_RACE_SIZES(read)
GINRS_CPU_RACE_SIZES(write)
GINRS_CPU_RACE_SIZES(unaligned_read)
GINRS_CPU_RACE_SIZES(unaligned_write)
GINRS_CPU_RACE_SIZES(volatile_read)
GINRS_CPU_RACE_SIZES(volatile_write)
GINRS_CPU_RACE_SIZES(unaligned_volatile_read)
GINRS_CPU_RACE_SIZES(unaligned_volatile_write)
GINRS_CPU_RACE_NAME(read_range)
GINRS_CPU_RACE_NAME(write_range)
GINRS_CPU_RACE_NAME(vptr_update)
GINRS_CPU_RACE_NAME(vptr_read)
#define GINRS_CPU_RACE_ATOMICS(bits)                                                                         \
  GINRS_CPU_RACE_NAME(atomic##bits##_load) GINRS_CPU_RACE_NAME(atomic##bits##_store)                         \
  GINRS_CPU_RACE_NAME(atomic##bits##_exchange) GINRS_CPU_RACE_NAME(atomic##bits##_fetch_add)                 \
  GINRS_CPU_RACE_NAME(atomic##bits##_fetch_sub) GINRS_CPU_RACE_NAME(atomic##bits##_fetch_and)                \
  GINRS_CPU_RACE_NAME(atomic##bits##_fetch_or) GINRS_CPU_RACE_NAME(atomic##bits##_fetch_xor)                 \
  GINRS_CPU_RACE_NAME(atomic##bits##_fetch_nand) GINRS_CPU_RACE_NAME(atomic##bits##_compare_exchange_strong) \
  GINRS_CPU_RACE_NAME(atomic##bits##_compare_exchange_weak)
GINRS_CPU_RACE_ATOMICS(8)
GINRS_CPU_RACE_ATOMICS(16)
GINRS_CPU_RACE_ATOMICS(32)
GINRS_CPU_RACE_ATOMICS(64)
GINRS_CPU_RACE_NAME(atomic_thread_fence)
GINRS_CPU_RACE_NAME(atomic_signal_fence)
#undef GINRS_CPU_RACE_ATOMICS
/* Of the object's code (so are malloc, new and their kin, where it does not define them itself), also where the compiler makes one of a loop. */
__asm__(".set memcpy, ginrs_cpu_race_memcpy");
__asm__(".set memmove, ginrs_cpu_race_memmove");
__asm__(".set memset, ginrs_cpu_race_memset");
#undef GINRS_CPU_RACE_SIZES
#undef GINRS_CPU_RACE_NAME
#else
#define GINRS_CPU_COPYING(is) ((void)0)
#define GINRS_CPU_NARROW(is) ((void)0)
#define GINRS_CPU_PLAIN_READ(at, bytes) ((void)0)
#define GINRS_CPU_PLAIN_WRITE(at, bytes) ((void)0)
#define GINRS_CPU_HINTED(at, bytes, writes) ((void)0)
#endif
#endif
