/* ncclSymPtr<T>: a place in a window, good on every rank. C++, host and device; only the getters need a device. */
#ifndef _NCCL_DEVICE_PTR_H_
#define _NCCL_DEVICE_PTR_H_
#include <stddef.h>
#include <stdint.h>

#include "core.h"

#ifdef __cplusplus
/* Arithmetic is in elements of T, as for pointers; `offset` is in bytes. Converts to a ncclSymPtr of any type with the
 * same bytes. */
template <typename T>
struct ncclSymPtr {
  using ElementType = T;
  ncclWindow_t window;
  size_t offset;

  NCCL_HOST_DEVICE_INLINE constexpr ncclSymPtr(ncclWindow_t window = nullptr, size_t offset = 0)
      : window(window), offset(offset) {}
  template <typename U>
  NCCL_HOST_DEVICE_INLINE operator ncclSymPtr<U>() const {
    return ncclSymPtr<U>(window, offset);
  }

  /* One overload per integer type, so that other integers promote and floating point is refused. */
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator+=(int n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator+=(unsigned int n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator+=(long n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator+=(unsigned long n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator+=(long long n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator+=(unsigned long long n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator-=(int n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator-=(unsigned int n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator-=(long n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator-=(unsigned long n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator-=(long long n);
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator-=(unsigned long long n);

#if NCCL_CHECK_CUDACC
  /* Addresses of this place: in the caller's memory, in an LSA peer's, in a peer's by world rank or by rank in a team
   * (which must be an LSA peer too), and where a load or store reaches all members of a multicast team. */
  NCCL_DEVICE_INLINE T* localPtr(GINRS_CALLER_ALONE_DEFAULT) const;
  NCCL_DEVICE_INLINE T* lsaPtr(int lsaPeer GINRS_CALLER_DEFAULT) const;
  NCCL_DEVICE_INLINE T* peerPtr(int worldPeer GINRS_CALLER_DEFAULT) const;
  NCCL_DEVICE_INLINE T* peerPtr(ncclTeam team, int peer GINRS_CALLER_DEFAULT) const;
  NCCL_DEVICE_INLINE T* multimemPtr(ncclMultimemHandle multimem) const;
  NCCL_DEVICE_INLINE T* lsaMultimemPtr(ncclDevComm const& comm) const;
#endif
};

template <typename T, typename Int>
NCCL_HOST_DEVICE_INLINE ncclSymPtr<T> operator+(ncclSymPtr<T> p, Int n);
template <typename T, typename Int>
NCCL_HOST_DEVICE_INLINE ncclSymPtr<T> operator-(ncclSymPtr<T> p, Int n);
/* In elements; both must be of one window. */
template <typename T>
NCCL_HOST_DEVICE_INLINE ptrdiff_t operator-(ncclSymPtr<T> a, ncclSymPtr<T> b);
/* The same window and offset. */
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator==(ncclSymPtr<T> a, ncclSymPtr<T> b);
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator!=(ncclSymPtr<T> a, ncclSymPtr<T> b);
/* With a null window and offset 0, which NCCL's own ncclSymPtr cannot be compared with. */
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator==(ncclSymPtr<T> p, decltype(nullptr));
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator==(decltype(nullptr), ncclSymPtr<T> p);
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator!=(ncclSymPtr<T> p, decltype(nullptr));
template <typename T>
NCCL_HOST_DEVICE_INLINE bool operator!=(decltype(nullptr), ncclSymPtr<T> p);
#endif
#endif
