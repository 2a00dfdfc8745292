// __shared__, __device__ and __constant__ in their spellings.
#include <cstdio>
#include <string>
#define CHECK(x) do { cudaDeviceSynchronize(); if (!(x)) { printf("FAILED %s:%d %s\n", __FILE__, __LINE__, #x); return 1; } } while (0)

__device__ int counter = 5;
__device__ int array[4] = {1, 2, 3, 4}, other;
static __device__ float* pointer;
__device__ __constant__ float table[] = {1.5f, 2.5f};
__constant__ const int plainConstant = 9;
constexpr __device__ int alsoPlain = 10;
static __device__ const char* text = "hi";
__device__ const char* const names[] = {"a", "b"};
extern __device__ int declaredFirst;
__device__ int declaredFirst = 6;
__device__ volatile int flag;
__device__ alignas(32) unsigned char aligned[3];
__device__ __align__(16) unsigned char alignedToo[3];
__managed__ int managed = 3;
__device__ int (*callback)(int) = nullptr;
namespace ns { __device__ unsigned long long inside = 1; }
namespace { __device__ int anonymous = 2; }
template <class T> __device__ T perType = T(4);
inline __device__ int inlined = 8;
struct Pair { int a, b; };
__device__ Pair pair = {1, 2};
__device__ Pair pairBraced{3, 4};
struct S {
  static __device__ int member;
  static inline __device__ int inlineMember = 11;
  static constexpr int k = 1;
};
__device__ int S::member = 12;
thread_local std::string hostString = "host";  // initialised together with the file's other thread locals
extern __shared__ int outside[];

__device__ int twice(int x) { return 2 * x; }
__device__ int next() { static int calls = 100; return calls++; }
__host__ __device__ int nextBoth() { static int calls = 0; return ++calls; }

__global__ void all(int* out) {
  out[0] = counter++; out[1] = array[3]++; out[2] = other++; out[3] = (int)table[1]; out[4] = plainConstant + alsoPlain;
  out[5] = text[1]; out[6] = names[1][0]; out[7] = declaredFirst++; flag = flag + 1; out[8] = flag;
  out[9] = (int)((size_t)aligned % 32 + (size_t)alignedToo % 16); out[10] = managed++; callback = twice; out[11] = callback(4);
  out[12] = (int)ns::inside++; out[13] = anonymous++; out[14] = perType<int>++; out[15] = inlined++; out[16] = pair.b++;
  out[17] = pairBraced.a; out[18] = S::member++; out[19] = S::inlineMember++; out[20] = next(); out[21] = nextBoth();
  out[22] = sizeof(array); out[23] = (int)sizeof(table); pointer = nullptr; out[24] = pointer == nullptr;
}

template <class T> __global__ void shared(int* out) {
  __shared__ int a, b[4];
  __shared__ alignas(64) char c[3];
  __shared__ __align__(128) char d[1];
  static __shared__ volatile int e;
  alignas(16) __shared__ Pair f[2];
  __shared__ T g[8];
  __shared__ struct { int x; T y; } h;
  extern __shared__ __align__(16) unsigned char dynamic[];
  extern __shared__ T typed[];
  extern __shared__ alignas(16) float grid[][4];
  if (threadIdx.x == 0) {
    a = 0; e = 0; h.x = 0; b[1] = 0; f[1].b = 0; g[3] = T(0);
    out[0] = (int)(((size_t)c % 64) + ((size_t)d % 128) + ((size_t)f % 16));
    out[1] = (void*)dynamic == (void*)typed && (void*)typed == (void*)outside;
    for (int i = 0; i < 8; i++) { a += 1; b[1] += 2; e = e + 3; f[1].b += 4; g[3] += T(5); h.x += 6; }
  }
  auto lambda = [] { return (int)sizeof(b); };
  if (sizeof(T) == 4) grid[2][threadIdx.x % 4] = 0.f;
  outside[threadIdx.x] = threadIdx.x;
  reinterpret_cast<int*>(dynamic)[threadIdx.x] *= 2;
  __syncthreads();
  if (threadIdx.x + 1 == blockDim.x) {
    out[2] = a; out[3] = b[1]; out[4] = e; out[5] = f[1].b; out[6] = (int)g[3]; out[7] = h.x; out[8] = lambda();
    out[9] = outside[3];
  }
}

int main() {
  int* out; cudaMallocManaged(&out, 4096);
  const int first[] = {5, 4, 0, 2, 19, 'i', 'b', 6, 1, 0, 3, 8, 1, 2, 4, 8, 2, 3, 12, 11, 100, 1, 16, 8, 1};
  for (int device = 0; device < 2; device++) {
    cudaSetDevice(device);
    for (int round = 0; round < 2; round++) {
      all<<<1, 1>>>(out);
      cudaDeviceSynchronize();
      for (int i = 0; i < 25; i++) {
        bool counts = i == 0 || i == 1 || i == 2 || i == 7 || i == 8 || (i >= 12 && i <= 16) || (i >= 18 && i <= 21);
        int want = first[i] + (counts ? round : 0) + (i == 10 ? device * 2 + round : 0);
        if (out[i] != want) { printf("device %d round %d value %d: %d, want %d\n", device, round, i, out[i], want); return 1; }
      }
    }
  }
  CHECK(nextBoth() == 1 && nextBoth() == 2);  // the host's own
  CHECK(hostString == "host");
  int value = 70;
  cudaSetDevice(0); cudaMemcpyToSymbol(counter, &value, sizeof value);
  all<<<1, 1>>>(out); CHECK(out[0] == 70);
  cudaSetDevice(1); all<<<1, 1>>>(out); CHECK(out[0] == 7);
  float t[2] = {7.5f, 8.5f}; cudaMemcpyToSymbol(table, t, sizeof t); all<<<1, 1>>>(out); CHECK(out[3] == 8);
  cudaSetDevice(0); cudaMemcpyFromSymbol(&value, counter, sizeof value); CHECK(value == 71);
  shared<int><<<1, 8, 256>>>(out);
  cudaDeviceSynchronize();
  const int want[] = {0, 1, 8, 16, 24, 32, 40, 48, 16, 6};
  for (int i = 0; i < 10; i++) if (out[i] != want[i]) { printf("shared %d: %d, want %d\n", i, out[i], want[i]); return 1; }
  shared<double><<<1, 8, 256>>>(out); CHECK(out[6] == 40);
  printf("storage: ok\n");
}
