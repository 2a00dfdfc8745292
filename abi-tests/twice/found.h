// What a kernel finds wrong.
#pragma once

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
