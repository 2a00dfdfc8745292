// Ways to write a launch.
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#define CHECK(x) do { cudaDeviceSynchronize(); if (!(x)) { printf("FAILED %s:%d %s\n", __FILE__, __LINE__, #x); return 1; } } while (0)
#define LAUNCH(k, ...) \
  do { \
    k<<<1, \
        1>>>(__VA_ARGS__); \
  } while (0)

int* out;

__global__ void plain(int* p, int v) { atomicAdd(p, v); }
static __global__ void overloaded(int* p, float v) { *p = (int)(v * 10); }
static __global__ void overloaded(int* p, const char* text) { *p = text[0]; }
template <typename T, int N>
__global__ void __launch_bounds__(128, 2) templated(T* p) { *p = N + threadIdx.x; }
template <typename T>
__global__ void deduced(T* p, T v, int extra = 7) { *p = v + extra; }
template <typename... A>
__global__ void variadic(int* p, A... a) { *p = (0 + ... + a); }
template <int, class...>
__global__ void nameless(int* p) { *p = 21; }
template <typename F>
__global__ void apply(int n, F f) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) f(i); }
struct Big { long v[20]; int sum() const { int s = 0; for (long x : v) s += (int)x; return s; } };
__global__ void big(int* p, const __grid_constant__ Big b) { *p = b.sum(); }
__global__ void changes(int* p, int n) { while (n > 0) { atomicAdd(p, n--); } }
extern "C" __global__ void cLinkage(int* p) { *p = 11; }
namespace deep { namespace er {
__global__ void inNamespace(int* p) { *p = 12; }
namespace { __global__ void hidden(int* p) { *p = 13; } }
} }
struct Holder {
  static __global__ void member(int* p, int v) { *p = v; }
  template <int K> static __global__ void memberTemplate(int* p) { *p = K; }
};
template <class T> struct Generic {
  static __global__ void run(T* p, T v) { *p = v; }
  template <int K> static __global__ void outside(T* p);
  void go(T* p) { run<<<1, 1>>>(p, T(21)); outside<3><<<1, 1>>>(p); }
};
template <class T> template <int K> __global__ void Generic<T>::outside(T* p) { *p += K; }
__global__ void forward(int* p, int v = 31);
template <class T> int dependent(T* p) {
  templated<T, 5><<<dim3(1), dim3(1)>>>(p);
  cudaDeviceSynchronize();
  Generic<T>::run<<<1, 1>>>(p, *p + 1);
  Generic<T>::template outside<2><<<1, 1>>>(p);
  cudaDeviceSynchronize();
  return *p;
}
__global__ void shadow(int* shadow) { *shadow = 14; }
__device__ __managed__ int touched;
__global__ void noArguments() { touched = 1; }
__global__ void unnamed(int* p, int, float) { *p = 15; }
__global__ void functionName(char* text) { const char* name = __func__; while ((*text++ = *name++)) {} }
template <class T, class = void> __global__ void unnamedTemplate(T* p) { *p = 16; }
__device__ void store(int* p, int value) { *p = value; }
template <void (*to)(int*, int), bool (*)(int) = nullptr> __global__ void functionTemplate(int* p) { to(p, 19); }
template <int (*)[2], void (&to)(int*, int)> __global__ void referenceTemplate(int* p) { to(p, 20); }
template <> __global__ void templated<int, 99>(int* p) { *p = 1234; }
template __global__ void deduced<long>(long*, long, int);
__global__ void sumGrid(int* p) { atomicAdd(p, 1); }

typedef void (*KernelPointer)(int*, int);
static KernelPointer pick(bool first) { return first ? plain : Holder::member; }
static dim3 threads(int n) { return dim3(n); }
static int nested(int v) { plain<<<1, 1>>>(out + 2, v); return v * 2; }

int main() {
  cudaMallocManaged(&out, 4096);
  int& r = *out;
  cudaStream_t stream = 0;
  r = 0; plain<<<1, 1>>>(out, 3); CHECK(r == 3);
  r = 0; plain<<<1, 1, 0, stream>>>(out, 'a'); CHECK(r == 'a');
  r = 0; plain<<<2, {2, 2}, 0, nullptr>>>(out, 1); CHECK(r == 8);
  overloaded<<<1, 1>>>(out, 2.5f); CHECK(r == 25);
  overloaded<<<1, 1>>>(out, "x"); CHECK(r == 'x');
  templated<int, 3 + (2 > 1)><<<1, 1>>>(out); CHECK(r == 4);
  templated<int, 99><<<1, 1>>>(out); CHECK(r == 1234);
  nameless<3><<<1, 1>>>(out); CHECK(r == 21);
  r = 0; nameless<3, int, float><<<1, 1>>>(out); CHECK(r == 21);
  deduced<<<1, 1>>>(out, 1); CHECK(r == 8);
  deduced<int><<<1, 1, 16>>>(out, 1, 2); CHECK(r == 3);
  variadic<<<1, 1>>>(out, 1, 2L, (short)3); CHECK(r == 6);
  variadic<<<1, 1>>>(out); CHECK(r == 0);
  int base = 100; int* p = out;
  apply<<<2, 8>>>(10, [=] __device__(int i) { p[i] = base + i; }); CHECK(r == 100 && out[9] == 109);
  apply<<<1, 1>>>(1, [p] __host__ __device__ (int) mutable { *p = 5; }); CHECK(r == 5);
  Big b; for (int i = 0; i < 20; i++) b.v[i] = i;
  big<<<1, 1>>>(out, b); CHECK(r == 190);
  r = 0; changes<<<1, 3>>>(out, 4); CHECK(r == 30);
  cLinkage<<<1, 1>>>(out); CHECK(r == 11);
  deep::er::inNamespace<<<1, 1>>>(out); CHECK(r == 12);
  ::deep::er::hidden<<<1, 1>>>(out); CHECK(r == 13);
  { using namespace deep::er; hidden<<<1, 1>>>(out); CHECK(r == 13); }
  Holder::member<<<1, 1>>>(out, 7); CHECK(r == 7);
  Holder::memberTemplate<8><<<1, 1>>>(out); CHECK(r == 8);
  Generic<int>().go(out); CHECK(r == 24);
  CHECK(dependent(out) == 5 + 1 + 2);
  forward<<<1, 1>>>(out); CHECK(r == 31);
  shadow<<<1, 1>>>(out); CHECK(r == 14);
  noArguments<<<1, 1>>>(); CHECK(touched == 1);
  unnamed<<<1, 1>>>(out, 1, 2.f); CHECK(r == 15);
  unnamedTemplate<<<1, 1>>>(out); CHECK(r == 16);
  functionTemplate<store><<<1, 1>>>(out); CHECK(r == 19);
  referenceTemplate<nullptr, store><<<1, 1>>>(out); CHECK(r == 20);
  functionName<<<1, 1>>>((char*)(out + 100)); CHECK(std::string((char*)(out + 100)) == "functionName");
  KernelPointer k = plain; r = 1;
  k<<<1, 1>>>(out, 1); CHECK(r == 2);
  (*k)<<<1, 1>>>(out, 1); CHECK(r == 3);
  if (r == 3) (k)<<<1, 1>>>(out, 1); else return 1;
  CHECK(r == 4);
  (r ? plain : Holder::member)<<<1, 1>>>(out, 1); CHECK(r == 5);
  pick(false)<<<1, 1>>>(out, 1); CHECK(r == 1);
  KernelPointer table[] = {plain, Holder::member};
  for (int i = 0; i < 2; i++) table[i]<<<1, 1>>>(out, 40);
  CHECK(r == 40);
  struct { KernelPointer f; } s{plain}, *sp = &s;
  s.f<<<1, 1>>>(out, 1); sp->f<<<1, 1>>>(out, 1); CHECK(r == 42);
  auto t = std::make_tuple(plain, 1);
  std::get<0>(t)<<<1, 1>>>(out, 1); CHECK(r == 43);
  LAUNCH(plain, out, 1); CHECK(r == 44);
  LAUNCH((deduced<int>), out, 1, 1); CHECK(r == 2);
  out[2] = 0; r = 0;
  plain<<<1, 1>>>(out, nested(4)); CHECK(r == 8 && out[2] == 4);
  plain<<<nested(1) / 2, threads(2).x>>>(out, nested(1)); CHECK(r == 12);
  std::function<void()> later = [&] { plain<<<1, 1>>>(out, 1); };
  later(); CHECK(r == 13);
  auto generic = [](auto* q) { deduced<<<1, 1>>>(q, 3, 4); };
  generic(out); CHECK(r == 7);
  r = 0; sumGrid<<<13, 64>>>(out); CHECK(r == 13 * 64);
  plain<<<1, 2048>>>(out, 1); CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  int v = 5; void* args[] = {&out, &v}; r = 0;
  CHECK(cudaLaunchKernel((void*)plain, dim3(2), dim3(3), args, 0, 0) == cudaSuccess); CHECK(r == 30);
  CHECK(cudaLaunchKernel((const void*)Holder::memberTemplate<77>, dim3(1), dim3(1), args, 0, 0) == cudaSuccess); CHECK(r == 77);
  printf("launch_forms: ok\n");
}
__global__ void forward(int* p, int v) { *p = v; }
