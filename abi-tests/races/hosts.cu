// Memory of the host in kernels, one case for each way to it, and their mended twins: `hosts CASE` and `hosts CASE mended`; `hosts lawful` is what looks
// alike and is right. tests/hosts.rs compiles it with --check=race and finds the marked lines ("use of: ...") by their marks.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#define CHECK(call)                                                                            \
  do {                                                                                         \
    int result = int(call);                                                                    \
    if (result != 0) fprintf(stderr, "%s: %d at line %d\n", #call, result, __LINE__), exit(2); \
  } while (0)

static const int n = 64;
int global[n] = {1};
static int internal[n];
namespace names {
int nested[n] = {2};
}
struct Counter {
  static int all[n];
};
int Counter::all[n];
__device__ int table[n];
__managed__ int managed[n];
__device__ const int* const pointers[1] = {nullptr};
struct alignas(64) Line {
  int words[16];
};
struct Job {
  const int* in;
  int* out;
};

__global__ void reads(int* out, const int* in) {
  out[threadIdx.x] = in[threadIdx.x];  // use of: reads
}
__global__ void writes(int* out) {
  out[threadIdx.x] = threadIdx.x;  // use of: writes
}
__global__ void counts(int* sum) {
  atomicAdd(sum, 1);  // use of: counts
}
__global__ void polls(int* out, volatile int* flag) {
  out[threadIdx.x] = *flag;  // use of: polls
}
__global__ void copies(int* out, const int* in) {
  if (threadIdx.x == 0) memcpy(out, in, n * sizeof(int));  // use of: copies
}
__global__ void works(Job job) {
  job.out[threadIdx.x] = job.in[threadIdx.x];  // use of: works
}
template <class F>
__global__ void applies(F f) {
  f(threadIdx.x);
}

// What kernels make is theirs, also where another kernel gives it back, and where the host had memory before.
struct Node {
  Node* next;
  int value;
};
__device__ Node* list[n];
__device__ int* late;
__global__ void makes() {
  int i = threadIdx.x;
  for (int k = 0; k < 4; k++) list[i] = new Node{list[i], k};
  int* own = (int*)malloc(n * sizeof(int));
  for (int k = 0; k < n; k++) own[k] = k;
  std::vector<int> grown;
  for (int k = 0; k < n; k++) grown.push_back(own[k]);
  table[i] = grown[i];
  free(own);
  if (i == 0) late = new int[n]();
}
__global__ void unmakes(int* out) {
  int sum = 0;
  for (Node* node = list[threadIdx.x]; node != nullptr;) {
    Node* next = node->next;
    sum += node->value;
    delete node;
    node = next;
  }
  list[threadIdx.x] = nullptr;
  const char* text = "literal";
  out[threadIdx.x] = sum + late[threadIdx.x] + text[threadIdx.x % 7] + managed[threadIdx.x] + (pointers[0] == nullptr);
  __syncthreads();
  if (threadIdx.x == 0) delete[] late;
}
// A struct with memory of its own is copied for each thread, which is what the CPU device does and no GPU.
__global__ void given(int* out, std::vector<int> values, std::shared_ptr<int> shared, std::string text) {
  out[threadIdx.x] = values[threadIdx.x] + (shared != nullptr) + int(text.size());
}

static void lawful(int* out) {
  for (int round = 0; round < 8; round++) {
    std::vector<std::unique_ptr<int[]>> some;
    for (int size = 1; size < 4 * n; size++) some.emplace_back(new int[size]);
    std::string text;
    for (int size = 0; size < 4 * n; size++) text += "long enough for the heap";
    some.clear();
    makes<<<1, n>>>();
    unmakes<<<1, n>>>(out);
    CHECK(cudaDeviceSynchronize());
  }
  std::vector<int> pinned(n, 3);
  CHECK(cudaHostRegister(pinned.data(), n * sizeof(int), 0));
  reads<<<1, n>>>(out, pinned.data());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaHostUnregister(pinned.data()));
  CHECK(cudaHostRegister(global, sizeof global, 0));
  reads<<<1, n>>>(out, global);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaHostUnregister(global));
  std::vector<int> values(n, 1);
  int takesAll;
  CHECK(cudaDeviceGetAttribute(&takesAll, cudaDevAttrPageableMemoryAccess, 0));
  if (takesAll) reads<<<1, n>>>(out, values.data());
  given<<<1, n>>>(out, values, std::make_shared<int>(1), "as long as it has to be for memory of its own");
}

int main(int argc, char** argv) {
  std::string which = argc > 1 ? argv[1] : "";
  bool mended = argc > 2;
  int *in, *out;
  CHECK(cudaMalloc(&in, n * sizeof(int)));
  CHECK(cudaMalloc(&out, n * sizeof(int)));
  CHECK(cudaMemset(in, 0, n * sizeof(int)));
  CHECK(cudaMemset(out, 0, n * sizeof(int)));
  auto given = [&](int* host) { return mended ? in : host; };
  size_t bytes = n * sizeof(int);
  std::vector<int> vector(n);  // made for: vector
  if (which == "vector") reads<<<1, n>>>(out, given(vector.data()));
  if (which == "result") writes<<<1, n>>>(given(vector.data()));
  if (which == "memcpy") copies<<<1, n>>>(out, given(vector.data()));
  if (which == "job") works<<<1, n>>>(Job{given(vector.data()), out});
  if (which == "lambda") {
    const int* from = given(vector.data());
    applies<<<1, n>>>([=] __device__(int i) { out[i] = from[i]; });  // use of: lambda
  }
  if (which == "malloc") reads<<<1, n>>>(out, given((int*)malloc(bytes)));  // made for: malloc
  if (which == "calloc") reads<<<1, n>>>(out, given((int*)calloc(n, sizeof(int))));
  if (which == "realloc") reads<<<1, n>>>(out, given((int*)realloc(malloc(4), bytes)));
  if (which == "aligned") reads<<<1, n>>>(out, given((int*)aligned_alloc(64, bytes)));
  if (which == "new") counts<<<1, n>>>(given(new int(0)));
  if (which == "array") reads<<<1, n>>>(out, given(new int[n]));
  if (which == "nothrow") polls<<<1, n>>>(out, given(new (std::nothrow) int(0)));
  if (which == "line") reads<<<1, n>>>(out, given((new Line[n / 16])->words));
  if (which == "unique") writes<<<1, n>>>(given(std::make_unique<int[]>(n).release()));
  if (which == "mmap") {
    void* mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    writes<<<1, n>>>(given((int*)mapped));
    CHECK(cudaDeviceSynchronize());
    munmap(mapped, bytes);
  }
  if (which == "memalign") {
    void* memory;
    CHECK(posix_memalign(&memory, 256, bytes));
    writes<<<1, n>>>(given((int*)memory));
    CHECK(cudaDeviceSynchronize());
    free(memory);
  }
  if (which == "global") reads<<<1, n>>>(out, given(global));
  if (which == "internal") writes<<<1, n>>>(given(internal));
  if (which == "nested") reads<<<1, n>>>(out, given(names::nested));
  if (which == "member") reads<<<1, n>>>(out, given(Counter::all));
  if (which == "lawful") lawful(out);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  printf("ok\n");
}
