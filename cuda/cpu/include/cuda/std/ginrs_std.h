/* cuda::std is the host's std: kernels run where it runs. */
#ifndef GINRS_CPU_CUDA_STD_H_
#define GINRS_CPU_CUDA_STD_H_
#include <cstddef>
namespace cuda {
namespace std {
using namespace ::std;
}
}  // namespace cuda
#endif
