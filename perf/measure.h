// How everything is timed: several arms in turn, the slowest rank counts, the median over the repetitions.
#pragma once
#include "rank.h"

// An arm runs its operation often and returns nanoseconds for one, 0 on ranks that only take part.
typedef std::function<double()> Arm;

// Medians in the order of the arms, in nanoseconds. The order turns round each time (A B, B A, ..), so that drift of clocks
// and of a shared machine meets all arms alike.
static std::vector<double> interleaved(Rank& rk, int repeats, const std::vector<Arm>& arms) {
  std::vector<std::vector<double>> samples(arms.size());
  for (int r = 0; r < repeats; r++)
    for (size_t i = 0; i < arms.size(); i++) {
      size_t arm = r % 2 ? arms.size() - 1 - i : i;
      rk.barrier();
      samples[arm].push_back(rk.max(arms[arm]()));
    }
  std::vector<double> medians;
  for (auto& s : samples) {
    std::sort(s.begin(), s.end());
    medians.push_back(s.size() % 2 ? s[s.size() / 2] : (s[s.size() / 2] + s[s.size() / 2 - 1]) / 2);
  }
  return medians;
}
static int repeats(Rank& rk) { return rk.options.quick ? std::min(rk.options.repeats, 3) : rk.options.repeats; }
static int iterations(Rank& rk, int own) { return rk.options.iterations ? rk.options.iterations : rk.options.quick ? std::max(1, own / 4) : own; }
static int warmup(Rank& rk, int own) { return rk.options.warmup >= 0 ? rk.options.warmup : own; }

// Launches a kernel that writes its own nanoseconds to rk.out[0], and waits for it.
template <typename Launch>
static double timedKernel(Rank& rk, Launch launch) {
  rk.out[0] = 0;
  launch();
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(rk.stream));
  return (double)rk.out[0];
}

// A word's latency depends on which half of the L2 it lies in and on which SM asks: about 0.15 us either way on an H200, enough
// to drown a comparison. So what polls single words is timed at several places, on other SMs with other words.
#ifdef __GINRS_CPU__
constexpr int kPlaces = 1;
#else
constexpr int kPlaces = 8;
#endif
constexpr int kBlockStep = 13; // place p is worked on by block 13 * p of a grid whose other blocks leave at once
static int gridOf(int place) { return place * kBlockStep + 1; }
__device__ __forceinline__ bool isOurs() { return blockIdx.x == gridDim.x - 1; }

// The mean over all places of what `timing` returns for each.
template <typename Timing>
static double overPlaces(Timing timing) {
  double all = 0;
  for (int place = 0; place < kPlaces; place++) all += timing(place);
  return all / kPlaces;
}

// Nanoseconds per call of something that is enqueued on rk.stream `times` times.
template <typename Enqueue>
static double timedStream(Rank& rk, int warm, int times, Enqueue enqueue) {
  for (int i = 0; i < warm; i++) enqueue();
  CUDACHECK(cudaEventRecord(rk.begin, rk.stream));
  for (int i = 0; i < times; i++) enqueue();
  CUDACHECK(cudaEventRecord(rk.end, rk.stream));
  CUDACHECK(cudaGetLastError());
  CUDACHECK(cudaStreamSynchronize(rk.stream));
  float ms;
  CUDACHECK(cudaEventElapsedTime(&ms, rk.begin, rk.end));
  return ms * 1e6 / times;
}

template <typename Call>
static double timedHost(Call call) {
  auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// The sizes of a benchmark: its own range, or what -b, -e and -f ask for.
static std::vector<size_t> sizes(Rank& rk, size_t least, size_t most, double factor) {
  const Options& o = rk.options;
  if (o.minBytes) least = o.minBytes;
  if (o.maxBytes) most = o.maxBytes;
  if (o.factor > 1) factor = o.factor;
  else if (o.quick) factor = factor * factor * factor;
  std::vector<size_t> all;
  for (double b = (double)least; b <= (double)most; b *= factor) all.push_back(((size_t)b + 7) / 8 * 8);
  if (all.empty() || (o.quick && all.back() != most)) all.push_back((most + 7) / 8 * 8);
  return all;
}

static Row row(const char* bench, const std::string& what, size_t bytes, double ns) {
  Row r;
  r.bench = bench;
  r.what = what;
  r.bytes = bytes;
  r.us = ns * 1e-3;
  return r;
}
