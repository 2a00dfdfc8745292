// What the programs of this folder share: each runs on NVIDIA's library and on ours, with either's headers, and checks itself.
//
//   TWICE_EXPECT(got, wanted)   counts a difference and says it
//   Word                        a result that a kernel leaves for the host
// The first line of a program says what it proves. Exit 0: right, 1: wrong, 77: this library cannot do it here (said on stderr).
#pragma once
#include "../../examples-c/common/example.h"

static int twiceWrong = 0;  // over all ranks of the process

template <typename A, typename B>
static void twiceExpect(const char* what, A got, B wanted, const char* file, int line) {
  if ((long long)got == (long long)wanted) return;
  if (__sync_fetch_and_add(&twiceWrong, 1) < 20) {
    fprintf(stderr, "%s:%d: %s: %lld (%#llx), expected %lld\n", file, line, what, (long long)got, (long long)got,
            (long long)wanted);
  }
}
#define TWICE_EXPECT(got, wanted) twiceExpect(#got, (got), (wanted), __FILE__, __LINE__)

// For a kernel's findings: the number of differences and the first one.
struct Found {
  unsigned wrong;
  unsigned line;
  unsigned long long got, wanted;
};

__device__ static inline void foundAt(Found* found, unsigned long long got, unsigned long long wanted, unsigned line) {
  if (got == wanted) return;
  if (atomicAdd(&found->wrong, 1u) == 0) {
    found->line = line;
    found->got = got;
    found->wanted = wanted;
  }
}
#define DEVICE_EXPECT(found, got, wanted) \
  foundAt(found, (unsigned long long)(got), (unsigned long long)(wanted), __LINE__)

static Found* foundNew() {
  Found* found;
  CUDACHECK(cudaMalloc(&found, sizeof(Found)));
  CUDACHECK(cudaMemset(found, 0, sizeof(Found)));
  return found;
}

// Waits for the stream, reports and frees.
static void foundReport(Example& ex, Found* found, const char* what) {
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  Found host;
  CUDACHECK(cudaMemcpy(&host, found, sizeof host, cudaMemcpyDeviceToHost));
  CUDACHECK(cudaFree(found));
  if (host.wrong == 0) return;
  __sync_fetch_and_add(&twiceWrong, (int)host.wrong);
  fprintf(stderr, "rank %d: %s: %u differences, the first at line %u: %#llx, expected %#llx\n", ex.rank, what, host.wrong,
          host.line, host.got, host.wanted);
}

static ncclDevCommRequirements noRequirements() {
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  return reqs;
}

// A device communicator, or exit 77 where this library has no GIN here.
static ncclDevComm devCommOf(Example& ex, const ncclDevCommRequirements& reqs) {
  ncclDevComm made;
  ncclResult_t result = ncclDevCommCreate(ex.comm, &reqs, &made);
  const char* why = ncclGetLastError(NULL);
  if (result == ncclInvalidUsage && why != NULL && strstr(why, "GIN not supported") != NULL) {
    fprintf(stderr, "not possible here: %s\n", why);
    exit(77);
  }
  if (result != ncclSuccess) {
    fprintf(stderr, "ncclDevCommCreate: %s: %s\n", ncclGetErrorString(result), why);
    exit(1);
  }
  return made;
}
