/* PTX of asynchronous copies: 32-bit addresses of shared memory, mbarriers, bulk copies, elect.sync. A copy here is over when the
 * instruction is, so groups of copies are always complete; an mbarrier counts their bytes as on a GPU. */
#ifndef GINRS_CPU_ASYNC_H_
#define GINRS_CPU_ASYNC_H_
#include <cstdint>
#include <cstdio>
#include <cstring>
#include "thread.h"

namespace ginrs_cpu {
namespace ptx {
/* [base + offset] of shared memory: an address as above, or a generic pointer, which GPUs take as well. */
template <class B>
inline char* shared(const B& base, long long offset, const char* file, int line) {
  static_assert(sizeof(B) == 8 || sizeof(B) == 4, "an address of shared memory needs an operand of 32 or 64 bits");
  if constexpr (sizeof(B) == 4) {
    return static_cast<char*>(ginrs_cpu_shared_pointer(bits_as<uint32_t>(base), file, line)) + offset;
  } else {
    const uint64_t value = bits_as<uint64_t>(base);
    if (value >> 32 != 0) return reinterpret_cast<char*>(value) + offset;
    return static_cast<char*>(ginrs_cpu_shared_pointer(static_cast<uint32_t>(value), file, line)) + offset;
  }
}
inline uint64_t to_shared(const void* p, const char* file, int line) {
  return reinterpret_cast<uint64_t>(p) >> 32 != 0 ? ginrs_cpu_shared_address(p, file, line) : reinterpret_cast<uint64_t>(p);
}
inline uint64_t from_shared(uint64_t address, const char* file, int line) {
  return reinterpret_cast<uint64_t>(shared(address, 0, file, line));
}

/* The lane that speaks for the lanes of `mask`, which all meet here: the lowest. */
inline uint32_t elect(uint32_t mask, bool& me, const char* file, int line) {
  ginrs_cpu_warp_sync(mask, "elect.sync", file, line);
  const uint32_t leader = static_cast<uint32_t>(__builtin_ctz(mask));
  me = ginrs_cpu_self->lane == leader;
  return leader;
}

[[noreturn]] inline void refuse_copy(const char* what, const char* wrong, unsigned long long value, unsigned long long unit,
                                     const char* file, int line) {
  char message[256];
  std::snprintf(message, sizeof message, "%s: %s %#llx is no multiple of %llu", what, wrong, value, unit);
  ginrs_cpu_trap(message, file, line);
}
inline void check_copy(const char* what, const void* to, const void* from, uint32_t bytes, unsigned unit, const char* file,
                       int line) {
  const uintptr_t target = reinterpret_cast<uintptr_t>(to), source = reinterpret_cast<uintptr_t>(from);
  if (target % unit) refuse_copy(what, "destination", target, unit, file, line);
  if (source % unit) refuse_copy(what, "source", source, unit, file, line);
  if (bytes % unit) refuse_copy(what, "size", bytes, unit, file, line);
}
/* An end that lies in the block's dynamic shared memory must lie there whole. */
inline void check_shared(const char* what, const char* p, uint32_t bytes, const char* file, int line) {
  const size_t has = ginrs_cpu_self->dynamicSharedBytes;
  if (has == 0) return;
  const size_t offset = static_cast<size_t>(p - static_cast<const char*>(ginrs_cpu_dynamic_shared()));
  if (offset >= has || bytes <= has - offset) return;
  char message[256];
  std::snprintf(message, sizeof message, "%s: %u bytes at byte %zu of dynamic shared memory, which has %zu", what, bytes, offset,
                has);
  ginrs_cpu_trap(message, file, line);
}

/* cp.async.bulk into shared memory: the mbarrier counts the bytes. */
inline void bulk_load(char* to, const char* from, uint32_t bytes, char* mbarrier, const char* file, int line) {
  check_copy("cp.async.bulk", to, from, bytes, 16, file, line);
  check_shared("cp.async.bulk", to, bytes, file, line);
  std::memcpy(to, from, bytes);
  ginrs_cpu_mbarrier_bytes(mbarrier, -static_cast<int64_t>(bytes), "cp.async.bulk", file, line);
}
/* cp.async.bulk out of it. */
inline void bulk_store(char* to, const char* from, uint32_t bytes, const char* file, int line) {
  check_copy("cp.async.bulk", to, from, bytes, 16, file, line);
  check_shared("cp.async.bulk", from, bytes, file, line);
  std::memcpy(to, from, bytes);
}
/* cp.reduce.async.bulk: `update` is the atomic of one element. */
template <class T, class Update>
inline void bulk_reduce(char* to, const char* from, uint32_t bytes, Update update, const char* file, int line) {
  check_copy("cp.reduce.async.bulk", to, from, bytes, 16, file, line);
  check_shared("cp.reduce.async.bulk", from, bytes, file, line);
  for (uint32_t at = 0; at < bytes; at += sizeof(T)) {
    T value;
    std::memcpy(&value, from + at, sizeof value);
    update(to + at, value);
  }
}
/* cp.async: `bytes` are written, of which the first `given` come from memory and the rest are 0. */
inline void copy_async(char* to, const char* from, uint32_t bytes, uint32_t given, const char* file, int line) {
  check_copy("cp.async", to, from, 0, bytes, file, line);
  if (given > bytes) given = bytes;
  std::memcpy(to, from, given);
  std::memset(to + given, 0, bytes - given);
}
inline void bulk_clear(char* to, uint64_t bytes, const char* file, int line) {
  check_copy("st.bulk", to, nullptr, static_cast<uint32_t>(bytes), 8, file, line);
  std::memset(to, 0, bytes);
}
}  // namespace ptx
}  // namespace ginrs_cpu
#endif
