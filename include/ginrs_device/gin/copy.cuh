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
GINRS_DEVICE_FUNCTION Unit loadUnit(char const* from) {
#ifdef __GINRS_CPU__
  Unit unit;
  memcpy(&unit, from, sizeof(Unit));
  return unit;
#else
  return *reinterpret_cast<Unit const*>(from);
#endif
}
template <typename Unit>
GINRS_DEVICE_FUNCTION void storeUnit(char* to, Unit unit) {
#ifdef __GINRS_CPU__
  memcpy(to, &unit, sizeof(Unit));
#else
  *reinterpret_cast<Unit*>(to) = unit;
#endif
}
template <typename Unit>
GINRS_DEVICE_FUNCTION void copyUnit(char* to, char const* from) {
  storeUnit(to, loadUnit<Unit>(from));
}

/* A thread's next `batch` units: all loads before all stores. Moves both addresses on. */
template <typename Unit, int batch>
GINRS_DEVICE_FUNCTION void copyBatch(char*& to, char const*& from, size_t step) {
  Unit units[batch];
#pragma unroll
  for (int u = 0; u < batch; u++, from += step) units[u] = loadUnit<Unit>(from);
#pragma unroll
  for (int u = 0; u < batch; u++, to += step) storeUnit(to, units[u]);
}

/* `count` units, thread `rank` of `n`; neighbouring threads take neighbouring units. Four under way per thread: eight would
 * take a put's kernel beyond 64 registers, and so out of blocks of 1024 threads. */
template <typename Unit>
GINRS_DEVICE_FUNCTION void copyUnits(char* to, char const* from, size_t count, int rank, int n) {
  size_t const step = size_t(n) * sizeof(Unit);
  to += rank * sizeof(Unit);
  from += rank * sizeof(Unit);
  size_t i = size_t(rank);
#pragma unroll 1
  for (; i + 3 * size_t(n) < count; i += 4 * size_t(n)) copyBatch<Unit, 4>(to, from, step);
  if (i + size_t(n) < count) {
    copyBatch<Unit, 2>(to, from, step);
    i += 2 * size_t(n);
  }
  if (i < count) copyBatch<Unit, 1>(to, from, step);
}

/* Up to three smaller units in front and behind, by one thread each, and the bulk between by all. */
template <typename Unit>
GINRS_DEVICE_FUNCTION void copyAligned(char* to, char const* from, size_t bytes, int rank, int n) {
  constexpr size_t size = sizeof(Unit);
  /* Every thread reckons, so that all agree where the bulk begins. */
  auto front = [&](auto unit) {
    using Small = decltype(unit);
    if (size <= sizeof(Small) || (reinterpret_cast<uintptr_t>(to) & sizeof(Small)) == 0 || bytes < sizeof(Small)) return;
    if (rank == 0) copyUnit<Small>(to, from);
    to += sizeof(Small);
    from += sizeof(Small);
    bytes -= sizeof(Small);
  };
  front(uint8_t());
  front(uint16_t());
  front(uint32_t());
  front(uint64_t());

  size_t const bulk = bytes & ~(size - 1);
  if (bulk != 0) copyUnits<Unit>(to, from, bulk / size, rank, n);
  if (rank != n - 1) return;
  to += bulk;
  from += bulk;
  auto back = [&](auto unit) {
    using Small = decltype(unit);
    if (size <= sizeof(Small) || (bytes & sizeof(Small)) == 0) return;
    copyUnit<Small>(to, from);
    to += sizeof(Small);
    from += sizeof(Small);
  };
  back(uint64_t());
  back(uint32_t());
  back(uint16_t());
  back(uint8_t());
}

/* Thread `rank` of `n`: its share of `bytes`, in the widest units that the addresses' distance allows: 16, 4, or 1. */
GINRS_DEVICE_FUNCTION void copyBytes(char* to, char const* from, size_t bytes, int rank, int n) {
  uintptr_t const a = reinterpret_cast<uintptr_t>(to), b = reinterpret_cast<uintptr_t>(from), distance = a ^ b;
  if ((a | b | bytes) % 8 == 0 && bytes <= size_t(n) * 8) { /* one unit each: small puts are all latency */
    if (size_t(rank) * 8 < bytes) copyUnit<uint64_t>(to + size_t(rank) * 8, from + size_t(rank) * 8);
  } else if (distance % 16 == 0) {
    copyAligned<uint4>(to, from, bytes, rank, n);
  } else if (distance % 4 == 0) {
    copyAligned<uint32_t>(to, from, bytes, rank, n);
  } else {
    copyAligned<uint8_t>(to, from, bytes, rank, n);
  }
}

/* Up to 8 bytes from registers, at any alignment. */
GINRS_DEVICE_FUNCTION void storeBits(char* to, uint64_t bits, size_t bytes) {
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
