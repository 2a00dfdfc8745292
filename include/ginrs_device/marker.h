/* What a ginrs library tells kernels beyond NCCL's ABI: where the abort words are, where to leave hints for the proxy,
 * and how a GIN context may be used. All of it lives in padding of the ABI's structs, or in memory behind them, that code
 * compiled with NVIDIA's headers never reads, and that NVIDIA's library leaves zero. C-safe; the host library repeats
 * these numbers.
 *
 * How it is found, each step checked before the next:
 *   ncclDevComm bytes 141..143 and 76..79 -> the first page of the window table + 776 -> ginrsCommExt
 *   the same two marks -> ncclDevComm::ginHandles[context] + 64 -> ginrsGinExt
 *   a ginrsGinExt of version 4 or later -> any window of the communicator + 72 -> ginrsWindowExt
 * Three bytes alone would be too few: a devcomm rebuilt member by member has whatever the stack held in its padding.
 *
 * Versions only append: a reader takes the fields up to the version that the block names, and ignores the rest. */
#ifndef GINRS_DEVICE_MARKER_H_
#define GINRS_DEVICE_MARKER_H_
#include <stddef.h>
#include <stdint.h>

#define GINRS_MARK_BYTE0 0x47 /* 'G', ncclDevComm byte 141 */
#define GINRS_MARK_BYTE1 0x52 /* 'R', byte 142 */
#define GINRS_MARK_BYTE2 0x01 /* layout version, byte 143 */
#define GINRS_MARK_WORD 0x31525347u /* "GSR1": ncclDevComm bytes 76..79 */
/* "GSR2": ncclWindow_vidmem bytes 36..39 of a registered window whose memory is this rank's own GPU's. */
#define GINRS_MARK_WINDOW_GPU 0x32525347u
#define GINRS_MARK_WINDOW_CPU 0x33525347u /* "GSR3": the same bytes of one on the CPU device; a ginrsWindowExt with all below stands behind it */

#define GINRS_COMM_EXT_OFFSET 776 /* behind the first ncclDevCommWindowTable page; ginrs allocates 1024 bytes for it */
#define GINRS_COMM_EXT_MAGIC 0x4d4d4f4353524e47ull /* "GNRSCOMM" */
#define GINRS_GIN_EXT_OFFSET 64 /* behind the 48-byte ncclGinProxyGpuCtx_t, which begins at a multiple of 16 */
#define GINRS_CARD_EXT_OFFSET 128 /* the same behind an ncclGinGdakiGPUContext of the library's model of a card */
#define GINRS_GIN_EXT_SPACE 128 /* bytes kept for the block; the context's pis begin behind it or elsewhere */
#define GINRS_GIN_EXT_MAGIC 0x4e49475353524e47ull /* "GNRSSGIN" */
#define GINRS_WINDOW_EXT_OFFSET 72 /* behind ncclWindow_vidmem; ginrs keeps 128 bytes for each */
#define GINRS_EXT_VERSION 5u

/* Version 3: so many bytes behind abortHost is a word in which a wait that lasts for a millisecond and more says so, for the host to
 * find who waits for a rank that has left. Any thread may write it, about once a millisecond; the oldest wait stays; the host zeroes it.
 *   bits 32..56   when the wait was first seen to be long, in 1.05 ms of the device's clock; never 0
 *   bit  31       set: by a kernel of the library's own, for a collective or a message
 *   bits 24..30   GINRS_WAITS_
 *   bits 0..23    what for */
#define GINRS_WAIT_NOTE_OFFSET 64
#define GINRS_WAITS_WORD 0u  /* a signal or counter of this rank reaches a value */
#define GINRS_WAITS_QUEUE 1u /* the host takes, or finishes, what this rank has posted to a world rank (bits 0..23) */
#define GINRS_WAITS_LSA 2u   /* world rank (bits 0..23) comes to an LSA barrier; 0xffffff: a multicast barrier's ranks */
#define GINRS_WAITS_LL 3u    /* elements of an LL all-to-all arrive */
#define GINRS_WAITS_RANK 4u  /* world rank (bits 0..23) sends, or takes what was sent to it */
#define GINRS_WAITS_READS 5u /* nobody knows what: a thread of the CPU device reads a signal or counter over and over by itself */
#define GINRS_WAITS_CODE 6u  /* nothing that is known: a block of the CPU device runs code of the program's, on the device of the context's number */

/* Of one communicator. The host writes it once, before any kernel sees a devcomm. */
struct ginrsCommExt {
  uint64_t magic;
  uint32_t version;
  uint32_t bytes;      /* sizeof(struct ginrsCommExt) in the library */
  uint32_t* abortWord; /* nonzero: the communicator was aborted; never null. On a GPU in its own memory */
  /* version 2 */
  uint32_t* abortHost; /* the same in host memory: written first, and also when the other cannot be; never null */
  /* version 4 */
  uint32_t lsaSize; /* ncclDevComm::lsaSize, for those who have a window alone */
  uint32_t device;  /* on the CPU device: 1 + the number of the communicator's; 0: not told */
};

/* ginrsGinExt::flags */
#define GINRS_FLAG_DIRECT 1u   /* kernels carry out puts themselves: ginrs_device/gin/direct.cuh */
#define GINRS_FLAG_SAME_GPU 2u /* what reads a payload in this GPU's memory is this GPU, so a GPU-scope release publishes it */
#define GINRS_FLAG_STORES 8u   /* not direct: kernels store the payload of a small put to an LSA peer themselves, and post its actions */
/* The library's no more: what an ncclGin found out when it was made, and keeps beside the library's two. */
#define GINRS_FLAG_AWAITED 4u  /* awaited is not null */
#define GINRS_FLAG_BOUNDS 16u  /* windows have a ginrsWindowExt, and refusal is not null */
#define GINRS_FLAG_HINTS 32u   /* hintRing is not null */
#define GINRS_FLAG_CACHED 64u  /* cachedCis is given */
#define GINRS_FLAG_KNOWN 128u  /* there is a ginrsGinExt; without this no other */
/* ncclGinCtx bytes 12..15, padding in NCCL: this and the flags above, or 0. Set by our ncclGin::_makeCtx alone. */
#define GINRS_MARK_CTX 0x47525300u

/* Of one GIN context. The host writes it once; what its pointers point to changes. */
struct ginrsGinExt {
  uint64_t magic;
  uint32_t version;
  uint32_t hintMask;   /* entries of hintRing - 1; a power of two less one */
  uint32_t* abortWord; /* as in ginrsCommExt */
  uint32_t* hintHead;  /* entries ever written, wraps; kernels add */
  uint64_t* hintRing;  /* may be null: no hints wanted */
  /* version 2 */
  uint32_t* abortHost; /* as in ginrsCommExt */
  uint32_t* cachedCis; /* may be null. Per world rank a lower bound of its consumer index, in this GPU's memory: kernels
                          leave there what they read from the index itself. The host writes the first value only */
  uint32_t flags;            /* GINRS_FLAG_ */
  uint32_t directStride4G;   /* LSA rank p's signal words lie p times this many 4 GiB behind directSignals */
  uint64_t* directSignals;   /* DIRECT: LSA rank 0's signal words, by absolute id; the own ones are also the context's */
  uint64_t storeLargest;     /* DIRECT, STORES: bytes; a larger put goes through the queue */
  uint32_t signals, counters; /* DIRECT: absolute ids are below these; 0: not told */
  /* version 4 */
  uint64_t* refusal; /* GINRS_REFUSAL of what a kernel was asked and did not do, or 0; kernels store, the host looks */
  /* DIRECT: the context's own queues. Those that ncclGinProxyGpuCtx_t names are for kernels of other headers, which post
   * where they should store: the host refuses whatever comes there. */
  void* directQueues;
  uint32_t* directPis;
  uint32_t* directCis;
  /* version 5 */
  uint64_t* awaited; /* may be null. Per absolute signal id GINRS_AWAITED and what kernels waited for last, or read; 0 behind a reset. On the
                        CPU device they leave it there, so that the host can tell a signal that nobody waits for */
};
#define GINRS_AWAITED (1ull << 63)

/* Of one window. */
struct ginrsWindowExt {
  uint64_t bytes; /* that were registered, the same on all ranks */
  /* Of a devcomm's resource window, on the CPU device: so many signals from ncclDevComm::railGinBarrier's first on are barriers'. */
  uint64_t barrierSignals;
  void const* table; /* ncclDevComm::windowTable of the communicator, while the window stands in it; null: not told */
  uint64_t number;   /* of those that the program has registered with the communicator, from 1; 0: the library's own */
  /* Of a devcomm's resource window, on the CPU device: what its parts are for; null: not told. */
  struct ginrsResource const* resources;
  uint32_t nResources;
  /* Of one of the program's, on the CPU device: gone[rank][place] is not 0 once that rank has deregistered it. 0, null: not told. (A
   * header that takes place for a part of nResources asks resource windows alone, which have 0.) */
  uint32_t place;
  uint8_t const* const* gone;
};
/* A part of a resource window, as it was asked for. */
struct ginrsResource {
  uint64_t bytes;
  uint32_t bufHandle, signal0, signals, pad;
};

/* An id that the device communicator was not given, or a world rank that it does not have: which kind, the id and how many there
 * are, each up to 2^28 - 1. */
#define GINRS_REFUSED_SIGNAL 1
#define GINRS_REFUSED_COUNTER 2
#define GINRS_REFUSED_PEER 3
#define GINRS_REFUSAL(kind, id, count) ((uint64_t)(kind) << 56 | (uint64_t)((id) & 0xfffffffu) << 28 | ((count) & 0xfffffffu))

/* One hint: "the queue of `peer` has been claimed up to, not including, index `end`". Written relaxed, after the claim
 * and before the descriptor: it promises nothing about the slots. A lost hint costs latency only, because the proxy also
 * looks at every queue now and then. */
#define GINRS_HINT(peer, end) (((uint64_t)(uint32_t)(peer) << 32) | (uint32_t)(end))

#ifdef __cplusplus
#define GINRS_LAYOUT(condition) static_assert(condition, "the marker's layout is ABI of ginrs")
#else
#define GINRS_LAYOUT(condition) _Static_assert(condition, "the marker's layout is ABI of ginrs")
#endif
GINRS_LAYOUT(sizeof(struct ginrsCommExt) == 40 && offsetof(struct ginrsCommExt, abortHost) == 24 && offsetof(struct ginrsCommExt, lsaSize) == 32);
GINRS_LAYOUT(sizeof(struct ginrsGinExt) == 128 && sizeof(struct ginrsGinExt) <= GINRS_GIN_EXT_SPACE);
GINRS_LAYOUT(offsetof(struct ginrsGinExt, abortHost) == 40 && offsetof(struct ginrsGinExt, cachedCis) == 48 &&
             offsetof(struct ginrsGinExt, flags) == 56 && offsetof(struct ginrsGinExt, directStride4G) == 60 &&
             offsetof(struct ginrsGinExt, directSignals) == 64 && offsetof(struct ginrsGinExt, storeLargest) == 72 &&
             offsetof(struct ginrsGinExt, signals) == 80 && offsetof(struct ginrsGinExt, counters) == 84 &&
             offsetof(struct ginrsGinExt, refusal) == 88 && offsetof(struct ginrsGinExt, directQueues) == 96 &&
             offsetof(struct ginrsGinExt, directPis) == 104 && offsetof(struct ginrsGinExt, directCis) == 112 &&
             offsetof(struct ginrsGinExt, awaited) == 120);
#undef GINRS_LAYOUT
#endif
