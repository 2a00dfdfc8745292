/* Bodies of ncclCoopBcast. */
#ifndef _NCCL_DEVICE_COOP__FUNCS_H_
#define _NCCL_DEVICE_COOP__FUNCS_H_
#include "../coop.h"
#if NCCL_CHECK_CUDACC

namespace ginrs {
/* Words of a value in flight. A union member of type T would ask for a trivial constructor. */
template <typename T>
struct Words {
  static constexpr int n = int((sizeof(T) + 3) / 4);
  uint32_t word[n];
  NCCL_DEVICE_INLINE explicit Words(T const& value) {
    word[n - 1] = 0;
    memcpy(word, &value, sizeof(T));
  }
  NCCL_DEVICE_INLINE T value() const {
    T result;
    memcpy(&result, word, sizeof(T));
    return result;
  }
};

/* Shuffle among the lanes of `mask` only: the other lanes of the warp need not call. The final syncwarp gives the
 * memory order that shuffles do not. */
template <typename T>
NCCL_DEVICE_INLINE T bcastLanes(uint32_t mask, T const& value, int rootLane) {
  Words<T> words(value);
#pragma unroll
  for (int i = 0; i < Words<T>::n; i++) words.word[i] = __shfl_sync(mask, words.word[i], rootLane);
  __syncwarp(mask);
  return words.value();
}

template <typename Coop, typename T>
NCCL_DEVICE_INLINE T bcastShared(Coop coop, T const& value, int root, bool entrySync, ulonglong2* stash) {
  static_assert(sizeof(T) <= sizeof(ulonglong2), "ncclCoopBcast: beyond one warp a value has at most 16 bytes");
  if (entrySync) coop.sync();
  if (coop.thread_rank() == root) memcpy(stash, &value, sizeof(T));
  coop.sync();
  T result;
  memcpy(&result, stash, sizeof(T));
  return result;
}
}  // namespace ginrs

NCCL_DEVICE_INLINE ulonglong2* ncclCoopBcast_WarpSpan_stash() {
  __shared__ ulonglong2 stash[15];
  return stash;
}
NCCL_DEVICE_INLINE ulonglong2* ncclCoopBcast_Cta_stash() {
  __shared__ ulonglong2 stash;
  return &stash;
}

template <int nThreads, typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopTile<nThreads> coop, T value, int root, bool) {
  if (nThreads == 1) return value;
  return ginrs::bcastLanes(coop.laneMask(), value, (nccl::utility::lane() & -nThreads) + root);
}
template <typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopLanes coop, T value, int root, bool) {
  uint32_t rest = coop.lmask;
  for (int i = 0; i < root; i++) rest &= rest - 1;
  return ginrs::bcastLanes(coop.lmask, value, __ffs(int(rest)) - 1);
}
template <typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopWarpSpan coop, T value, int root, bool entrySync) {
  return ginrs::bcastShared(coop, value, root, entrySync, &ncclCoopBcast_WarpSpan_stash()[coop.id]);
}
template <typename T>
NCCL_DEVICE_INLINE T ncclCoopBcast(ncclCoopCta coop, T value, int root, bool entrySync) {
  return ginrs::bcastShared(coop, value, root, entrySync, ncclCoopBcast_Cta_stash());
}

#endif
#endif
