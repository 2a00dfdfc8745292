/* Bodies of ../ptr.h. */
#ifndef _NCCL_DEVICE_PTR__FUNCS_H_
#define _NCCL_DEVICE_PTR__FUNCS_H_
#include "comm__types.h"
#include "core__funcs.h"
#include "ptr__types.h"

#ifdef __cplusplus
/* size_t(n) of a negative n wraps, and so does the sum: the offset comes out right. */
#define GINRS_SYMPTR_STEP(Int)                                                    \
  template <typename T>                                                           \
  NCCL_HOST_DEVICE_INLINE ncclSymPtr<T>& ncclSymPtr<T>::operator+=(Int n) {       \
    offset += size_t(n) * sizeof(T);                                              \
    return *this;                                                                 \
  }                                                                               \
  template <typename T>                                                           \
  NCCL_HOST_DEVICE_INLINE ncclSymPtr<T>& ncclSymPtr<T>::operator-=(Int n) {       \
    offset -= size_t(n) * sizeof(T);                                              \
    return *this;                                                                 \
  }
GINRS_SYMPTR_STEP(int)
GINRS_SYMPTR_STEP(unsigned int)
GINRS_SYMPTR_STEP(long)
GINRS_SYMPTR_STEP(unsigned long)
GINRS_SYMPTR_STEP(long long)
GINRS_SYMPTR_STEP(unsigned long long)
#undef GINRS_SYMPTR_STEP

template <typename T, typename Int>
NCCL_HOST_DEVICE_INLINE ncclSymPtr<T> operator+(ncclSymPtr<T> p, Int n) {
  p += n;
  return p;
}
template <typename T, typename Int>
NCCL_HOST_DEVICE_INLINE ncclSymPtr<T> operator-(ncclSymPtr<T> p, Int n) {
  p -= n;
  return p;
}
template <typename T>
NCCL_HOST_DEVICE_INLINE ptrdiff_t operator-(ncclSymPtr<T> a, ncclSymPtr<T> b) {
  return ptrdiff_t(a.offset - b.offset) / ptrdiff_t(sizeof(T));
}
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator==(ncclSymPtr<T> a, ncclSymPtr<T> b) {
  return a.window == b.window && a.offset == b.offset;
}
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator!=(ncclSymPtr<T> a, ncclSymPtr<T> b) {
  return !(a == b);
}
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator==(ncclSymPtr<T> p, decltype(nullptr)) {
  return p == ncclSymPtr<T>();
}
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator==(decltype(nullptr), ncclSymPtr<T> p) {
  return p == ncclSymPtr<T>();
}
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator!=(ncclSymPtr<T> p, decltype(nullptr)) {
  return p != ncclSymPtr<T>();
}
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator!=(decltype(nullptr), ncclSymPtr<T> p) {
  return p != ncclSymPtr<T>();
}

#if NCCL_CHECK_CUDACC
template <typename T>
NCCL_DEVICE_INLINE T* ncclSymPtr<T>::localPtr(GINRS_CALLER_ALONE) const {
  return static_cast<T*>(ncclGetLocalPointer(window, offset GINRS_CALLER_PASSED));
}
template <typename T>
NCCL_DEVICE_INLINE T* ncclSymPtr<T>::lsaPtr(int lsaPeer GINRS_CALLER) const {
  return static_cast<T*>(ncclGetLsaPointer(window, offset, lsaPeer GINRS_CALLER_PASSED));
}
template <typename T>
NCCL_DEVICE_INLINE T* ncclSymPtr<T>::peerPtr(int worldPeer GINRS_CALLER) const {
  return static_cast<T*>(ncclGetPeerPointer(window, offset, worldPeer GINRS_CALLER_PASSED));
}
template <typename T>
NCCL_DEVICE_INLINE T* ncclSymPtr<T>::peerPtr(ncclTeam team, int peer GINRS_CALLER) const {
  return static_cast<T*>(ncclGetPeerPointer(window, offset, team, peer GINRS_CALLER_PASSED));
}
template <typename T>
NCCL_DEVICE_INLINE T* ncclSymPtr<T>::multimemPtr(ncclMultimemHandle multimem) const {
  return static_cast<T*>(ncclGetMultimemPointer(window, offset, multimem));
}
template <typename T>
NCCL_DEVICE_INLINE T* ncclSymPtr<T>::lsaMultimemPtr(ncclDevComm const& comm) const {
  return static_cast<T*>(ncclGetLsaMultimemPointer(window, offset, comm));
}
#endif
#endif
#endif
