// One call of a collective: what it is given, what has to come out, and what has to stay as it was.
#pragma once
#include <cuda_runtime.h>
#include <stdio.h>
#include "values.h"

enum Kind { kAllReduce, kReduceScatter, kReduce, kAllGather, kBroadcast, kBcast, kAlltoAll, kGather, kScatter, kKinds };

static inline const char* kindName(int kind) {
  static const char* const names[] = {"AllReduce", "ReduceScatter", "Reduce", "AllGather", "Broadcast",
                                      "Bcast", "AlltoAll", "Gather", "Scatter"};
  return names[kind];
}
static inline bool reduces(int kind) { return kind <= kReduce; }
static inline bool hasRoot(int kind) { return kind == kReduce || kind == kBroadcast || kind == kBcast || kind >= kGather; }

static const int kGuard = 64;  // bytes before and behind a result, which nobody may touch

struct Case {
  Values values;
  int kind, root, rank;
  bool inPlace;
  bool nulls;  // NULL for a pointer that NCCL does not look at on this rank
  uint64_t count;
  char *send, *recv;
  unsigned number;
  const char* where;  // kind of memory

  __host__ __device__ bool hasInput() const { return (kind != kScatter && kind != kBroadcast && kind != kBcast) || rank == root; }
  __host__ __device__ bool hasOutput() const { return (kind != kReduce && kind != kGather) || rank == root; }
  __host__ __device__ uint64_t inputs() const {
    return kind == kReduceScatter || kind == kAlltoAll || kind == kScatter ? count * values.nRanks : count;
  }
  __host__ __device__ uint64_t outputs() const { return kind == kAllGather || kind == kAlltoAll || kind == kGather ? count * values.nRanks : count; }
};

// Sets where the buffers lie: at `send` and `recv`, each with room for largest(), or overlapping as in place means it for the kind.
static void place(Case& c, char* send, char* recv) {
  uint64_t part = c.count * typeFacts(c.values.type).bytes;
  c.send = send;
  c.recv = recv;
  if (c.kind == kBcast) c.inPlace = true;
  if (!c.inPlace) return;
  c.send = c.recv;
  if (c.kind == kAllGather) c.send = recv + c.rank * part;
  if (c.kind == kReduceScatter) c.recv = recv + c.rank * part;
  if (c.kind == kGather && c.rank == c.root) c.send = recv + c.root * part;
  if (c.kind == kScatter && c.rank == c.root) c.recv = recv + c.root * part;
  // Elsewhere a rank has one buffer only.
}

__host__ __device__ inline uint64_t loadBits(const char* at, int bytes) {
  switch (bytes) {
    case 1: return *(const uint8_t*)at;
    case 2: return *(const uint16_t*)at;
    case 4: return *(const uint32_t*)at;
    default: return *(const uint64_t*)at;
  }
}
__host__ __device__ inline void storeBits(char* at, int bytes, uint64_t bits) {
  switch (bytes) {
    case 1: *(uint8_t*)at = (uint8_t)bits; break;
    case 2: *(uint16_t*)at = (uint16_t)bits; break;
    case 4: *(uint32_t*)at = (uint32_t)bits; break;
    default: *(uint64_t*)at = bits;
  }
}

// What a check found first.
struct Finding {
  unsigned wrong, number, part;  // part: 0 result, 1 bytes around it, 2 input, 3 a result that is none on this rank
  unsigned long long index, got, wanted;
};

__device__ inline void finding(Finding* found, const Case& c, unsigned part, uint64_t index, uint64_t got, uint64_t wanted) {
  if (atomicAdd(&found->wrong, 1u) != 0) return;
  found->number = c.number;
  found->part = part;
  found->index = index;
  found->got = got;
  found->wanted = wanted;
}

// Which element of whose input stands at `index` of the result; rank -1: the reduction of all.
__host__ __device__ inline uint64_t origin(const Case& c, uint64_t index, int* rank) {
  uint64_t own = (uint64_t)c.rank * c.count;
  *rank = -1;
  switch (c.kind) {
    case kAllReduce:
    case kReduce: return index;
    case kReduceScatter: return own + index;
    case kAllGather:
    case kGather: *rank = (int)(index / c.count); return index % c.count;
    case kAlltoAll: *rank = (int)(index / c.count); return own + index % c.count;
    case kScatter: *rank = c.root; return own + index;
    default: *rank = c.root; return index;
  }
}

static const uint64_t kUntouched = 0xa5a5a5a5a5a5a5a5ull;

// Inputs into place, a pattern into all else. In a replayed graph *salt counts the replays.
__global__ void prepare(Case c, const unsigned* salt, int planted) {
  int bytes = typeFacts(c.values.type).bytes;
  if (salt) c.values.seed += *salt;
  uint64_t at = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x, step = (uint64_t)gridDim.x * blockDim.x;
  uint64_t inputs = c.hasInput() ? c.inputs() : 0;
  const char* sendEnd = c.send + inputs * bytes;
  for (uint64_t i = at; i < c.outputs(); i += step) {
    char* here = c.recv + i * bytes;
    if (here < c.send || here >= sendEnd) storeBits(here, bytes, lowBytes(kUntouched, bytes));
  }
  for (uint64_t i = at; i < inputs; i += step) {
    storeBits(c.send + i * bytes, bytes, inputBits(c.values, c.rank, i) ^ (planted && i == inputs / 2 ? 1 : 0));
  }
  if (!c.inPlace && at < kGuard) {
    c.recv[-1 - (int)at] = (char)0xa5;
    c.recv[c.outputs() * bytes + at] = (char)0xa5;
  }
}

__global__ void verify(Case c, const unsigned* salt, Finding* found) {
  int bytes = typeFacts(c.values.type).bytes;
  if (salt) c.values.seed += *salt;
  uint64_t at = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x, step = (uint64_t)gridDim.x * blockDim.x;
  uint64_t outputs = c.outputs(), inputs = c.hasInput() ? c.inputs() : 0;
  const char* recvEnd = c.recv + outputs * bytes;
  for (uint64_t i = at; i < outputs && c.hasOutput(); i += step) {
    int rank;
    uint64_t index = origin(c, i, &rank), got = loadBits(c.recv + i * bytes, bytes);
    Wanted wanted = {0, 0, 0};
    if (rank < 0) wanted = reduced(c.values, index);
    else wanted.bits = inputBits(c.values, rank, index);
    if (!isRight(c.values, got, wanted)) finding(found, c, 0, i, got, wanted.bits);
  }
  for (uint64_t i = at; i < outputs && !c.hasOutput() && !c.inPlace; i += step) {
    uint64_t got = loadBits(c.recv + i * bytes, bytes);
    if (got != lowBytes(kUntouched, bytes)) finding(found, c, 3, i, got, lowBytes(kUntouched, bytes));
  }
  for (uint64_t i = at; i < inputs; i += step) {
    const char* here = c.send + i * bytes;
    if (c.hasOutput() && here >= c.recv && here < recvEnd) continue;  // in place
    uint64_t got = loadBits(here, bytes), wanted = inputBits(c.values, c.rank, i);
    if (got != wanted) finding(found, c, 2, i, got, wanted);
  }
  if (!c.inPlace && at < kGuard) {
    unsigned char before = (unsigned char)c.recv[-1 - (int)at], behind = (unsigned char)recvEnd[at];
    if (before != 0xa5) finding(found, c, 1, ~at, before, 0xa5);
    if (behind != 0xa5) finding(found, c, 1, at, behind, 0xa5);
  }
}

// A grid for n elements.
static void gridFor(uint64_t n, unsigned* blocks, unsigned* threads) {
  *threads = n > 256 ? 128 : 64;
  uint64_t wanted = n / (*threads * 4) + 1;
  *blocks = (unsigned)(wanted > 2112 ? 2112 : wanted);
}

static void prepareCase(const Case& c, cudaStream_t stream, const unsigned* salt = NULL, bool planted = false) {
  unsigned blocks, threads;
  gridFor(c.inputs() + c.outputs(), &blocks, &threads);
  prepare<<<blocks, threads, 0, stream>>>(c, salt, planted);
}

static void verifyCase(const Case& c, Finding* found, cudaStream_t stream, const unsigned* salt = NULL) {
  unsigned blocks, threads;
  gridFor(c.outputs(), &blocks, &threads);
  verify<<<blocks, threads, 0, stream>>>(c, salt, found);
}

// The call itself. `op` is NCCL's handle of the operation.
static ncclResult_t callCase(const Case& c, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  ncclDataType_t type = (ncclDataType_t)c.values.type;
  const void* send = c.nulls && !c.hasInput() ? NULL : c.send;
  void* recv = c.nulls && !c.hasOutput() ? NULL : c.recv;
  switch (c.kind) {
    case kAllReduce: return ncclAllReduce(send, recv, c.count, type, op, comm, stream);
    case kReduceScatter: return ncclReduceScatter(send, recv, c.count, type, op, comm, stream);
    case kReduce: return ncclReduce(send, recv, c.count, type, op, c.root, comm, stream);
    case kAllGather: return ncclAllGather(send, recv, c.count, type, comm, stream);
    case kBroadcast: return ncclBroadcast(send, recv, c.count, type, c.root, comm, stream);
    case kBcast: return ncclBcast(recv, c.count, type, c.root, comm, stream);
    case kAlltoAll: return ncclAlltoAll(send, recv, c.count, type, comm, stream);
    case kGather: return ncclGather(send, recv, c.count, type, c.root, comm, stream);
    default: return ncclScatter(send, recv, c.count, type, c.root, comm, stream);
  }
}

static void describe(const Case& c, char* text, size_t bytes) {
  snprintf(text, bytes, "case %u: %s %s %s, count %llu, root %d, %s, %s", c.number, kindName(c.kind), typeFacts(c.values.type).name,
           opName(c.values.op), (unsigned long long)c.count, c.root, c.inPlace ? "in place" : "out of place", c.where);
}
