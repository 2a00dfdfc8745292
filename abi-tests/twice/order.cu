// A signal is never ahead of what was put before it: all ranks stamp all others, thousands of times, each way that there is to
// put a stamp, with the signal in the same operation and behind it; whoever has waited must find the stamp.
#include "twice.h"

enum Way { kValue8, kValue4, kValue2, kPut8, kPut4K, kWays };
static const char* kNames[] = {"putValue of 8 bytes", "putValue of 4 bytes", "putValue of 2 bytes", "put of 8 bytes", "put of 4 KB"};
static const size_t kSlot = 4096;  // bytes of each source at each target

// The first half of the window is where stamps arrive, the second where they are sent from.
__global__ void stamp(ncclDevComm devComm, ncclWindow_t window, int way, int behind, int rounds, uint64_t before,
                      Found* found) {
  ncclGin gin(devComm, way % devComm.ginContextCount);
  ncclTeam world = ncclTeamWorld(devComm);
  int n = world.nRanks, peer = threadIdx.x / 32, lane = threadIdx.x % 32;
  size_t there = world.rank * kSlot, source = (n + peer) * kSlot;
  volatile uint64_t* from = (volatile uint64_t*)ncclGetLocalPointer(window, source);
  volatile uint64_t* got = (volatile uint64_t*)ncclGetLocalPointer(window, peer * kSlot);
  for (int round = 1; round <= rounds; round++) {
    uint64_t value = (uint64_t)round * 0x10001 + way;
    for (int i = lane; i < (int)(kSlot / 8); i += 32) from[i] = value + i;
    ncclCoopWarp warp;
    warp.sync();
    if (lane == 0) {
      ncclGin_SignalInc signal{0};
      switch (way * 2 + behind) {
        case kValue8 * 2: gin.putValue(world, peer, window, there, value, signal); break;
        case kValue4 * 2: gin.putValue(world, peer, window, there, (uint32_t)value, signal); break;
        case kValue2 * 2: gin.putValue(world, peer, window, there, (uint16_t)value, signal); break;
        case kPut8 * 2: gin.put(world, peer, window, there, window, source, 8, signal); break;
        case kPut4K * 2: gin.put(world, peer, window, there, window, source, kSlot, signal); break;
        case kValue8 * 2 + 1: gin.putValue(world, peer, window, there, value); break;
        case kValue4 * 2 + 1: gin.putValue(world, peer, window, there, (uint32_t)value); break;
        case kValue2 * 2 + 1: gin.putValue(world, peer, window, there, (uint16_t)value); break;
        case kPut8 * 2 + 1: gin.put(world, peer, window, there, window, source, 8); break;
        case kPut4K * 2 + 1: gin.put(world, peer, window, there, window, source, kSlot); break;
      }
      if (behind) gin.signal(world, peer, signal);
    }
    ncclCoopCta cta;
    gin.waitSignal(cta, 0, before + (uint64_t)round * n);
    uint64_t mask = way == kValue4 ? 0xffffffff : way == kValue2 ? 0xffff : ~0ull;
    int words = way == kPut4K ? (int)(kSlot / 8) : 1;
    for (int i = lane; i < words; i += 32) DEVICE_EXPECT(found, got[i] & mask, (value + i) & mask);
    cta.sync();
    // Everybody has looked before the next stamp may come, and the sources may be written again.
    if (lane == 0) gin.signal(world, peer, ncclGin_SignalInc{1});
    gin.waitSignal(cta, 1, before + (uint64_t)round * n);
    gin.flush(cta);
  }
}

int test(Example& ex) {
  if (!ginHere(ex)) return kNotHere;
  const char* said = getenv("ORDER_ROUNDS");
  int rounds = said ? atoi(said) : 200;
  ncclWindow_t window;
  void* memory = windowNew(ex, 2 * ex.nRanks * kSlot, &window);
  ncclDevCommRequirements reqs = noRequirements();
  reqs.ginSignalCount = 2;
  ncclDevComm devComm = devCommOf(ex, reqs);
  for (int way = 0; way < kWays; way++) {
    for (int behind = 0; behind < 2; behind++) {
      // What both signals of the way's context have grown to.
      uint64_t before = (uint64_t)(way / devComm.ginContextCount * 2 + behind) * rounds * ex.nRanks;
      Found* found = foundNew(ex);
      stamp<<<1, 32 * ex.nRanks, 0, ex.stream>>>(devComm, window, way, behind, rounds, before, found);
      foundReport(ex, found, kNames[way]);
    }
  }
  devCommGone(ex, devComm);
  hostBarrier(ex);
  windowGone(ex, memory, window);
  ex.elementsChecked = (size_t)rounds * ex.nRanks * 2 * (kWays + kSlot / 8);
  return twiceWrong != 0;
}
