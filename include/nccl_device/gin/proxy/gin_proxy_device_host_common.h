/* The proxy backend's formats, shared by kernels and the host's proxy thread. ABI, bit for bit. C-safe; little-endian. */
#ifndef GIN_PROXY_DEFS_H
#define GIN_PROXY_DEFS_H
#include <stddef.h>
#include <stdint.h>

#define NCCL_GIN_PROXY_VERSION 100

/* A descriptor ("GFD") is one 64-byte slot: 8 words, bit 0 of each a flag that the word is written. The host waits for
 * each word by its flag and zeroes the slot before it gives the producer credit for it. */
typedef enum {
  ncclGinProxyGfdHeader = 0,
  ncclGinProxyGfdInlineLow = 1,
  ncclGinProxyGfdSrcOff = 1,
  ncclGinProxyGfdInlineHigh = 2,
  ncclGinProxyGfdSrcHandle = 2,
  ncclGinProxyGfdDstOff = 3,
  ncclGinProxyGfdDstHandle = 4,
  ncclGinProxyGfdCompletion = 5,
  ncclGinProxyGfdSignalVal = 6,
  ncclGinProxyGfdReserved = 7,
  ncclGinProxyGfdQwords = 8
} ncclGinProxyGfdQwordIdx_t;

/* Put is in every operation; at most one of the signal bits. */
typedef enum {
  ncclGinProxyOpPut = 1,
  ncclGinProxyOpBaseMask = 1,
  ncclGinProxyOpWithInline = 2,
  ncclGinProxyOpWithCounter = 4,
  ncclGinProxyOpWithSignalInc = 8,
  ncclGinProxyOpWithSignalAdd = 16,
  ncclGinProxyOpComplMask = ~1
} ncclGinProxyOp_t;

typedef union {
  uint64_t raw;
  struct {
    uint64_t v : 1;
    uint64_t resv : 63;
  } flag;
  struct {
    uint64_t flag : 1;
    uint64_t op : 6;    /* ncclGinProxyOp_t */
    uint64_t size : 57; /* bytes */
  } header;
  struct {
    uint64_t flag : 1;
    uint64_t srcOff : 63; /* bytes from the start of the registration */
  } srcOff;
  struct {
    uint64_t flag : 1;
    uint64_t srcHandle : 63; /* the source window's ginWins entry */
  } srcHandle;
  struct {
    uint64_t flag : 1;
    uint64_t resv : 7;
    uint64_t inlineValLow : 32;  /* the value's bits 0..31 */
    uint64_t inlineValLow2 : 16; /* 32..47 */
  } inlineLow;
  struct {
    uint64_t flag : 1;
    uint64_t resv : 7;
    uint64_t inlineValHigh : 16; /* 48..63 */
    uint64_t resv1 : 8;
    uint64_t resv2 : 32;
  } inlineHigh;
  struct {
    uint64_t flag : 1;
    uint64_t dstOff : 63;
  } dstOff;
  struct {
    uint64_t flag : 1;
    uint64_t dstHandle : 63;
  } dstHandle;
  struct {
    uint64_t flag : 1;
    uint64_t resv1 : 7;
    uint64_t counterId : 16; /* absolute ids: the devcomm's base is added */
    uint64_t signalId : 16;
    uint64_t signalValLow : 16; /* what to add to the signal: bits 0..15 */
    uint64_t resv2 : 8;
  } completion;
  struct {
    uint64_t flag : 1;
    uint64_t resv : 7;
    uint64_t signalValLow2 : 16; /* 16..31 */
    uint64_t signalValHigh : 32; /* 32..63 */
  } signalVal;
} ncclGinProxyQword_t;

typedef struct __attribute__((packed)) {
  ncclGinProxyQword_t qword[ncclGinProxyGfdQwords];
} ncclGinProxyGfd_t;

/* A context, in device memory: one queue, producer index and consumer index per world rank. The host fills it before
 * kernels run; these fields do not change. Indices count descriptors ever posted or finished and wrap at 2^32. */
typedef struct {
  int nranks;
  uint32_t queueSize;        /* slots per queue, a power of two */
  ncclGinProxyGfd_t* queues; /* rank r's slots begin at r * queueSize */
  uint32_t* pis;             /* kernels claim slots here */
  uint32_t* cis;             /* the host returns them here, in order */
  uint64_t* counters;        /* by absolute id */
  uint64_t* signals;         /* by absolute id */
} ncclGinProxyGpuCtx_t;

#ifdef __cplusplus
static_assert(sizeof(ncclGinProxyQword_t) == 8 && sizeof(ncclGinProxyGfd_t) == 64 && sizeof(ncclGinProxyGpuCtx_t) == 48,
              "layouts of NCCL 2.28.9");
#else
_Static_assert(sizeof(ncclGinProxyQword_t) == 8 && sizeof(ncclGinProxyGfd_t) == 64 && sizeof(ncclGinProxyGpuCtx_t) == 48,
               "layouts of NCCL 2.28.9");
#endif
#endif
