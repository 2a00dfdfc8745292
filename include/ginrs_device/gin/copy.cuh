/* Moves bytes by all threads of a group, from this GPU's memory to a peer's. Fills the link by having many 16-byte words
 * under way per thread: a load that waits for each store's address would move one at a time. */
#ifndef GINRS_DEVICE_GIN_COPY_CUH_
#define GINRS_DEVICE_GIN_COPY_CUH_
#include "../order.cuh"
#if NCCL_CHECK_CUDACC

namespace ginrs {
namespace gin {

/* At an address that is aligned to the unit. A CPU's compiler minds that the bytes are really somebody's floats. */
template <typename Unit>
NCCL_DEVICE_INLINE Unit loadUnit(char const* from) {
#ifdef __GINRS_CPU__
  Unit unit;
  memcpy(&unit, from, sizeof(Unit));
  return unit;
#else
  return *reinterpret_cast<Unit const*>(from);
#endif
}
template <typename Unit>
NCCL_DEVICE_INLINE void storeUnit(char* to, Unit unit) {
#ifdef __GINRS_CPU__
  memcpy(to, &unit, sizeof(Unit));
#else
  *reinterpret_cast<Unit*>(to) = unit;
#endif
}
template <typename Unit>
NCCL_DEVICE_INLINE void copyUnit(char* to, char const* from) {
  storeUnit(to, loadUnit<Unit>(from));
}

/* `count` units, thread `rank` of `n`. Neighbouring threads take neighbouring units. */
template <typename Unit>
NCCL_DEVICE_INLINE void copyUnits(char* to, char const* from, size_t count, int rank, int n) {
  constexpr int inFlight = 8;
  constexpr size_t size = sizeof(Unit);
  size_t const step = size_t(n);
  Unit units[inFlight];
  size_t i = size_t(rank);
#pragma unroll 1
  for (; i + (inFlight - 1) * step < count; i += inFlight * step) {
#pragma unroll
    for (int u = 0; u < inFlight; u++) units[u] = loadUnit<Unit>(from + (i + u * step) * size);
#pragma unroll
    for (int u = 0; u < inFlight; u++) storeUnit(to + (i + u * step) * size, units[u]);
  }
  if (i >= count) return;
#pragma unroll
  for (int u = 0; u < inFlight; u++) {
    if (i + u * step < count) units[u] = loadUnit<Unit>(from + (i + u * step) * size);
  }
#pragma unroll
  for (int u = 0; u < inFlight; u++) {
    if (i + u * step < count) storeUnit(to + (i + u * step) * size, units[u]);
  }
}

/* The whole of it in units of `Unit`, which both addresses have the same distance to a multiple of: up to four smaller
 * units in front and behind, by one thread each, and the bulk between by all. */
template <typename Unit>
NCCL_DEVICE_INLINE void copyAligned(char* to, char const* from, size_t bytes, int rank, int n) {
  constexpr size_t size = sizeof(Unit);
  bool const isFirst = rank == 0, isLast = rank == n - 1;
  uintptr_t const address = reinterpret_cast<uintptr_t>(to);
  size_t at = 0;
  /* Every thread reckons, so that all agree where the bulk begins. */
  if (size > 1 && (address & 1) != 0 && bytes - at >= 1) {
    if (isFirst) copyUnit<uint8_t>(to + at, from + at);
    at += 1;
  }
  if (size > 2 && ((address + at) & 2) != 0 && bytes - at >= 2) {
    if (isFirst) copyUnit<uint16_t>(to + at, from + at);
    at += 2;
  }
  if (size > 4 && ((address + at) & 4) != 0 && bytes - at >= 4) {
    if (isFirst) copyUnit<uint32_t>(to + at, from + at);
    at += 4;
  }
  if (size > 8 && ((address + at) & 8) != 0 && bytes - at >= 8) {
    if (isFirst) copyUnit<uint64_t>(to + at, from + at);
    at += 8;
  }
  size_t const count = (bytes - at) / size;
  if (count != 0) copyUnits<Unit>(to + at, from + at, count, rank, n);
  at += count * size;
  if (!isLast) return;
  size_t const rest = bytes - at; /* less than a unit */
  if (size > 8 && (rest & 8) != 0) copyUnit<uint64_t>(to + at, from + at), at += 8;
  if (size > 4 && (rest & 4) != 0) copyUnit<uint32_t>(to + at, from + at), at += 4;
  if (size > 2 && (rest & 2) != 0) copyUnit<uint16_t>(to + at, from + at), at += 2;
  if (size > 1 && (rest & 1) != 0) copyUnit<uint8_t>(to + at, from + at);
}

/* Thread `rank` of `n`: its share of `bytes`. The widest unit is what the addresses' distance allows. Not inlined: it is
 * long, and a call costs little beside a store to a peer. */
template <typename = void>
GINRS_DEVICE_NOINLINE void copyBytes(char* to, char const* from, size_t bytes, int rank, int n) {
  uintptr_t const distance = reinterpret_cast<uintptr_t>(to) ^ reinterpret_cast<uintptr_t>(from);
  if (distance % 16 == 0) {
    copyAligned<uint4>(to, from, bytes, rank, n);
  } else if (distance % 8 == 0) {
    copyAligned<uint64_t>(to, from, bytes, rank, n);
  } else if (distance % 4 == 0) {
    copyAligned<uint32_t>(to, from, bytes, rank, n);
  } else if (distance % 2 == 0) {
    copyAligned<uint16_t>(to, from, bytes, rank, n);
  } else {
    copyAligned<uint8_t>(to, from, bytes, rank, n);
  }
}

/* Up to 8 bytes from registers, at any alignment. */
NCCL_DEVICE_INLINE void storeBits(char* to, uint64_t bits, size_t bytes) {
  uintptr_t const misaligned = reinterpret_cast<uintptr_t>(to) & (bytes - 1);
  if (bytes == 8 && misaligned == 0) {
    storeUnit(to, bits);
  } else if (bytes == 4 && misaligned == 0) {
    storeUnit(to, uint32_t(bits));
  } else if (bytes == 2 && misaligned == 0) {
    storeUnit(to, uint16_t(bits));
  } else {
    for (size_t i = 0; i < bytes; i++) to[i] = char(bits >> 8 * i);
  }
}

}  // namespace gin
}  // namespace ginrs
#endif
#endif
