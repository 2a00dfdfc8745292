// Windows: over whole allocations and parts of them, many at once, gone and back; found by address; reached by every kind
// of pointer; and what is refused has the reference's codes.
#include "twice.h"

static const size_t kBytes = 4 << 20;
static const int kMany = 40;  // more than a page of the window table holds

// Each rank writes its mark into all peers' windows; then looks at its own.
__global__ void mark(ncclWindow_t window, ncclDevComm devComm, size_t at) {
  int peer = threadIdx.x;
  if (peer >= devComm.lsaSize) return;
  unsigned* there = (unsigned*)ncclGetLsaPointer(window, at, peer);
  there[devComm.lsaRank] = 0xab00u + devComm.lsaRank;
}

__global__ void check(ncclWindow_t window, ncclDevComm devComm, size_t at, Found* found) {
  unsigned* mine = (unsigned*)ncclGetLocalPointer(window, at);
  int peer = threadIdx.x;
  if (peer >= devComm.lsaSize) return;
  DEVICE_EXPECT(found, mine[peer], 0xab00u + peer);
  unsigned* theirs = (unsigned*)ncclGetLsaPointer(window, at, peer);
  DEVICE_EXPECT(found, theirs[devComm.lsaRank], 0xab00u + devComm.lsaRank);
  ncclTeam lsa = ncclTeamLsa(devComm);
  DEVICE_EXPECT(found, ncclGetPeerPointer(window, at, lsa, peer), theirs);
  DEVICE_EXPECT(found, ncclGetPeerPointer(window, at, ncclTeamRankToWorld(devComm, lsa, peer)), theirs);
  ncclSymPtr<unsigned> sym(window, at);
  DEVICE_EXPECT(found, (sym + 1).lsaPtr(peer), theirs + 1);
  DEVICE_EXPECT(found, sym.peerPtr(lsa, peer), theirs);
  DEVICE_EXPECT(found, sym.localPtr(), mine);
}

__global__ void find(ncclDevComm devComm, const char* inside, ncclWindow_t wanted, Found* found) {
  ncclWindow_t got = ncclFindWindow(ncclCoopCta(), devComm, inside);
  DEVICE_EXPECT(found, got, wanted);
}

static void exchange(Example& ex, ncclDevComm& devComm, ncclWindow_t window, size_t at, const char* what) {
  mark<<<1, 32, 0, ex.stream>>>(window, devComm, at);
  finish(ex);
  hostBarrier(ex);
  Found* found = foundNew(ex);
  check<<<1, 32, 0, ex.stream>>>(window, devComm, at, found);
  foundReport(ex, found, what);
}

static void foundByAddress(Example& ex, ncclDevComm& devComm, const void* inside, ncclWindow_t window, const char* what) {
  Found* found = foundNew(ex);
  find<<<1, 32, 0, ex.stream>>>(devComm, (const char*)inside, window, found);
  foundReport(ex, found, what);
}

// What is refused, and how.
static void refusals(Example& ex, char* memory) {
  ncclWindow_t none = NULL;
  TWICE_EXPECT(windowRegister(ex, memory + 100, 4096, &none), ncclInvalidArgument);
  TWICE_EXPECT((size_t)none, 0);
  TWICE_EXPECT(windowRegister(ex, NULL, 4096, &none), ncclSuccess);
  TWICE_EXPECT(windowRegister(ex, memory, 0, &none), ncclSuccess);
  TWICE_EXPECT((size_t)none, 0);
  TWICE_EXPECT(ncclCommWindowDeregister(ex.comm, NULL), ncclSuccess);
}

int test(Example& ex) {
  ncclDevComm devComm = devCommOf(ex, noRequirements());
  char* memory;
  NCCLCHECK(ncclMemAlloc((void**)&memory, kBytes));
  CUDACHECK(cudaMemsetAsync(memory, 0, kBytes, ex.stream));
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  ncclWindow_t whole, part, tail;
  NCCLCHECK(windowRegister(ex, memory, kBytes, &whole));
  exchange(ex, devComm, whole, 0, "whole window");
  exchange(ex, devComm, whole, kBytes - 4096, "end of the window");
  NCCLCHECK(windowRegister(ex, memory + 12288, 100, &part));
  NCCLCHECK(windowRegister(ex, memory + (3 << 20), 1 << 20, &tail, NCCL_WIN_DEFAULT));
  exchange(ex, devComm, part, 0, "a part");
  exchange(ex, devComm, tail, 4096, "a part without flags");
  foundByAddress(ex, devComm, memory + 5, whole, "lowest entry of overlapping windows");

  NCCLCHECK(ncclCommWindowDeregister(ex.comm, whole));
  foundByAddress(ex, devComm, memory + 12288 + 99, part, "last byte of a part");
  foundByAddress(ex, devComm, memory + (4 << 20) - 1, tail, "last byte of the tail");
  exchange(ex, devComm, part, 0, "a part after the whole has gone");
  NCCLCHECK(ncclCommWindowDeregister(ex.comm, tail));
  hostBarrier(ex);
  NCCLCHECK(windowRegister(ex, memory, kBytes, &whole));
  exchange(ex, devComm, whole, 65536, "the whole again");

  std::vector<char*> many(kMany);
  std::vector<ncclWindow_t> windows(kMany);
  for (int i = 0; i < kMany; i++) {
    NCCLCHECK(ncclMemAlloc((void**)&many[i], 1 + i * 70000));
    NCCLCHECK(windowRegister(ex, many[i], 1 + i * 70000, &windows[i]));
  }
  for (int i = 1; i < kMany; i += 13) exchange(ex, devComm, windows[i], 0, "one of many");
  foundByAddress(ex, devComm, many[kMany - 1] + 1000, windows[kMany - 1], "on the table's second page");
  hostBarrier(ex);
  for (int i = 0; i < kMany; i++) {
    NCCLCHECK(ncclCommWindowDeregister(ex.comm, windows[i]));
    NCCLCHECK(ncclMemFree(many[i]));
  }
  if (mayProvokeErrors()) refusals(ex, memory);

  NCCLCHECK(ncclCommWindowDeregister(ex.comm, part));
  NCCLCHECK(ncclCommWindowDeregister(ex.comm, whole));
  NCCLCHECK(ncclMemFree(memory));
  devCommGone(ex, devComm);
  ex.bytesMoved = kBytes;
  ex.elementsChecked = 12;
  return twiceWrong != 0;
}
