/* Preamble of the device compile tests. OURS adds what NVIDIA's headers cannot do; without it a file must compile against
 * both. Kernels are never launched: that they compile is the test. */
#ifndef HEADERS_DEVICE_H_
#define HEADERS_DEVICE_H_
/* T015: names that other headers give other meanings. */
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define ACCESS_ONCE(x) (x)
#include <nccl_device.h>

#include <type_traits>
#include <utility>

#define KERNEL(name) __global__ void name(ncclDevComm d, ncclWindow_t w, ncclSymPtr<float> p, ncclLLA2AHandle h, void** o)
#define UNUSED() (void)d, (void)w, (void)p, (void)h, (void)o

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

template <typename T>
struct Is {
  template <typename U>
  __device__ static void a(U const&) {
    static_assert(std::is_same<T, U>::value, "another type than expected");
  }
};
#endif
