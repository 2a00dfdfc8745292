/* What the compiler calls at each access of a kernel that was compiled with ginrs-cc --check=race (ginrs_cpu/race.h gives the names).
 * Here it is decided what is looked at; the rest is Rust, cpu-device/src/race/. Of host threads only whether they touch memory of a device, or of a copy that is queued. */
#include "ginrs_cpu/race.h"
#include "ginrs_cpu/runtime.h"
#include "ginrs_cpu/waits.h"
#include <string.h>

enum { WRITE = 1, HINTED = 2 };
enum { ACQUIRE = 1, RELEASE = 2, FENCED = 4, RELAXED = 8, ACQUIRES = 16, SWAP = 32 };

void ginrs_race_on(void);
void ginrs_race_access(uintptr_t at, size_t bytes, int how, uintptr_t place);
/* Between the two nobody else touches what is known of the word. */
void ginrs_race_lock(uintptr_t at, size_t bytes);
void ginrs_race_unlock(int what, uint64_t found, uint64_t left, uintptr_t place); /* the word that this thread has locked, its values, and who it was */
void ginrs_race_volatile(uintptr_t at, size_t bytes, int how, uintptr_t place); /* place 0: it only orders */
void ginrs_race_narrow(void);
void ginrs_race_fence(int releases, int isAny);
void ginrs_race_misaligned(uintptr_t at, size_t bytes, int how, uintptr_t place);
int ginrs_race_host(uintptr_t at, size_t bytes, int how, uintptr_t place);
/* Memory of devices, and pinned memory of copies, lies between the two (memory.rs); another number of changes: elsewhere. */
extern uintptr_t ginrs_memory_low, ginrs_memory_high;
extern uint64_t ginrs_memory_changes;

void ginrs_cpu_race_init(void) { ginrs_race_on(); }
void ginrs_cpu_race_func_entry(void* place) { (void)place; }
void ginrs_cpu_race_func_exit(void) {}
void ginrs_cpu_race_vptr_update(void** at, void* value) { (void)at, (void)value; }
void ginrs_cpu_race_vptr_read(void** at) { (void)at; }

/* By a host thread. Pages without such memory are remembered. */
static void host(uintptr_t at, size_t bytes, int how, void* place) {
  static __thread struct { uintptr_t page; uint64_t changes; } clean[64];
  if (at < __atomic_load_n(&ginrs_memory_low, __ATOMIC_RELAXED) || at >= __atomic_load_n(&ginrs_memory_high, __ATOMIC_RELAXED)) return;
  uint64_t changes = __atomic_load_n(&ginrs_memory_changes, __ATOMIC_RELAXED);
  uintptr_t page = at >> 12, slot = page % 64;
  if (clean[slot].page == page && clean[slot].changes == changes) return;
  if (!ginrs_race_host(at, bytes, how & WRITE, (uintptr_t)place)) clean[slot].page = page, clean[slot].changes = changes;
}

/* Plain accesses inside of a call of the device API are the library's: what they mean is told in words of the API. */
static inline void plain(const volatile void* at, size_t bytes, int how, void* place) {
  const ginrsCpuThread* self = ginrs_cpu_self;
  if (self == NULL) return host((uintptr_t)at, bytes, how, place);
  if (self->call == NULL) ginrs_race_access((uintptr_t)at, bytes, how, (uintptr_t)place);
}
/* What the compiler takes for aligned; 16 bytes may be of a type that asks for 8. A GPU ends the kernel, the CPU does not mind. */
static inline void aligned(const volatile void* at, size_t bytes, int how, void* place) {
  const ginrsCpuThread* self = ginrs_cpu_self;
  if (((uintptr_t)at & ((bytes < 8 ? bytes : 8) - 1)) == 0 || self == NULL || self->call != NULL) return;
  ginrs_race_misaligned((uintptr_t)at, bytes, how & WRITE, (uintptr_t)place);
}
/* So are atomics inside of GIN's calls: the words of a queue are no order among those who post. */
static inline int watched(void) {
  const ginrsCpuThread* self = ginrs_cpu_self;
  if (self == NULL || self->call == NULL) return self != NULL;
  return self->call->kind < GINRS_CPU_CALL_SIGNAL || self->call->kind > GINRS_CPU_CALL_GIN_BARRIER;
}
/* An address that is none ends the kernel here, where nothing is locked or announced. */
static inline void touch(const volatile void* at) { (void)*(const volatile char*)at; }
/* A volatile access is a relaxed one; whole if the machine makes it so. */
static inline void ordered(const volatile void* at, size_t bytes, int how, void* place) {
  touch(at);
  if (watched()) ginrs_race_volatile((uintptr_t)at, bytes, how, ginrs_cpu_self->call == NULL ? (uintptr_t)place : 0);
}
static inline void typed(const volatile void* at, size_t bytes, int how, void* place) {
  aligned(at, bytes, how, place);
  plain(at, bytes, how, place);
}
static inline void whole(const volatile void* at, size_t bytes, int how, void* place) {
  aligned(at, bytes, how, place);
  ordered(at, bytes, how, place);
}
#define ACCESSES(n)                                                                                                 \
  void ginrs_cpu_race_read##n(void* at) { typed(at, n, 0, __builtin_return_address(0)); }                           \
  void ginrs_cpu_race_write##n(void* at) { typed(at, n, WRITE, __builtin_return_address(0)); }                      \
  void ginrs_cpu_race_unaligned_read##n(void* at) { plain(at, n, 0, __builtin_return_address(0)); }                 \
  void ginrs_cpu_race_unaligned_write##n(void* at) { plain(at, n, WRITE, __builtin_return_address(0)); }            \
  void ginrs_cpu_race_volatile_read##n(void* at) { whole(at, n, 0, __builtin_return_address(0)); }                  \
  void ginrs_cpu_race_volatile_write##n(void* at) { whole(at, n, WRITE, __builtin_return_address(0)); }             \
  void ginrs_cpu_race_unaligned_volatile_read##n(void* at) { ordered(at, n, 0, __builtin_return_address(0)); }      \
  void ginrs_cpu_race_unaligned_volatile_write##n(void* at) { ordered(at, n, WRITE, __builtin_return_address(0)); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void ginrs_cpu_race_read_range(void* at, size_t bytes) { plain(at, bytes, 0, __builtin_return_address(0)); }
void ginrs_cpu_race_hinted(void* at, size_t bytes, int writes) { plain(at, bytes, writes ? WRITE | HINTED : HINTED, __builtin_return_address(0)); }
void ginrs_cpu_race_write_range(void* at, size_t bytes) { plain(at, bytes, WRITE, __builtin_return_address(0)); }
/* What the compiler does not announce, as libtsan has its own of these. */
static inline void both(void* to, const void* from, size_t bytes, void* place) {
  if (bytes == 0) return;
  plain(from, bytes, 0, place);
  plain(to, bytes, WRITE, place);
}
void* ginrs_cpu_race_memcpy(void* to, const void* from, size_t bytes) {
  both(to, from, bytes, __builtin_return_address(0));
  return memcpy(to, from, bytes);
}
void* ginrs_cpu_race_memmove(void* to, const void* from, size_t bytes) {
  both(to, from, bytes, __builtin_return_address(0));
  return memmove(to, from, bytes);
}
void* ginrs_cpu_race_memset(void* to, int value, size_t bytes) {
  if (bytes != 0) plain(to, bytes, WRITE, __builtin_return_address(0));
  return memset(to, value, bytes);
}

/* Who asks for relaxed order, of a barrier or of an atomic, gets it. CUDA's atomic functions, which come as consume, and volatile loads are mostly
 * followed by a use that depends on them, and CUDA's own samples have no fence there: what those read counts as if they acquired. So does what other
 * calls of the API read. */
static inline int reads(int order) {
  if (order == __ATOMIC_CONSUME) return ACQUIRE;
  if (order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE) return ACQUIRE | ACQUIRES;
  const ginrsCpuCall* call = ginrs_cpu_self->call;
  return call == NULL || call->kind == GINRS_CPU_CALL_LSA_BARRIER ? ACQUIRE | RELAXED : ACQUIRE;
}
/* For a report: the user's place; of a barrier's word 0, of another call's 1 (relaxed.rs). */
static inline uintptr_t placeOf(void* place) {
  const ginrsCpuCall* call = ginrs_cpu_self->call;
  return call == NULL ? (uintptr_t)place : call->kind != GINRS_CPU_CALL_LSA_BARRIER;
}
static inline int writes(int order) {
  return order == __ATOMIC_RELAXED || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQUIRE ? FENCED : RELEASE;
}

/* The access itself is made here, sequentially consistent. */
#define WHOLE(type, result, name, parameters, access, what, found)                                                \
  result ginrs_cpu_race_##name parameters {                                                                       \
    int isWatched = (touch(at), watched());                                                                                    \
    if (isWatched) ginrs_race_lock((uintptr_t)at, sizeof *at);                                                    \
    access;                                                                                                       \
    if (isWatched) ginrs_race_unlock(what, (uint64_t)(found), (uint64_t)__atomic_load_n(at, __ATOMIC_SEQ_CST), \
                                     placeOf(__builtin_return_address(0)));                                                   \
    return old;                                                                                                   \
  }
#define CHANGES(type, bits, name, builtin)                                                       \
  WHOLE(type, type, atomic##bits##_##name, (volatile type * at, type value, int order),          \
        type old = builtin(at, value, __ATOMIC_SEQ_CST), reads(order) | writes(order), old)
#define EXCHANGES(type, bits, name, swap)                                                                                      \
  WHOLE(type, int, atomic##bits##_##name, (volatile type * at, type * expected, type value, int order, int failure),     \
        int old = __atomic_compare_exchange_n(at, expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); (void)failure, \
        old ? reads(order) | writes(order) | swap : ACQUIRE, *expected)
#define ATOMICS(type, bits)                                                                                              \
  type ginrs_cpu_race_atomic##bits##_load(const volatile type* at, int order) {                                          \
    int isWatched = (touch(at), watched());                                                                                           \
    if (isWatched) ginrs_race_lock((uintptr_t)at, sizeof *at);                                                           \
    type old = __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                    \
    if (isWatched) ginrs_race_unlock(reads(order), (uint64_t)old, (uint64_t)old, placeOf(__builtin_return_address(0))); \
    return old;                                                                                                          \
  }                                                                                                                      \
  void ginrs_cpu_race_atomic##bits##_store(volatile type* at, type value, int order) {                                   \
    int isWatched = (touch(at), watched());                                                                                           \
    if (isWatched) ginrs_race_lock((uintptr_t)at, sizeof *at);                                                           \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                                       \
    if (isWatched) ginrs_race_unlock(writes(order), 0, (uint64_t)value, placeOf(__builtin_return_address(0)));         \
  }                                                                                                                      \
  CHANGES(type, bits, exchange, __atomic_exchange_n)                                                                     \
  CHANGES(type, bits, fetch_add, __atomic_fetch_add)                                                                     \
  CHANGES(type, bits, fetch_sub, __atomic_fetch_sub)                                                                     \
  CHANGES(type, bits, fetch_and, __atomic_fetch_and)                                                                     \
  CHANGES(type, bits, fetch_or, __atomic_fetch_or)                                                                       \
  CHANGES(type, bits, fetch_xor, __atomic_fetch_xor)                                                                     \
  CHANGES(type, bits, fetch_nand, __atomic_fetch_nand)                                                                   \
  EXCHANGES(type, bits, compare_exchange_strong, SWAP)                                                                   \
  EXCHANGES(type, bits, compare_exchange_weak, 0) /* what other atomics are made of (atomic.h) */
ATOMICS(uint8_t, 8)
ATOMICS(uint16_t, 16)
ATOMICS(uint32_t, 32)
ATOMICS(uint64_t, 64)

void ginrs_cpu_race_atomic_thread_fence(int order) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (watched()) ginrs_race_fence(writes(order) == RELEASE, order != __ATOMIC_RELAXED);
}
void ginrs_cpu_race_narrow(void) {
  if (watched()) ginrs_race_narrow();
}
void ginrs_cpu_race_atomic_signal_fence(int order) { (void)order; }
