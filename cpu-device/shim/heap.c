/* malloc, new, mmap and their kin in code that was compiled with ginrs-cc --check=race (ginrs_cpu/race.h gives the names): the same functions, and it
 * is noted what host threads have made, for no GPU has that memory (cpu-device/src/race/heap.rs). What CUDA threads make lies beside it, and is theirs. */
#include "ginrs_cpu/race.h"
#include "ginrs_cpu/runtime.h"
#include <stdlib.h>
#include <sys/mman.h>

enum { MALLOC = 0, NEW = 1, MMAP = 2 };

/* Nobody else's at that time: what is known of these bytes is old. isHosts 0: nothing is noted. */
void ginrs_race_made(uintptr_t at, size_t bytes, int by, int isHosts, uintptr_t place);
void ginrs_race_gone(uintptr_t at, size_t bytes); /* bytes 0: what begins there */

static inline void* made(void* memory, size_t bytes, int by, void* place) {
  if (memory != NULL) ginrs_race_made((uintptr_t)memory, bytes, by, ginrs_cpu_self == NULL, (uintptr_t)place);
  return memory;
}
/* Before it is given back, for then it may be somebody else's at once. */
static inline void* gone(void* memory) {
  if (memory != NULL) ginrs_race_gone((uintptr_t)memory, 0);
  return memory;
}

void* ginrs_cpu_race_malloc(size_t bytes) { return made(malloc(bytes), bytes, MALLOC, __builtin_return_address(0)); }
void* ginrs_cpu_race_calloc(size_t count, size_t bytes) {
  return made(calloc(count, bytes), count * bytes, MALLOC, __builtin_return_address(0));
}
void* ginrs_cpu_race_realloc(void* old, size_t bytes) {
  return made(realloc(gone(old), bytes), bytes, MALLOC, __builtin_return_address(0));
}
void* ginrs_cpu_race_aligned_alloc(size_t alignment, size_t bytes) {
  return made(aligned_alloc(alignment, bytes), bytes, MALLOC, __builtin_return_address(0));
}
int ginrs_cpu_race_posix_memalign(void** memory, size_t alignment, size_t bytes) {
  int error = posix_memalign(memory, alignment, bytes);
  if (error == 0) made(*memory, bytes, MALLOC, __builtin_return_address(0));
  return error;
}
void ginrs_cpu_race_free(void* memory) { free(gone(memory)); }

void* ginrs_cpu_race_mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  void* memory = mmap(at, bytes, protection, flags, fd, offset);
  return memory == MAP_FAILED ? memory : made(memory, bytes, MMAP, __builtin_return_address(0));
}
int ginrs_cpu_race_munmap(void* at, size_t bytes) {
  ginrs_race_gone((uintptr_t)at, bytes);
  return munmap(at, bytes);
}

/* The program's own operators, or those of libstdc++: weak, as this library is also in processes that have neither. */
#define NEW_OF(name, parameters, arguments)                                           \
  __attribute__((weak)) void* name parameters;                                        \
  void* ginrs_cpu_race##name parameters {                                             \
    if (name == NULL) abort();                                                        \
    return made(name arguments, bytes, NEW, __builtin_return_address(0));             \
  }
#define DELETE_OF(name, parameters, arguments) \
  __attribute__((weak)) void name parameters;  \
  void ginrs_cpu_race##name parameters {       \
    gone(memory);                              \
    if (name == NULL) abort();                 \
    name arguments;                            \
  }
#define BOTH(array_new, array_delete)                                                                                                  \
  NEW_OF(array_new##m, (size_t bytes), (bytes))                                                                                        \
  NEW_OF(array_new##mRKSt9nothrow_t, (size_t bytes, const void* nothrow), (bytes, nothrow))                                            \
  NEW_OF(array_new##mSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment))                                            \
  NEW_OF(array_new##mSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t alignment, const void* nothrow), (bytes, alignment, nothrow)) \
  DELETE_OF(array_delete, (void* memory), (memory))                                                                                    \
  DELETE_OF(array_delete##m, (void* memory, size_t bytes), (memory, bytes))                                                            \
  DELETE_OF(array_delete##RKSt9nothrow_t, (void* memory, const void* nothrow), (memory, nothrow))                                      \
  DELETE_OF(array_delete##St11align_val_t, (void* memory, size_t alignment), (memory, alignment))                                      \
  DELETE_OF(array_delete##mSt11align_val_t, (void* memory, size_t bytes, size_t alignment), (memory, bytes, alignment))                \
  DELETE_OF(array_delete##St11align_val_tRKSt9nothrow_t, (void* memory, size_t alignment, const void* nothrow), (memory, alignment, nothrow))
BOTH(_Znw, _ZdlPv)
BOTH(_Zna, _ZdaPv)
