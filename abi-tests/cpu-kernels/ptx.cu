// The PTX forms of communication kernels.
#include <cstdint>
#include <cstdio>
#define CHECK(x) do { cudaDeviceSynchronize(); if (!(x)) { printf("FAILED %s:%d %s\n", __FILE__, __LINE__, #x); return 1; } } while (0)

__device__ __forceinline__ uint64_t ldAcquire(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void stRelease(uint64_t* p, uint64_t v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
static __device__ __forceinline__ int4 ldNc(const int4* p) {
  int4 r;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "l"(p));
  return r;
}
__device__ uint32_t laneId() { uint32_t r; asm("mov.u32 %0, %%laneid;" : "=r"(r)); return r; }
__host__ __device__ inline int onHost(int x) {
#ifdef __CUDA_ARCH__
  return x + 1;
#else
  return x + 2;
#endif
}
static inline uint32_t hostAssembly(uint32_t x) {
  uint32_t y;
  asm volatile("movl %1, %0\n\taddl $1, %0" : "=&r"(y) : "r"(x));
  return y;
}

__global__ void forms(uint64_t* w, float* f, uint32_t* out) {
  uint64_t v, old; uint32_t a, b, c, d; float x; double dx; int s; unsigned short h;
  stRelease(w, 5); out[0] = (uint32_t)ldAcquire(w);
  asm volatile("ld.volatile.global.u32 %0, [%1+8];" : "=r"(a) : "l"(w)); out[1] = a;
  asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" : : "l"(w + 1), "r"(7)); out[2] = (uint32_t)w[1];
  asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" :: "l"(w + 2), "r"(1), "r"(2), "r"(3), "r"(4) : "memory");
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(w + 2) : "memory");
  out[3] = a * 1000 + b * 100 + c * 10 + d;
  asm volatile("st.global.wt.v2.u64 [%0], {%1, %2};" :: "l"(w + 4), "l"(11ull), "l"(12ull)); out[4] = (uint32_t)(w[4] + w[5]);
  asm volatile("red.release.sys.global.add.u64 [%0], %1;" :: "l"(w), "l"(10ull) : "memory"); out[5] = (uint32_t)w[0];
  asm volatile("atom.add.acq_rel.gpu.global.u64 %0, [%1], %2;" : "=l"(old) : "l"(w), "l"(1ull) : "memory"); out[6] = (uint32_t)old;
  asm volatile("atom.acquire.gpu.cas.b32 %0, [%1], %2, %3;" : "=r"(a) : "l"(w), "r"(16), "r"(20) : "memory"); out[7] = a * 100 + (uint32_t)w[0];
  asm volatile("atom.global.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(w), "l"(3ull)); out[8] = (uint32_t)(old * 10 + w[0]);
  asm volatile("atom.relaxed.gpu.max.u32 %0, [%1], %2;" : "=r"(a) : "l"(w), "r"(9)); out[9] = (uint32_t)w[0];
  asm volatile("atom.min.s32 %0, [%1], %2;" : "=r"(s) : "l"(w), "r"(-2)); out[10] = s == 9 && (int)w[0] == -2;
  asm volatile("atom.or.b32 _, [%0], %1;" :: "l"(w + 1), "r"(8)); out[11] = (uint32_t)w[1];
  *f = 1.5f; asm volatile("red.global.add.f32 [%0], %1;" :: "l"(f), "f"(2.0f)); out[12] = (uint32_t)(*f * 2);
  asm volatile("fence.acq_rel.sys;" ::: "memory"); asm volatile("fence.sc.gpu;"); asm volatile("membar.gl;"); asm volatile("membar.sys;" ::: "memory");
  asm volatile("fence.acquire.gpu; fence.release.cta;" ::: "memory"); asm volatile("fence.proxy.async;" ::: "memory");
  asm volatile("mov.u32 %0, %%tid.x;\n\tmov.u32 %1, %%ntid.x;" : "=r"(a), "=r"(b)); out[13] = a * 10 + b;
  asm("mov.u32 %0, %lanemask_lt;" : "=r"(a)); out[14] = a; out[15] = laneId();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(v)); out[16] = v > 1000000000ull;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(v)); asm volatile("mov.u32 %0, %%clock;" : "=r"(a)); asm volatile("mov.u32 %0, %%smid;" : "=r"(b)); out[17] = b;
  asm volatile("nanosleep.u32 %0;" :: "r"(20)); asm volatile("nanosleep.u32 100;"); asm volatile("prefetch.global.L2 [%0];" :: "l"(w));
  asm volatile("griddepcontrol.wait;" ::: "memory"); asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("mov.b64 %0, {%1, %2};" : "=l"(v) : "r"(1), "r"(2)); asm("mov.b64 {%0, %1}, %2;" : "=r"(a), "=r"(b) : "l"(v)); out[18] = v == 0x200000001ull && a == 1 && b == 2;
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %1, 0; selp.u32 %0, 1, 2, p; @p st.global.u32 [%2], 77; }" : "=r"(a) : "r"(5), "l"(w + 6)); out[19] = a * 100 + (uint32_t)w[6];
  asm volatile("{\n\t.reg .u32 t;\n\tadd.u32 t, %1, 3;\n\tshl.b32 %0, t, 2; // a comment\n\t}" : "=r"(a) : "r"(4)); out[20] = a;
  asm volatile("st.global.u8 [%0], %1;" :: "l"((char*)(w + 7)), "r"(300)); asm volatile("ld.global.s8 %0, [%1];" : "=r"(s) : "l"(w + 7)); out[21] = s == 44;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(h) : "l"(w + 4)); out[22] = h;
  asm volatile("ld.relaxed.sys.f32 %0, [%1];" : "=f"(x) : "l"(f)); asm volatile("ld.weak.global.f64 %0, [%1];" : "=d"(dx) : "l"(w + 8)); out[23] = x == 3.5f && dx == 0;
  asm volatile("" ::: "memory"); asm volatile("" : "+r"(a) : : "memory"); asm volatile("" :: "f"(x)); out[24] = a;
  asm volatile("cvta.to.global.u64 %0, %1;" : "=l"(v) : "l"(w)); out[25] = v == (uint64_t)w;
  asm volatile("ld.acquire.gpu.global.u32 %[value], [%[where]];" : [value] "=r"(a) : [where] "l"(w + 6)); out[26] = a;
  asm volatile("activemask.b32 %0;" : "=r"(a)); out[27] = a; asm volatile("mov.u32 %0, %1;" : "=r"(a) : "n"(42)); out[28] = a;
  asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(f[1]) : "l"(f)); out[29] = x == 3.5f;
  if (onHost(1)) asm volatile("st.global.u32 [%0], %1;" :: "l"(out + 30), "r"(onHost(1))); else asm volatile("trap;");
  int4 q = ldNc(reinterpret_cast<const int4*>(w + 2)); out[31] = q.x + q.w;
  float before; asm volatile("atom.add.f32 %0, [%1], %2;" : "=f"(before) : "l"(f), "f"(1.f)); out[32] = before == 3.5f && *f == 4.5f;
  asm("prmt.b32 %0, %1, %2, 0x0123;" : "=r"(a) : "r"(0x11223344), "r"(0)); out[33] = a == 0x44332211;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(a) : "r"(0x112233f4), "r"(5), "n"(0x8541)); out[34] = a == 0xff000533;
}

// Warp 1 waits until warp 0 has arrived with its word.
__global__ void barriers(volatile uint32_t* out) {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 32;");
    out[threadIdx.x] = 7;
    asm volatile("bar.arrive 3, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 3, 64;" ::: "memory");
    out[threadIdx.x] = out[threadIdx.x - 32] + 1;
  }
  asm volatile("bar.sync %0, %1;" :: "r"(2), "r"(64));
  asm volatile("barrier.sync.aligned 0;");
  asm volatile("bar.warp.sync 0xffffffff;");
  uint32_t votes;
  asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 36; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(votes) : "r"(threadIdx.x));
  if (threadIdx.x == 32) out[64] = votes;
}

__global__ void arithmetic(float* f, uint32_t* out) {
  float x = f[0], y;
  double d = 3, e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); f[1] = y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(y)); f[2] = y;
  asm("rcp.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x)); f[3] = y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(4.f)); f[4] = y;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(x), "f"(3.f), "f"(.5f)); f[5] = y;
  asm("{ .reg .f32 t; mul.rn.f32 t, %1, %1; max.f32 t, t, 0f41200000; sub.f32 %0, t, %1; }" : "=f"(y) : "f"(x)); f[6] = y;
  asm("fma.rn.f64 %0, %1, %1, %1;" : "=d"(e) : "d"(d)); f[7] = (float)e;
  int n = -5, m;
  unsigned u;
  asm("mad.lo.s32 %0, %1, %1, %1;" : "=r"(m) : "r"(n)); out[0] = m;
  asm("min.s32 %0, %1, 3;" : "=r"(m) : "r"(n)); out[1] = -m;
  asm("max.u32 %0, %1, 3;" : "=r"(u) : "r"(n)); out[2] = u == 0u - 5;
  asm("popc.b32 %0, %1;" : "=r"(u) : "r"(0xf0f)); out[3] = u;
  asm("clz.b32 %0, %1;" : "=r"(u) : "r"(1)); out[4] = u;
  asm("clz.b64 %0, %1;" : "=r"(u) : "l"(0ull)); out[5] = u;
  asm("abs.s32 %0, %1;" : "=r"(m) : "r"(n)); out[6] = m;
}

int main() {
  uint64_t* w; float* f; uint32_t* out;
  cudaMallocManaged(&w, 4096); cudaMallocManaged(&f, 64); cudaMallocManaged(&out, 4096);
  for (int i = 0; i < 512; i++) w[i] = 0;
  f[1] = 0;
  forms<<<1, 1>>>(w, f, out);
  cudaDeviceSynchronize();
  const uint32_t want[] = {5, 0, 7, 1234, 23, 15, 15, 1620, 203, 9, 1, 15, 7, 1, 0, 0, 1, 0, 1, 177, 28, 1, 11, 1, 28, 1, 77, 1, 42, 1, 2, 5, 1, 1, 1};
  for (unsigned i = 0; i < sizeof want / 4; i++) if (out[i] != want[i]) { printf("form %u: %u, want %u\n", i, out[i], want[i]); return 1; }
  barriers<<<1, 64>>>(out);
  CHECK(out[0] == 7 && out[63] == 8);
  CHECK(hostAssembly(4) == 5 && onHost(1) == 2);
  f[0] = 2;
  arithmetic<<<1, 1>>>(f, out);
  cudaDeviceSynchronize();
  const float reals[] = {2, 4, 2, .5f, .5f, 6.5f, 8, 12};
  for (int i = 0; i < 8; i++) if (f[i] != reals[i]) { printf("real %d: %g, want %g\n", i, f[i], reals[i]); return 1; }
  const uint32_t whole[] = {20, 5, 1, 8, 31, 64, 5};
  for (int i = 0; i < 7; i++) if (out[i] != whole[i]) { printf("whole %d: %u, want %u\n", i, out[i], whole[i]); return 1; }
  printf("ptx: ok\n");
}
