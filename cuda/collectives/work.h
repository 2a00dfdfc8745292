/* What the host hands to the kernels of the collectives, by value: one struct for each launch. src/coll/work.rs is its twin. */
#ifndef GINRS_COLLECTIVES_WORK_H_
#define GINRS_COLLECTIVES_WORK_H_
#include <nccl_device.h>
#include <stddef.h>
#include <stdint.h>

enum ginrsCollKind {
  GINRS_COLL_ALL_REDUCE = 0,
  GINRS_COLL_REDUCE_SCATTER = 1,
  GINRS_COLL_REDUCE = 2,
  GINRS_COLL_ALL_GATHER = 3,
  GINRS_COLL_BROADCAST = 4,
  GINRS_COLL_ALL_TO_ALL = 5,
  GINRS_COLL_GATHER = 6,
  GINRS_COLL_SCATTER = 7,
  GINRS_COLL_REDUCE_FOR_EACH = 8 /* of the kernels alone: the reductions of a group, one for each rank as root (several.cuh) */
};

enum ginrsCollHow {
  GINRS_COLL_LL = 0,     /* one LSA team, small: every datum with a flag, no barrier */
  GINRS_COLL_DIRECT = 1, /* one LSA team, the buffers that peers touch are in symmetric windows */
  GINRS_COLL_STAGED = 2, /* anything, but reductions of several LSA teams: by messages, through the inbox */
  GINRS_COLL_BUFFERED = 3, /* any buffers: slice by slice through symmetric scratch, and between LSA teams along the rails */
  GINRS_COLL_MAPPED = 4, /* one LSA team, any buffers: as DIRECT where all ranks turn out to see those that they touch, else as STAGED */
  GINRS_COLL_MULTICAST = 5 /* as DIRECT, through the switch */
};

/* BUFFERED, several LSA teams: how a slice goes along a rail. */
enum ginrsCollAlong {
  GINRS_COLL_RING = 0, /* fewest bytes: neighbour to neighbour, or straight to the team that they are for */
  GINRS_COLL_TREE = 1  /* fewest rounds: recursive doubling, Bruck's, or a tree where there is a root */
};

/* Of the kernels, not of nccl.h: integers come by width, so that an operation says its sign. Floats use MAX_S and MIN_S. */
enum ginrsCollOp {
  GINRS_COLL_SUM = 0,
  GINRS_COLL_PROD = 1,
  GINRS_COLL_MAX_S = 2,
  GINRS_COLL_MAX_U = 3,
  GINRS_COLL_MIN_S = 4,
  GINRS_COLL_MIN_U = 5,
  GINRS_COLL_PRE_MUL = 6, /* each rank's input times its own scalar, then their sum; not DIRECT */
  GINRS_COLL_DIV_S = 7,   /* integers: the sum, divided by the number of ranks towards zero */
  GINRS_COLL_DIV_U = 8,
  GINRS_COLL_AVG = 9      /* floats: the sum in the accumulator, times 1 / number of ranks */
};

/* The types that kernels add up: integers by width. src/coll/datatype.rs has the same numbers. */
enum ginrsCollType {
  GINRS_COLL_I8 = 0,
  GINRS_COLL_I32 = 1,
  GINRS_COLL_I64 = 2,
  GINRS_COLL_F16 = 3,
  GINRS_COLL_BF16 = 4,
  GINRS_COLL_F32 = 5,
  GINRS_COLL_F64 = 6,
  GINRS_COLL_E4M3 = 7,
  GINRS_COLL_E5M2 = 8
};

/* A buffer of the caller. */
struct ginrsCollBuffer {
  void* at;            /* where this rank's kernels see it */
  ncclWindow_t window; /* the symmetric window (NCCL_WIN_COLL_SYMMETRIC) that it lies in, or null */
  uint64_t offset;     /* of `at` in it, bytes; equal on all ranks, as the flag promises */
};

/* Rings of slots for messages between ranks, of the same shape on all: a resource buffer that holds rings * channels lines of 128 bytes,
 * and where ranks of the own team write them rings * channels * slots slots. Which ring a pair of ranks has, channel.cuh says: of the inbox of all pairs the one with the
 * other's rank as its number, of the rails' one for each distance. */
struct ginrsCollInbox {
  /* For ranks of other LSA teams; nothing in one team. Slots lie in the resource window, or, where a network carries them, in a window of
   * host memory: GPU memory would need the driver's copies, and a kernel would wait for a driver that waits for the kernel. */
  ncclWindow_t window; /* which GIN puts from and into */
  char* base;          /* this rank's part of it */
  uint32_t incoming;   /* in it, in units of 128 bytes: rings * channels * slots slots */
  uint32_t outgoing;   /* as many */
  uint32_t handle;     /* of the lines, and of the slots that ranks of the own team write */
  uint32_t rings;
  uint32_t channels;  /* of each ring */
  uint32_t slots;     /* for each channel; a power of two, at least 2 */
  uint32_t slotBytes; /* a multiple of 128 */
  uint32_t signal0;   /* the first GIN signal: rings * channels for data, then as many for credit; 0 in one LSA team */
};

struct ginrsCollWork {
  ncclDevComm comm;
  ginrsCollBuffer send, recv;
  ginrsCollInbox inbox; /* STAGED: between all pairs of ranks */
  ginrsCollInbox rails; /* BUFFERED, several LSA teams: between those with one lsaRank; of an AlltoAll, Gather or Scatter the inbox; of one
                           LSA team that of sums, between all pairs (passing.cuh) */
  ncclLLA2AHandle ll;
  uint64_t count;       /* elements, as the NCCL function counts them */
  uint64_t scalar;      /* PRE_MUL: the factor, in the element's type, in the low bytes */
  const void* scalarAt; /* PRE_MUL: device memory that holds it instead, read when the kernel runs; else null */
  uint32_t eltBytes;
  uint32_t kind, how, op; /* ginrsCollKind, ginrsCollHow, ginrsCollOp */
  uint32_t root;
  uint32_t blocks;      /* of the call, in a row of the grid; STAGED: so many of the inbox's channels divide a message */
  uint32_t scratch;     /* BUFFERED: handle of the scratch, for each block what scratch.cuh says */
  uint32_t pieceBytes;  /* BUFFERED: of a rank in a bank of the scratch: what it reduces at a time, at most; a multiple of 128, and no more than a rail's slot for each team */
  uint32_t along;       /* BUFFERED: ginrsCollAlong */
  uint32_t cutBytes;    /* BUFFERED, several LSA teams: a shorter message along a rail is not worth its head; a multiple of 128 */
  uint32_t first;       /* of those blocks; the ones before are of other calls */
  uint32_t type;        /* ginrsCollType */
};

#define GINRS_PASSING_RANKS 32 /* of a reduction by messages, at most */
#define GINRS_MAPPED_RANKS 32  /* of an LSA team, at most */
#define GINRS_SUM_RANKS 128    /* of a direct reduction, at most */
#define GINRS_MAPPED_BOARD 1408 /* bytes of a block's board (mapped.cuh) */

/* MAPPED. By rank of the team: where its kernels see a buffer of this rank; 0 for all, if one does not see it or nobody touches it. With bit 63 the
 * rest is signed: so far behind the window of the collectives' resources, in this rank's memory. */
struct ginrsMappedWork {
  ginrsCollWork coll;
  uint64_t send[GINRS_MAPPED_RANKS]; /* what others read */
  uint64_t recv[GINRS_MAPPED_RANKS]; /* what others write */
  uint32_t board;                  /* handle of the ranks' boards, one for each block */
  uint32_t pad;
};

#define GINRS_SEVERAL_ITEMS 32
#define GINRS_SEVERAL_PLACES 232

/* What collectives of one group do not have in common. */
struct ginrsSeveralItem {
  void* send;
  void* recv;
  uint64_t count, scalar;
  void const* scalarAt;
  uint32_t root;
  uint16_t first, blocks;
  uint8_t kind, how, op, eltBytes;
  uint32_t pad;
};

/* Collectives of a group, side by side: each by blocks of its own, in the order of the items. LL, STAGED and MAPPED. */
struct ginrsSeveralWork {
  ginrsCollWork common;
  uint32_t board; /* MAPPED: handle */
  uint32_t nItems;
  uint32_t isForEach; /* MAPPED: reductions, one for each rank as root: together, and side by side only if not all have told. Places are all 0, or none of `send` is */
  uint32_t pad;
  ginrsSeveralItem items[GINRS_SEVERAL_ITEMS];
  uint64_t places[GINRS_SEVERAL_PLACES]; /* MAPPED: of each item `send` of ginrsMappedWork, by rank of the team, then `recv` */
};

#define GINRS_P2P_ITEMS 112

/* One ncclSend or ncclRecv. */
struct ginrsP2pItem {
  void* at;
  uint64_t bytes;
  uint32_t peer;
  uint32_t round; /* of a message from a to b: (b - a) mod nRanks, so sender and receiver agree */
  uint64_t seen;  /* of a receive: where the peer's kernels see `at`, as of ginrsMappedWork; 0: they do not */
};

/* The sends and receives of one group: first the sends, then the receives, each by round and then as called. */
struct ginrsP2pWork {
  ncclDevComm comm;
  ginrsCollInbox inbox;
  uint32_t nSends, nRecvs;
  uint32_t sets;     /* of rounds: set s has those with r % sets == s */
  uint32_t channels; /* for each pair; a message's own number depends on its bytes alone */
  uint32_t narrow;   /* the most of one that does not go straight */
  uint32_t bytesPerChannel; /* a message of so many bytes has one more */
  uint32_t straight; /* a message of at least so many bytes may go straight to where it is received; 0: none may */
  uint32_t sendersCopy; /* who sends copies what is for the rank itself; 0: who receives, for others wait for what is sent */
  ginrsP2pItem items[GINRS_P2P_ITEMS];
};

/* The parameter of a kernel ends at 4096 bytes. */
static_assert(sizeof(ginrsCollBuffer) == 24 && sizeof(ginrsCollInbox) == 48 && sizeof(ginrsP2pItem) == 32, "ABI with src/coll/work.rs");
static_assert(sizeof(ginrsCollWork) == 424 && offsetof(ginrsCollWork, inbox) == 248 && offsetof(ginrsCollWork, count) == 352 && offsetof(ginrsCollWork, type) == 420, "same");
static_assert(sizeof(ginrsMappedWork) == 944 && offsetof(ginrsMappedWork, board) == 936, "same");
static_assert(sizeof(ginrsSeveralItem) == 56 && sizeof(ginrsSeveralWork) == 4088 && offsetof(ginrsSeveralWork, items) == 440, "same");
static_assert(sizeof(ginrsP2pWork) == 3864 && offsetof(ginrsP2pWork, items) == 280, "same");
#endif
