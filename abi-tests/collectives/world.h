// What the tests of this folder have at hand on each rank: memory of every kind, handles of operations, findings.
#pragma once
#include "../twice/twice.h"
#include "case.h"

// COLL="sample=N seed=S big=COUNT largest=BYTES from=KIND planted=1 verbose=1": one case of N, the numbers, the largest count, the largest message,
// the first kind of collective (case.h) in a sweep;
// planted=1: one bit of one input of rank 0 is wrong, and the test has to fail; verbose=1: says where it is.
struct Plan {
  unsigned sample = 40, seed = 1;
  uint64_t big = 30011, largest = 1 << 20;
  int from = 0;
  bool planted = false, verbose = false;
};

static Plan planOf() {
  Plan plan;
  const char* text = getenv("COLL");
  auto number = [&](const char* name, uint64_t otherwise) {
    const char* at = text ? strstr(text, name) : NULL;
    return at && (at == text || at[-1] == ' ') ? strtoull(at + strlen(name), NULL, 0) : otherwise;
  };
  plan.sample = (unsigned)number("sample=", plan.sample);
  plan.seed = (unsigned)number("seed=", plan.seed);
  plan.big = number("big=", plan.big);
  plan.largest = number("largest=", plan.largest);
  plan.from = (int)number("from=", 0);
  plan.planted = number("planted=", 0) != 0;
  plan.verbose = number("verbose=", 0) != 0;
  return plan;
}

// Two halves, for inputs and results.
struct Memory {
  const char* name;
  char *send, *recv;
  size_t half;
  ncclWindow_t window = NULL;
  void* handle = NULL;
};

enum MemoryKind { kSymmetric, kWindow, kRegistered, kNcclMem, kPlain, kMemories };

static Memory memoryNew(Example& ex, int kind, size_t half) {
  static const char* const names[] = {"symmetric window", "window", "ncclCommRegister", "ncclMemAlloc", "cudaMalloc"};
  Memory m;
  m.name = names[kind];
  m.half = half = (half + 2 * 4096) & ~(size_t)4095;  // room for guards and odd starts
  if (kind == kPlain) {
    CUDACHECK(cudaMalloc(&m.send, 2 * half));
  } else {
    NCCLCHECK(ncclMemAlloc((void**)&m.send, 2 * half));
  }
  m.recv = m.send + half;
  if (kind == kSymmetric) NCCLCHECK(windowRegister(ex, m.send, 2 * half, &m.window));
  if (kind == kWindow) NCCLCHECK(windowRegister(ex, m.send, 2 * half, &m.window, NCCL_WIN_DEFAULT));
  if (kind == kRegistered) NCCLCHECK(ncclCommRegister(ex.comm, m.send, 2 * half, &m.handle));
  return m;
}

static void memoryGone(Example& ex, Memory& m, int kind) {
  if (m.window) NCCLCHECK(ncclCommWindowDeregister(ex.comm, m.window));
  if (m.handle) NCCLCHECK(ncclCommDeregister(ex.comm, m.handle));
  if (kind == kPlain) {
    CUDACHECK(cudaFree(m.send));
  } else {
    NCCLCHECK(ncclMemFree(m.send));
  }
}

// Pre-mul-sum operations of a communicator: for each type one with the factor in host memory, one with it in device memory.
struct Operations {
  ncclRedOp_t made[kTypes][2];
  char* factors;

  void create(Example& ex) {
    CUDACHECK(cudaMalloc(&factors, kTypes * 8));
    for (int type = 0; type < kTypes; type++) {
      TypeFacts t = typeFacts(type);
      uint64_t bits = lowBytes((uint64_t)factor(t, ex.rank), t.bytes);
      if (t.exponent) bits = encode(t, (double)factor(t, ex.rank));
      char* there = factors + type * 8;
      CUDACHECK(cudaMemcpyAsync(there, &bits, 8, cudaMemcpyHostToDevice, ex.stream));
      CUDACHECK(cudaStreamSynchronize(ex.stream));
      NCCLCHECK(ncclRedOpCreatePreMulSum(&made[type][0], &bits, (ncclDataType_t)type, ncclScalarHostImmediate, ex.comm));
      NCCLCHECK(ncclRedOpCreatePreMulSum(&made[type][1], there, (ncclDataType_t)type, ncclScalarDevice, ex.comm));
    }
  }
  ncclRedOp_t of(const Case& c) const { return c.values.op < kPreMul ? (ncclRedOp_t)c.values.op : made[c.values.type][c.number & 1]; }
  void destroy(Example& ex) {
    for (auto& both : made) {
      for (ncclRedOp_t op : both) NCCLCHECK(ncclRedOpDestroy(op, ex.comm));
    }
    CUDACHECK(cudaFree(factors));
  }
};

// Calls in one group, with those of all ranks where one thread drives them.
template <typename Call>
static void grouped(Example& ex, Call call) {
  if (oneThread == NULL) NCCLCHECK(ncclGroupStart());
  NCCLCHECK(collective(ex, call));
  if (oneThread == NULL) NCCLCHECK(ncclGroupEnd());
}

// All ranks begin and end their captures together: a thread that captures for one rank may not synchronise for another.
static void beginCapture(Example& ex, cudaStream_t stream) {
  finish(ex, stream);
  meet(ex, [] {});
  CUDACHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}
static cudaGraphExec_t endCapture(Example& ex, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDACHECK(cudaStreamEndCapture(stream, &graph));
  meet(ex, [] {});
  CUDACHECK(cudaGraphInstantiate(&exec, graph, 0));
  CUDACHECK(cudaGraphDestroy(graph));
  return exec;
}

// NVIDIA's kernels for symmetric windows give wrong results for elements of 1 and 2 bytes whose parts do not begin at multiples of
// some bytes.
static bool wrongOnNvidias(const Case& c, bool symmetric) { return symmetric && typeFacts(c.values.type).bytes < 4 && onNvidiasLibrary(); }

// Some case, by hash; of all kinds of collectives unless `kind` says which.
static Case someCase(Example& ex, uint64_t key, uint64_t largest, int kind = -1) {
  uint64_t hash = mix(key);
  auto digit = [&](unsigned base) { unsigned d = hash % base; hash /= base; return (int)d; };
  Case c = {};
  c.kind = kind < 0 ? digit(kKinds) : kind;
  c.values = {digit(kTypes), reduces(c.kind) ? digit(kOps) : (int)kMove, ex.nRanks, (unsigned)key};
  c.rank = ex.rank;
  c.root = digit(ex.nRanks);
  c.inPlace = digit(2) && c.kind != kAlltoAll;
  c.count = digit(2) ? digit(64) : digit((unsigned)largest);
  c.number = (unsigned)key;
  c.where = "some memory";
  return c;
}

// All of it for a test.
struct World {
  Plan plan = planOf();
  Memory memory[kMemories];
  Operations operations;
  Finding* found;
  std::vector<Case> cases;  // those that ran

  void create(Example& ex, size_t half) {
    for (int kind = 0; kind < kMemories; kind++) memory[kind] = memoryNew(ex, kind, half);
    operations.create(ex);
    CUDACHECK(cudaMalloc(&found, sizeof(Finding)));
    CUDACHECK(cudaMemsetAsync(found, 0, sizeof(Finding), ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    hostBarrier(ex);
  }

  // Place `slot` of `slots` in a kind of memory.
  void placeAt(Case& c, int kind, int slot, int slots) {
    Memory& m = memory[kind];
    size_t part = m.half / slots & ~(size_t)4095;
    c.where = m.name;
    if (wrongOnNvidias(c, kind == kSymmetric)) c.count &= ~15ull;
    place(c, m.send + slot * part + 256, m.recv + slot * part + 256);
  }

  // Waits for ex.stream; adds what was wrong to the program's count.
  void report(Example& ex, const char* what) {
    if (plan.verbose) printf("rank %d: %s up to %u\n", ex.rank, what, cases.empty() ? 0 : cases.back().number), fflush(stdout);
    finish(ex);  // a copy to pageable memory waits for the stream: not before every rank has launched
    Finding host;
    CUDACHECK(cudaMemcpyAsync(&host, found, sizeof host, cudaMemcpyDeviceToHost, ex.stream));
    CUDACHECK(cudaStreamSynchronize(ex.stream));
    for (const Case& c : cases) ex.elementsChecked += c.hasOutput() ? c.outputs() : 0, ex.bytesMoved += c.inputs() * typeFacts(c.values.type).bytes;
    if (host.wrong != 0) {
      char text[200];
      snprintf(text, sizeof text, "number %u", host.number);
      for (const Case& c : cases) {
        if (c.number == host.number) describe(c, text, sizeof text);
      }
      static const char* const parts[] = {"result", "byte around the result", "input afterwards", "buffer of a rank without result"};
      fprintf(stderr, "rank %d: %s: %u differences, the first in %s: %s %lld: %#llx, expected %#llx\n", ex.rank, what, host.wrong, text,
              parts[host.part], (long long)host.index, host.got, host.wanted);
      __sync_fetch_and_add(&twiceWrong, (int)(host.wrong > 1000 ? 1000 : host.wrong));
      CUDACHECK(cudaMemsetAsync(found, 0, sizeof(Finding), ex.stream));
      CUDACHECK(cudaStreamSynchronize(ex.stream));
    }
    cases.clear();
  }

  void destroy(Example& ex) {
    hostBarrier(ex);
    CUDACHECK(cudaFree(found));
    operations.destroy(ex);
    for (int kind = kMemories - 1; kind >= 0; kind--) memoryGone(ex, memory[kind], kind);
  }
};
