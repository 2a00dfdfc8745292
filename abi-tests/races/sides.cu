// Pointers of the wrong side, one for each mistake, and their mended twins: `sides CASE` and `sides CASE mended`. tests/races.rs compiles it with
// --check=race and finds the marked lines ("use of: ...") by their marks.
#include <nccl.h>
#include <nccl_device.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                          \
  do {                                                                                       \
    int result = int(call);                                                                  \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exit(2); \
  } while (0)

static const int n = 256;
static int host[n];                       // kernels that use such: hosts.cu
__device__ int table[n];
__managed__ int managed[n];
__constant__ int scale = 3;

struct Shape { virtual ~Shape() {} virtual int area() const = 0; };
struct Square : Shape { int side; __host__ __device__ Square(int s) : side(s) {} __host__ __device__ int area() const override { return side * side; } };

__global__ void kernel(int* out, const int* in, Square shape) {
  int i = threadIdx.x, own[4] = {1, 2, 3, i};
  const char* text = "literal";
  int* more = new int[2];
  more[0] = in[i];  // use of: stack
  out[i] = more[0] + own[i % 4] * scale + text[i % 7] + shape.area() + table[i] + managed[i];
  delete[] more;
}

__global__ void fill(int* p, int value) { p[threadIdx.x] = value; }

__global__ void stage(int* out) {
  extern __shared__ int part[];
  part[threadIdx.x] = threadIdx.x;  // use of: shared
  __syncthreads();
  out[threadIdx.x] = part[threadIdx.x / 2];
}

__global__ void shift(int* out, int by) {
  out[threadIdx.x + by] = threadIdx.x;  // use of: behind
}

// Of memory of a device only here.
static int sum(const int* p, int count) {
  int all = 0;
  for (int i = 0; i < count; i++) all += p[i];  // use of: sum
  return all;
}

int main(int argc, char** argv) {
  std::string which = argc > 1 ? argv[1] : "";
  bool mended = argc > 2;
  int *out, *in, *pinned, *both, *late;
  void* window;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMalloc(&out, n * sizeof *out));
  CHECK(cudaMalloc(&in, n * sizeof *in));
  CHECK(cudaMallocAsync(&late, n * sizeof *late, stream));
  CHECK(cudaMallocHost(&pinned, n * sizeof *pinned));
  CHECK(cudaMallocManaged(&both, n * sizeof *both));
  CHECK(ncclMemAlloc(&window, n * sizeof(int)));
  int local[n];
  std::vector<int> heap(n), large(1 << 20);
  for (int i = 0; i < n; i++) local[i] = pinned[i] = both[i] = managed[i] = heap[i] = large[i] = host[i] = i;
  CHECK(cudaHostRegister(heap.data(), n * sizeof(int), 0));
  CHECK(cudaMemcpy(in, local, sizeof local, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(out, 0, n * sizeof *out));
  fill<<<1, n, 0, stream>>>(late, 1);
  fill<<<1, n, 0, stream>>>((int*)window, 1);
  CHECK(cudaStreamSynchronize(stream));

  const int* read = which == "malloc" ? in : which == "nccl" ? (int*)window : which == "async" ? late : local;
  if (mended && read != local) {
    CHECK(cudaMemcpy(local, read, sizeof local, cudaMemcpyDeviceToHost));
    read = local;
  }
  if (which == "thread")
    std::thread([&] { if (!mended) in[3] = 5; }).join();  // use of: thread
  int all = sum(read, n) + sum(pinned, n) + sum(both, n) + sum(managed, n) + sum(heap.data(), n) + sum(large.data(), n) + sum(host, n);

  const int* given = which == "stack" && !mended ? local : in;
  if (which == "behind") shift<<<1, n, 0, stream>>>(out, mended ? 0 : 1);
  if (which == "shared") stage<<<1, n, (mended ? n : n / 2) * sizeof(int), stream>>>(out);
  kernel<<<1, n, 0, stream>>>(out, given, Square(4));
  CHECK(cudaStreamSynchronize(stream));
  for (const int* legal : {(const int*)pinned, (const int*)both, (const int*)managed, (const int*)heap.data()}) {
    kernel<<<1, n, 0, stream>>>(out, legal, Square(4));
    CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaMemcpy(local, out, sizeof local, cudaMemcpyDeviceToHost));
  printf("%d %d\n", all, sum(local, n));
  CHECK(cudaHostUnregister(heap.data()));
  CHECK(cudaFree(out));
  CHECK(cudaFree(in));
  CHECK(cudaFree(late));
  CHECK(ncclMemFree(window));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(both));
}
