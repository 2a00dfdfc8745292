/* Preamble of the compile matrix' device code, which is compiled and never launched. */
#ifndef MATRIX_CASE_H_
#define MATRIX_CASE_H_
#include "choose.h"

#include <nccl_device.h>

#include <type_traits>
#include <utility>

#define KERNEL(name) __global__ void name(ncclDevComm d, ncclWindow_t w, ncclSymPtr<float> p, ncclLLA2AHandle h, void** o)
#define UNUSED() (void)d, (void)w, (void)p, (void)h, (void)o
/* The body of a KERNEL that has a ncclGin and the world's team. */
#define GIN_KERNEL(name)                                                                             \
  __device__ void name##Body(ncclDevComm const& d, ncclWindow_t w, ncclSymPtr<float> p, void** o,    \
                             ncclGin const& g, ncclTeam W);                                          \
  KERNEL(name) {                                                                                     \
    (void)h;                                                                                         \
    ncclGin g{d, 0};                                                                                 \
    name##Body(d, w, p, o, g, ncclTeamWorld(d));                                                     \
  }                                                                                                  \
  __device__ void name##Body([[maybe_unused]] ncclDevComm const& d, [[maybe_unused]] ncclWindow_t w, \
                             [[maybe_unused]] ncclSymPtr<float> p, [[maybe_unused]] void** o,        \
                             [[maybe_unused]] ncclGin const& g, [[maybe_unused]] ncclTeam W)

/* A group that has only what the concept asks for. */
struct UserCoop {
  int n;
  __device__ int thread_rank() const {
    return int(threadIdx.x);
  }
  __device__ int size() const {
    return n;
  }
  __device__ void sync() {
    __syncthreads();
  }
};

/* Is the expression's type T? */
template <typename T, typename U>
__device__ void isA(U const&) {
  static_assert(std::is_same<T, U>::value, "another type than expected");
}
#endif
