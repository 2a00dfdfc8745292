/* Calls of another NCCL's device headers (NVIDIA's), which tell the CPU device nothing of their waits. ginrs-cc gives those that wait
 * the caller's line, and one of these as the first thing in their bodies (tools/src/rewrite/foreign.rs). What is awaited is asked for
 * only once the call has lasted for whole turns of its thread. */
#if !defined(GINRS_CPU_FOREIGN_H_) && __has_include(<ginrs_device/marker.h>) /* ginrs-cc alone has no NCCL */
#define GINRS_CPU_FOREIGN_H_
#include <ginrs_device/marker.h>
#include <stdio.h>
#include "runtime.h"
#include "waits.h"

namespace ginrs_cpu {
/* The communicator's abort word in host memory, which says whose a wait is; null where the library behind `comm` is not ginrs. */
template <class Comm>
const void* owner_of(Comm const& comm) {
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(&comm);
  uint32_t word;
  __builtin_memcpy(&word, bytes + 76, sizeof word);
  const bool is_marked = bytes[141] == GINRS_MARK_BYTE0 && bytes[142] == GINRS_MARK_BYTE1 && bytes[143] == GINRS_MARK_BYTE2;
  if (!is_marked || word != GINRS_MARK_WORD || comm.windowTable == nullptr) return nullptr;
  const char* page = reinterpret_cast<const char*>(comm.windowTable);
  const ginrsCommExt* ext = reinterpret_cast<const ginrsCommExt*>(page + GINRS_COMM_EXT_OFFSET);
  return ext->magic == GINRS_COMM_EXT_MAGIC && ext->version >= 2 ? ext->abortHost : nullptr;
}

/* `waits` fills in all of a wait but its owner, and says whether there is something to wait for still. */
template <class Waits>
struct Foreign : ginrsCpuForeign {
  ginrsCpuThread* thread;
  const void* owner;
  Waits waits;
  bool is_drawn;

  Foreign(const void* owner, uint32_t kind, uint32_t context, uint32_t id, const char* file, int line, Waits const& what)
      : ginrsCpuForeign{{nullptr, file, line, kind | GINRS_CPU_CALL_FOREIGN, context, id}, &ask, 0, 0},
        thread(const_cast<ginrsCpuThread*>(ginrs_cpu_self)), owner(owner), waits(what), is_drawn(false) {
    if (thread == nullptr) return;
    call.outer = thread->call;
    thread->call = &call;
    ginrsCpuWait wait = {};
    if (__builtin_expect(__atomic_load_n(&ginrs_cpu_timeline, __ATOMIC_RELAXED) != 0, 0) && ask(this, &wait) != 0) {
      ginrs_cpu_timeline_wait(&wait);
      is_drawn = true;
    }
  }
  ~Foreign() {
    if (thread == nullptr) return;
    if (is_drawn) ginrs_cpu_timeline_wait_end();
    if (isTold) ginrs_cpu_wait_end();
    thread->call = call.outer;
  }
  Foreign(Foreign const&) = delete;

  static int ask(const ginrsCpuForeign* self, ginrsCpuWait* wait) {
    const Foreign* call = static_cast<const Foreign*>(self);
    wait->owner = call->owner;
    return call->owner != nullptr && call->waits(*wait);
  }
};

/* Of a call that waits in others alone, which it makes itself. */
struct Nothing {
  bool operator()(ginrsCpuWait&) const { return false; }
};

/* The block behind the GIN context of a call, or null. */
template <class Gin>
const ginrsGinExt* extension_of(Gin const& gin) {
  if (owner_of(gin.comm) == nullptr) return nullptr;
  constexpr int kGdaki = 3;
  const size_t offset = int(gin._ginBackend) == kGdaki ? GINRS_CARD_EXT_OFFSET : GINRS_GIN_EXT_OFFSET;
  const ginrsGinExt* ext = reinterpret_cast<const ginrsGinExt*>(static_cast<const char*>(gin._ginHandle) + offset);
  return ext->magic == GINRS_GIN_EXT_MAGIC && ext->version >= 5 ? ext : nullptr;
}

/* An id that the device communicator was not given is told, here and to the host, which ends the communicator. The call goes on. */
inline bool is_given(const ginrsGinExt& ext, int kind, const char* what, uint32_t id, int count, const char* field) {
  if (id < uint32_t(count)) return true;
  char text[128];
  snprintf(text, sizeof text, "%s %u: the device communicator was given %d (%s)", what, id, count, field);
  ginrs_cpu_refused(text);
  __atomic_store_n(ext.refusal, GINRS_REFUSAL(kind, id, count), __ATOMIC_RELAXED);
  return false;
}

/* The host hears that somebody waits for `value` of a signal, or has read or reset it, as of our headers: so it finds what nobody waits for. */
template <class Gin>
void awaits(Gin const& gin, uint32_t signal, uint64_t value) {
  const ginrsGinExt* ext = extension_of(gin);
  if (ext == nullptr || !is_given(*ext, GINRS_REFUSED_SIGNAL, "signal", signal, gin.comm.ginSignalCount, "ginSignalCount")) return;
  if (ext->awaited != nullptr) __atomic_store_n(ext->awaited + gin.comm.ginSignalBase + signal, value | GINRS_AWAITED, __ATOMIC_RELAXED);
}
template <class Gin>
void counts(Gin const& gin, uint32_t counter) {
  const ginrsGinExt* ext = extension_of(gin);
  if (ext != nullptr) is_given(*ext, GINRS_REFUSED_COUNTER, "counter", counter, gin.comm.ginCounterCount, "ginCounterCount");
}

/* A thread reads a word by itself. */
template <class Gin>
void reads(Gin const& gin, uint64_t value) {
  const void* owner = ginrs_cpu_self == nullptr ? nullptr : owner_of(gin.comm);
  if (owner != nullptr) ginrs_cpu_polled(owner, value);
}

/* What ginrs-cc writes is compiled behind the preprocessor. */
constexpr uint32_t kWord = GINRS_WAITS_WORD << 24;

template <class Word>
Word value_of(Word* word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* That the low `bits` bits of *word reach `wants`, rolling. */
template <class Word>
bool reaches(ginrsCpuWait& wait, Word* word, uint64_t wants, int bits, uint32_t note) {
  wait.word = word;
  wait.wants = wants;
  wait.bits = uint32_t(bits);
  wait.note = note;
  const uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
  return ((value_of(word) - wants) & mask) > mask >> 1;
}

/* That the host has finished what has been claimed of the queues of a proxied context: of the first peer of which it has not. */
template <class Context>
bool finishes(ginrsCpuWait& wait, Context const& context) {
  struct Proxied { /* ncclGinProxyGpuCtx_t, of which no name is known here */
    int ranks;
    uint32_t size;
    void* queues;
    uint32_t *pis, *cis;
  };
  constexpr int kProxy = 2;
  if (int(context.backend) != kProxy) return false;
  const Proxied& proxied = *static_cast<const Proxied*>(context.handle);
  for (int peer = 0; peer < proxied.ranks; peer++) {
    const uint32_t claimed = value_of(proxied.pis + peer);
    if (reaches(wait, proxied.cis + peer, claimed, 32, GINRS_WAITS_QUEUE << 24 | uint32_t(peer))) return true;
  }
  return false;
}

/* That all of the team come to the barrier: the first that has not. */
template <class Session>
bool comes(ginrsCpuWait& wait, Session& session) {
  if (session.multimem) {
    wait.note = GINRS_WAITS_LSA << 24 | 0xffffff;
    return true;
  }
  const auto& team = session.team;
  const int first = session.comm.rank - team.rank * team.stride;
  for (int peer = 0; peer < team.nRanks; peer++) {
    const uint32_t note = GINRS_WAITS_LSA << 24 | uint32_t(first + peer * team.stride);
    if (peer != team.rank && reaches(wait, session.ucInbox(team.rank, peer), session.epoch + 1, 32, note)) return true;
  }
  return false;
}

/* That elements of an LL all-to-all arrive. */
inline bool arrive(ginrsCpuWait& wait) {
  wait.note = GINRS_WAITS_LL << 24;
  return true;
}
}  // namespace ginrs_cpu
#endif
