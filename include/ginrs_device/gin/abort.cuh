/* Every wait ends: how device code learns that its communicator was aborted.
 *
 * The words are the library's, found through the marker (../marker.h). Where there is no marker, because the library is
 * NVIDIA's or the context was built by hand, waits last until their condition holds. */
#ifndef GINRS_DEVICE_GIN_ABORT_CUH_
#define GINRS_DEVICE_GIN_ABORT_CUH_
#include "../../nccl_device/gin/gin_device_common.h"
#include "../../nccl_device/impl/comm__types.h"
#include "../call.cuh"
#include "../marker.h"
#include "../order.cuh"
#include "../trap.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {

GINRS_DEVICE_FUNCTION bool isMarked(ncclDevComm const& comm) {
  return comm.ginrsMark[0] == GINRS_MARK_BYTE0 && comm.ginrsMark[1] == GINRS_MARK_BYTE1 &&
         comm.ginrsMark[2] == GINRS_MARK_BYTE2 && comm.resourceWindow_inlined.ginrsMark == GINRS_MARK_WORD;
}

/* The block behind the first page of the window table, or null. */
GINRS_DEVICE_FUNCTION ginrsCommExt const* extensionOf(ncclDevComm const& comm) {
  if (!isMarked(comm) || comm.windowTable == nullptr) return nullptr;
  char const* page = reinterpret_cast<char const*>(comm.windowTable);
  ginrsCommExt const* ext = reinterpret_cast<ginrsCommExt const*>(page + GINRS_COMM_EXT_OFFSET);
  return nccl::utility::loadConst(&ext->magic) == GINRS_COMM_EXT_MAGIC ? ext : nullptr;
}
/* Where the block behind a GIN context is, if there is one. */
GINRS_DEVICE_FUNCTION ginrsGinExt const* extensionAt(void const* ginHandle, uint32_t backend = NCCL_NET_DEVICE_GIN_PROXY) {
  size_t const offset = backend == NCCL_NET_DEVICE_GIN_GDAKI ? GINRS_CARD_EXT_OFFSET : GINRS_GIN_EXT_OFFSET;
  return reinterpret_cast<ginrsGinExt const*>(static_cast<char const*>(ginHandle) + offset);
}
/* GINRS_FLAG_s of a context that our ncclGin made; 0 for others. */
GINRS_DEVICE_FUNCTION uint32_t flagsOf(ncclGinCtx const& ctx) {
  return (ctx.ginrs.mark & ~0xffu) == GINRS_MARK_CTX ? ctx.ginrs.mark & 0xff : 0;
}
GINRS_DEVICE_FUNCTION ginrsGinExt const* extensionOf(ncclGinCtx const& ctx) {
  return (flagsOf(ctx) & GINRS_FLAG_KNOWN) != 0 ? extensionAt(ctx.handle, ctx.backend) : nullptr;
}
/* Those flags, found out. */
GINRS_DEVICE_FUNCTION uint32_t probe(ncclDevComm const& comm, void const* ginHandle, uint32_t backend) {
  using nccl::utility::loadConst;
  if (!isMarked(comm)) return 0;
  ginrsGinExt const* ext = extensionAt(ginHandle, backend);
  uint32_t version = loadConst(&ext->version), flags = loadConst(&ext->flags);
  bool hasHints = loadConst(&ext->hintRing) != nullptr, isCached = loadConst(&ext->cachedCis) != nullptr;
  if (loadConst(&ext->magic) != GINRS_GIN_EXT_MAGIC) return 0;
  uint32_t found = GINRS_FLAG_KNOWN | (hasHints ? GINRS_FLAG_HINTS : 0);
  if (version < 2) return found;
  found |= (flags & GINRS_FLAG_SAME_GPU) | (isCached ? GINRS_FLAG_CACHED : 0);
  if (version < 4) return found;
  found |= (flags & (GINRS_FLAG_DIRECT | GINRS_FLAG_STORES)) | GINRS_FLAG_BOUNDS;
#ifdef __GINRS_CPU__
  if (version >= 5 && loadConst(&ext->awaited) != nullptr) found |= GINRS_FLAG_AWAITED;
#endif
  return found;
}

/* Where: ncclDevComm or ncclGinCtx. The near word costs a look into the GPU's L2, the host's a PCIe round trip. */
template <typename Where>
GINRS_DEVICE_FUNCTION bool isAborted(Where const& where, bool lookAtHost = false) {
  auto const* ext = extensionOf(where);
  if (ext == nullptr) return false;
  if (loadRelaxed(nccl::utility::loadConst(&ext->abortWord)) != 0) return true;
  if (!lookAtHost || nccl::utility::loadConst(&ext->version) < 2) return false;
  return loadRelaxed(nccl::utility::loadConst(&ext->abortHost)) != 0;
}

#if (!defined(__CUDA_ARCH__) || defined(__GINRS_CPU__)) && !defined(__CUDACC_RTC__) && !defined(GINRS_OWN_KERNELS)
/* Tells the library, if it is ours, that kernels here leave notes of their waits: a long one that leaves none then waits for nobody. */
NCCL_EXTERN_C __attribute__((weak)) void ginrsNoteHeaders(unsigned version);
__attribute__((constructor, unused)) static void noteHeaders() {
  if (ginrsNoteHeaders != nullptr) ginrsNoteHeaders(GINRS_EXT_VERSION);
}
#endif

/* What a wait is for: its note (../marker.h), and the word whose low `bits` bits have to reach a value, rolling, if it is one. */
struct Waited {
  uint32_t note;
  void const* word;
  uint64_t wants;
  int bits;
};
/* The kernels of the library's own collectives define GINRS_OWN_KERNELS. */
NCCL_HOST_DEVICE_INLINE Waited waitsFor(uint32_t kind, uint32_t detail = 0, void const* word = nullptr, uint64_t wants = 0,
                                        int bits = 0) {
#ifdef GINRS_OWN_KERNELS
  kind |= 0x80;
#endif
  return {kind << 24 | (detail & 0xffffff), word, wants, bits};
}

GINRS_DEVICE_FUNCTION uint32_t noteClock() {
#ifdef __GINRS_CPU__
  return uint32_t((unsigned long long)clock64() >> 20);
#elif defined(__CUDA_ARCH__)
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return uint32_t(time >> 20);
#else
  return 0;
#endif
}

/* Between two bursts of a wait's looks; false if the communicator was aborted. `turn` counts bursts modulo 64, and holds above
 * them when the wait was first seen to be long. */
template <typename Where, typename What>
GINRS_DEVICE_FUNCTION bool goesOn(Where const& where, unsigned& turn, What&& what) {
  using nccl::utility::loadConst;
  bool const isLong = (++turn & 0x3f) == 0; /* about a millisecond on a GPU */
  uint32_t const reason = isLong ? what().note : 0;
  auto const* ext = extensionOf(where);
  if (ext == nullptr) return true;
  if (loadRelaxed(loadConst(&ext->abortWord)) != 0) return false;
  uint32_t const version = loadConst(&ext->version);
  if (!isLong || version < 2) return true;
  uint32_t* const host = loadConst(&ext->abortHost);
  if (loadRelaxed(host) != 0) return false;
  if (version < 3) return true;
  uint32_t since = (turn >> 6) - 1; /* the count has just run over */
  if (since == 0) since = noteClock() & 0x1ffffff; /* one bit less than fits: the count may run over */
  if (since == 0) since = 1;
  turn = since << 6;
  uint64_t* const note = reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(host) + GINRS_WAIT_NOTE_OFFSET);
  uint32_t const other = uint32_t(loadRelaxed(note) >> 32);
  /* Younger by less than half of what the stamp can say. */
  if (other == 0 || ((other - since) & 0x1ffffff) - 1 < 0xffffff) storeRelaxed(note, uint64_t(since) << 32 | reason);
  return true;
}

#ifdef __GINRS_CPU__
/* A wait in the timeline, however short. */
struct Drawn {
  bool isDrawn;

  template <typename Where, typename What>
  NCCL_DEVICE_INLINE Drawn(Where const& where, What&& what) : isDrawn(isWrittenDown()) {
    auto const* ext = isDrawn ? extensionOf(where) : nullptr;
    isDrawn = ext != nullptr && ext->version >= 2;
    if (!isDrawn) return;
    Waited const waited = what();
    ginrsCpuWait const wait = {ext->abortHost, waited.word, waited.wants, uint32_t(waited.bits), waited.note};
    ginrs_cpu_timeline_wait(&wait);
  }
  NCCL_DEVICE_INLINE ~Drawn() {
    if (isDrawn) ginrs_cpu_timeline_wait_end();
  }
  Drawn(Drawn const&) = delete;
};

template <typename Where>
void tell(Told& told, Where const& where, Waited const& waited) {
  auto const* ext = extensionOf(where);
  if (ext == nullptr || ext->version < 2) return; /* nobody would know whose it is */
  told.tell({ext->abortHost, waited.word, waited.wants, uint32_t(waited.bits), waited.note});
}
#endif

/* Calls done() until it is true; false if the communicator was aborted instead. Between two looks stand done()'s own code
 * and a count: a wait of less than a burst, some 10 us, touches no memory but its own. (Of five forms of this loop the
 * one that is not slower than NVIDIA's headers in any LSA barrier of 2 and 4 ranks.) About once a millisecond the wait looks
 * at the host's abort word, and leaves a note of what it is for: `what()` is asked only then. */
template <typename Where, typename Done, typename What>
GINRS_DEVICE_FUNCTION bool until(Where const& where, Done&& done, What&& what) {
  unsigned turn = 0;
#ifdef __GINRS_CPU__
  Told told;
  Drawn drawn(where, what);
  for (unsigned turns = 1; !done(); turns++) {
    ginrs_cpu_yield(GINRS_CPU_WAITING);
    if (!goesOn(where, turn, what)) {
      ginrs_cpu_aborted();
      return false;
    }
    if (turns == 256) tell(told, where, what());
  }
  return true;
#else
  constexpr int burst = 32; /* looks between two at the near abort word */
#pragma unroll 1
  for (;;) {
#pragma unroll 2
    for (int i = 0; i < burst; i++) {
      if (done()) return true;
    }
    if (!goesOn(where, turn, what)) return false;
  }
#endif
}

}  // namespace ginrs
#endif
#endif
