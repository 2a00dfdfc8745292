// What a GPU leaves undefined, or hangs at, is told: each case is a process of its own that fails with a line that names it.
// A GPU says nothing of the kind, so there is nothing to run there.
#include "check.h"
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

extern __shared__ __align__(128) unsigned char dynamic[];

__device__ uint32_t narrow(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ void init(uint64_t* b, uint32_t count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(narrow(b)), "r"(count) : "memory"); }
__device__ void arrive(uint64_t* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(narrow(b)) : "memory"); }
__device__ void await(uint64_t* b, uint32_t parity) {
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra W; }" ::"r"(narrow(b)), "r"(parity) : "memory");
}
__device__ bool look(uint64_t* b, uint32_t parity) {
  uint32_t yes;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(yes) : "r"(narrow(b)), "r"(parity) : "memory");
  return yes;
}
__device__ void load(void* to, const void* from, uint64_t* b, uint32_t bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(narrow(to)), "l"(from), "r"(bytes), "r"(narrow(b)) : "memory");
}

enum Fault {
  kNotInitialised, kLeftOver, kInvalidated, kWrittenOver, kCountZero, kTooMany, kMisaligned, kTarget, kSource, kSize, kBeyond, kDeadlock, kDeadlockBytes, kDeadlockLoop,
  kNoAddress, kParity, kFaults
};
// Expected words of the message; the first launch leaves an mbarrier behind for the second.
static const char* const told[kFaults] = {
    "there is no mbarrier: it was not initialised in this block", "there is no mbarrier: it was not initialised in this block", "or has been invalidated",
    "the mbarrier's memory was written over", "a count of 0", "3 arrivals where the phase lacks 1 of 2", "an mbarrier at 0x", "cp.async.bulk: destination 0x",
    "cp.async.bulk: source 0x", "cp.async.bulk: size 0x18 is no multiple of 16", "cp.async.bulk: 128 bytes at byte 960 of dynamic shared memory, which has 1024",
    "mbarrier.try_wait at", "0 of 1 arrivals and 48 bytes are missing", "1 of 2 arrivals and 0 bytes are missing", "0x10 at", "a parity of 2"};

__global__ void leave() {
  __shared__ uint64_t left;
  init(&left, 1);
}
__global__ void commit(Fault fault, const char* memory) {
  __shared__ uint64_t bar[2], never;
  const uint32_t count = fault == kTooMany || fault == kDeadlockLoop || fault == kDeadlock ? 2 : 1;
  if (threadIdx.x == 0 && fault != kNotInitialised && fault != kLeftOver) init(bar, fault == kCountZero ? 0 : count);
  __syncthreads();
  if (threadIdx.x != 0) return;
  switch (fault) {
    case kNotInitialised: return arrive(&never);
    case kLeftOver: return arrive(bar);
    case kInvalidated: asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(narrow(bar)) : "memory"); return arrive(bar);
    case kWrittenOver: *(volatile uint64_t*)bar = 7; return arrive(bar);
    case kTooMany: asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 1;" ::"r"(narrow(bar)) : "memory"); asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 3;" ::"r"(narrow(bar)) : "memory"); return;
    case kMisaligned: return init((uint64_t*)((char*)bar + 4), 1);
    case kTarget: return load(dynamic + 8, memory, bar, 16);
    case kSource: return load(dynamic, memory + 4, bar, 16);
    case kSize: return load(dynamic, memory, bar, 24);
    case kBeyond: return load(dynamic + 960, memory, bar, 128);
    case kDeadlock: arrive(bar); return await(bar, 0);
    case kDeadlockBytes:
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(narrow(bar)), "r"(64) : "memory");
      load(dynamic, memory, bar, 16);
      return await(bar, 0);
    case kDeadlockLoop: arrive(bar); while (!look(bar, 0)) {} return;
    case kNoAddress: { uint32_t v; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(16)); if (v == 1) printf(" "); return; }
    case kParity: return await(bar, 2);
    default: return;
  }
}

#ifdef __GINRS_CPU__
static void inProcess(int fault) {
  char* memory;
  CUDA(cudaMalloc(&memory, 4096));
  if (fault == kLeftOver) leave<<<1, 1>>>();
  commit<<<1, 32, 1024>>>((Fault)fault, memory);
  _exit(cudaDeviceSynchronize() == cudaErrorLaunchFailure ? 0 : 1);
}
#endif

int main(int argc, char** argv) {
#ifdef __GINRS_CPU__
  if (argc > 1) inProcess(atoi(argv[1])); // one case alone, by its number
#endif
  int wrong = 0;
#ifdef __GINRS_CPU__
  // All at once: one of them takes 5 s to be sure.
  int pipes[kFaults][2], children[kFaults];
  for (int fault = 0; fault < kFaults; fault++) {
    if (pipe(pipes[fault])) return 2;
    if ((children[fault] = fork()) == 0) {
      alarm(120);
      dup2(pipes[fault][1], 2);
      inProcess(fault);
    }
    close(pipes[fault][1]);
  }
  for (int fault = 0; fault < kFaults; fault++) {
    std::string said;
    char part[4096];
    for (ssize_t n; (n = read(pipes[fault][0], part, sizeof part)) > 0;) said.append(part, n);
    int status = -1;
    waitpid(children[fault], &status, 0);
    if (status == 0 && said.find(told[fault]) != std::string::npos && said.find("asynchronous_faults.cu:") != std::string::npos) continue;
    printf("fault %d: status %x, was to say '%s', said\n%s\n", fault, status, told[fault], said.c_str());
    wrong++;
  }
#endif
  if (wrong == 0) printf("asynchronous_faults: ok\n");
  return wrong;
}
