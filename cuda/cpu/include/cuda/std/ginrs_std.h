/* cuda::std is the host's std: kernels run where it runs. */
#ifndef GINRS_CPU_CUDA_STD_H_
#define GINRS_CPU_CUDA_STD_H_
/* What NVIDIA's <cuda/atomic> and <cooperative_groups.h> bring along of the host's library: programs lean on it. */
#include <cassert>
#include <cfloat>
#include <chrono>
#include <climits>
#include <cstddef>
#include <ctime>
#include <iterator>
#include <ratio>
#include <stdexcept>
#include <system_error>
namespace cuda {
namespace std {
using namespace ::std;
}
}  // namespace cuda
#endif
