/* What a ginrs library tells kernels beyond NCCL's ABI: where the abort word is, and where to leave hints for the
 * proxy. All of it lives in padding of the ABI's structs, or in memory behind them, that code compiled with NVIDIA's
 * headers never reads, and that NVIDIA's library leaves zero. C-safe; the host library repeats these numbers.
 *
 * How it is found, each step checked before the next:
 *   ncclDevComm bytes 141..143 and 76..79 -> the first page of the window table + 776 -> ginrsCommExt
 *   ncclGinCtx bytes 12..15 (set by our ncclGin::_makeCtx from the devcomm's mark) -> GpuCtx + 64 -> ginrsGinExt
 * Three bytes alone would be too few: a devcomm rebuilt member by member has whatever the stack held in its padding. */
#ifndef GINRS_DEVICE_MARKER_H_
#define GINRS_DEVICE_MARKER_H_
#include <stdint.h>

#define GINRS_MARK_BYTE0 0x47 /* 'G', ncclDevComm byte 141 */
#define GINRS_MARK_BYTE1 0x52 /* 'R', byte 142 */
#define GINRS_MARK_BYTE2 0x01 /* layout version, byte 143 */
#define GINRS_MARK_WORD 0x31525347u /* "GSR1": ncclDevComm bytes 76..79 and ncclGinCtx bytes 12..15 */

#define GINRS_COMM_EXT_OFFSET 776 /* behind the first ncclDevCommWindowTable page; ginrs allocates 1024 bytes for it */
#define GINRS_COMM_EXT_MAGIC 0x4d4d4f4353524e47ull /* "GNRSCOMM" */
#define GINRS_GIN_EXT_OFFSET 64 /* behind the 48-byte ncclGinProxyGpuCtx_t */
#define GINRS_GIN_EXT_MAGIC 0x4e49475353524e47ull /* "GNRSSGIN" */
#define GINRS_EXT_VERSION 1u

/* Of one devcomm. The host writes it once, before any kernel sees the devcomm. */
struct ginrsCommExt {
  uint64_t magic;
  uint32_t version;
  uint32_t bytes;      /* sizeof(struct ginrsCommExt) in the library; a later version appends */
  uint32_t* abortWord; /* nonzero: the communicator was aborted; never null */
};

/* Of one GIN context. */
struct ginrsGinExt {
  uint64_t magic;
  uint32_t version;
  uint32_t hintMask;   /* entries of hintRing - 1; a power of two less one */
  uint32_t* abortWord; /* the communicator's; never null */
  uint32_t* hintHead;  /* entries ever written, wraps; kernels add */
  uint64_t* hintRing;  /* may be null: no hints wanted */
};

/* One hint: "the queue of `peer` has been claimed up to, not including, index `end`". Written relaxed, after the claim
 * and before the descriptor: it promises nothing about the slots. A lost hint costs latency only, because the proxy also
 * looks at every queue now and then. */
#define GINRS_HINT(peer, end) (((uint64_t)(uint32_t)(peer) << 32) | (uint32_t)(end))

#ifdef __cplusplus
static_assert(sizeof(ginrsCommExt) == 24 && sizeof(ginrsGinExt) == 40, "the marker's layout is ABI of ginrs");
#else
_Static_assert(sizeof(struct ginrsCommExt) == 24 && sizeof(struct ginrsGinExt) == 40, "the marker's layout is ABI of ginrs");
#endif
#endif
