// The atomic functions: what each returns and leaves behind, and that nothing is lost between blocks.
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T>
__device__ void integers(T* p) {
  *p = 10;
  CHECK(atomicAdd(p, (T)5) == 10 && *p == 15);
  CHECK(atomicExch(p, (T)7) == 15 && *p == 7);
  CHECK(atomicMin(p, (T)3) == 7 && *p == 3);
  CHECK(atomicMin(p, (T)9) == 3 && *p == 3);
  CHECK(atomicMax(p, (T)12) == 3 && *p == 12);
  CHECK(atomicCAS(p, (T)1, (T)2) == 12 && *p == 12);
  CHECK(atomicCAS(p, (T)12, (T)0xf0) == 12 && *p == 0xf0);
  CHECK(atomicAnd(p, (T)0x3c) == 0xf0 && *p == 0x30);
  CHECK(atomicOr(p, (T)0x03) == 0x30 && *p == 0x33);
  CHECK(atomicXor(p, (T)0x11) == 0x33 && *p == 0x22);
  CHECK(atomicAdd_system(p, (T)1) == 0x22 && atomicAdd_block(p, (T)1) == 0x23 && *p == 0x24);
}

__global__ void meanings(void* memory) {
  integers((int*)memory);
  integers((unsigned*)memory);
  integers((unsigned long long*)memory);
  int* i = (int*)memory;
  *i = -4;
  CHECK(atomicMin(i, -9) == -4 && atomicMax(i, 2) == -9 && atomicSub(i, 5) == 2 && *i == -3);
  long long* l = (long long*)memory;
  *l = -4;
  CHECK(atomicMax(l, -1ll) == -4 && atomicMin(l, -(1ll << 40)) == -1 && *l == -(1ll << 40));
  unsigned* u = (unsigned*)memory;
  *u = 2;
  CHECK(atomicInc(u, 3u) == 2 && atomicInc(u, 3u) == 3 && *u == 0);
  CHECK(atomicDec(u, 3u) == 0 && *u == 3 && atomicDec(u, 3u) == 3 && *u == 2);
  *u = 9;
  CHECK(atomicDec(u, 3u) == 9 && *u == 3);
  unsigned short* s = (unsigned short*)memory;
  *s = 3;
  CHECK(atomicCAS(s, (unsigned short)3, (unsigned short)500) == 3 && *s == 500);
  float* f = (float*)memory;
  *f = 1.5f;
  CHECK(atomicAdd(f, 2.f) == 1.5f && *f == 3.5f && atomicExch(f, -1.f) == 3.5f && *f == -1.f);
  float4* v = (float4*)memory;
  *v = make_float4(1, 2, 3, 4);
  float4 old = atomicAdd(v, make_float4(1, 1, 1, 1));
  CHECK(old.x == 1 && old.w == 4 && v->x == 2 && v->w == 5);
  __half2* h = (__half2*)memory;
  *h = __floats2half2_rn(1.f, 2.f);
  CHECK(__low2float(atomicAdd(h, __floats2half2_rn(3.f, 4.f))) == 1.f && __high2float(*h) == 6.f);
}

struct Totals {
  int i;
  unsigned u, inc, lock, locked;
  unsigned long long ull;
  float f;
  double d;
  __half h;
  __nv_bfloat16 b;
  float2 f2;
};

__global__ void totals(Totals* t) {
  atomicAdd(&t->i, -1);
  atomicAdd(&t->u, 2u);
  atomicInc(&t->inc, 99u);
  atomicAdd(&t->ull, 1ull << 33);
  atomicAdd(&t->f, 0.5f);
  atomicAdd(&t->d, 0.25);
  atomicAdd(&t->h, __float2half(1.f));
  if (threadIdx.x == 0) atomicAdd(&t->b, __float2bfloat16(1.f));
  atomicAdd(&t->f2, make_float2(1.f, 2.f));
  // A lock that spins, between threads of a block and between blocks.
  while (atomicCAS(&t->lock, 0u, 1u) != 0u) {
  }
  unsigned seen = *(volatile unsigned*)&t->locked;
  if (threadIdx.x % 16 == 0) __nanosleep(20);
  *(volatile unsigned*)&t->locked = seen + 1;
  __threadfence();
  atomicExch(&t->lock, 0u);
}

// Blocks that wait for each other through plain volatile words.
__global__ void handshake(volatile int* flags) {
  if (threadIdx.x == 0) {
    flags[blockIdx.x] = 1;
    __threadfence();
    for (unsigned b = 0; b < gridDim.x; b++)
      while (flags[b] == 0) {
      }
  }
  __syncthreads();
  CHECK(flags[gridDim.x - 1 - blockIdx.x] == 1);
}

int main() {
  void* memory;
  CUDA(cudaMalloc(&memory, 64));
  meanings<<<1, 1>>>(memory);
  Totals* t;
  CUDA(cudaMallocManaged(&t, sizeof *t));
  CUDA(cudaMemset(t, 0, sizeof *t));
  totals<<<8, 250>>>(t);
  CUDA(cudaDeviceSynchronize());
  CHECK(t->i == -2000 && t->u == 4000 && t->inc == 0 && t->ull == 2000ull << 33);
  CHECK(t->f == 1000.f && t->d == 500. && __half2float(t->h) == 2000.f && __bfloat162float(t->b) == 8.f);
  CHECK(t->f2.x == 2000.f && t->f2.y == 4000.f);
  CHECK(t->locked == 2000);
  int* flags;
  CUDA(cudaMalloc(&flags, 16 * 4));
  CUDA(cudaMemset(flags, 0, 16 * 4));
  handshake<<<16, 64>>>(flags);
  return finish("atomics");
}
