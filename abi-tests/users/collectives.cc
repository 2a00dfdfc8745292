// C++17 without kernels: a thread per device, every collective once, a captured step, then one thread for all devices.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {
void check(cudaError_t e, const char* what) {
  if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
}
void check(ncclResult_t r, const char* what) {
  if (r != ncclSuccess) throw std::runtime_error(std::string(what) + ": " + ncclGetLastError(nullptr));
}
#define CHECK(call) check((call), #call)

template <typename T>
class Buffer {
 public:
  explicit Buffer(size_t n) : n_(n) { CHECK(cudaMalloc(&p_, n * sizeof(T))); }
  Buffer(const std::vector<T>& from) : Buffer(from.size()) { CHECK(cudaMemcpy(p_, from.data(), n_ * sizeof(T), cudaMemcpyHostToDevice)); }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(p_); }
  operator T*() const { return p_; }
  std::vector<T> read(cudaStream_t s) const {
    std::vector<T> host(n_);
    CHECK(cudaMemcpyAsync(host.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    return host;
  }

 private:
  T* p_ = nullptr;
  size_t n_;
};

constexpr size_t kCount = 5001;
int value(int rank, size_t i) { return rank * 1000 + static_cast<int>(i % 997); }
std::vector<int> values(int rank, size_t n = kCount) {
  std::vector<int> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = value(rank, i);
  return v;
}

class Rank {
 public:
  Rank(int rank, int ranks, ncclUniqueId id) : rank_(rank), ranks_(ranks) {
    CHECK(cudaSetDevice(rank));
    CHECK(cudaStreamCreate(&stream_));
    CHECK(ncclCommInitRank(&comm_, ranks, id, rank));
  }
  ~Rank() {
    ncclCommDestroy(comm_);
    cudaStreamDestroy(stream_);
  }

  int run() {
    Buffer<int> mine(values(rank_)), out(kCount), all(kCount * ranks_), back(kCount * ranks_);
    auto sum = [&](size_t i) { return ranks_ * (ranks_ - 1) / 2 * 1000 + ranks_ * static_cast<int>(i % 997); };
    CHECK(ncclAllReduce(mine, out, kCount, ncclInt, ncclSum, comm_, stream_));
    expect("allreduce", out, sum);
    CHECK(ncclAllReduce(mine, out, kCount, ncclInt32, ncclMin, comm_, stream_));
    expect("min", out, [](size_t i) { return value(0, i); });
    CHECK(ncclBroadcast(mine, out, kCount, ncclInt, ranks_ - 1, comm_, stream_));
    expect("broadcast", out, [&](size_t i) { return value(ranks_ - 1, i); });
    CHECK(ncclReduce(mine, rank_ == 0 ? static_cast<int*>(out) : nullptr, kCount, ncclInt, ncclAvg, 0, comm_, stream_));
    if (rank_ == 0) expect("reduce", out, [&](size_t i) { return sum(i) / ranks_; });
    CHECK(ncclAllGather(mine, all, kCount, ncclInt, comm_, stream_));
    expect("allgather", all, [](size_t i) { return value(static_cast<int>(i / kCount), i % kCount); });
    CHECK(ncclReduceScatter(all, out, kCount, ncclInt, ncclSum, comm_, stream_));
    expect("reducescatter", out, [&](size_t i) { return ranks_ * value(rank_, i); });
    CHECK(ncclAlltoAll(all, back, kCount, ncclInt, comm_, stream_));
    expect("alltoall", back, [&](size_t i) { return value(rank_, i % kCount); });
    CHECK(ncclGather(mine, all, kCount, ncclInt, 0, comm_, stream_));
    CHECK(ncclScatter(all, out, kCount, ncclInt, 0, comm_, stream_));
    expect("gather and scatter", out, [&](size_t i) { return value(rank_, i); });

    ncclRedOp_t weighted; // each rank brings a factor of its own
    int factor = rank_ + 1;
    CHECK(ncclRedOpCreatePreMulSum(&weighted, &factor, ncclInt, ncclScalarHostImmediate, comm_));
    CHECK(ncclAllReduce(mine, out, kCount, ncclInt, weighted, comm_, stream_));
    CHECK(ncclRedOpDestroy(weighted, comm_));
    expect("premulsum", out, [&](size_t i) {
      int total = 0;
      for (int r = 0; r < ranks_; ++r) total += (r + 1) * value(r, i);
      return total;
    });
    captured(mine);
    return wrong_;
  }

 private:
  // Two all-reduces in place, captured once and replayed twice: each multiplies by the number of ranks.
  void captured(const Buffer<int>& scratch) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaMemsetAsync(scratch, 1, kCount * sizeof(int), stream_));
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 2; ++i) CHECK(ncclAllReduce(scratch, scratch, kCount, ncclUint32, ncclSum, comm_, stream_));
    CHECK(cudaStreamEndCapture(stream_, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(exec, stream_));
    unsigned n = ranks_, expected = 0x01010101u * n * n * n * n;
    expect("captured", scratch, [=](size_t) { return static_cast<int>(expected); });
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
  }

  void expect(const char* what, const Buffer<int>& got, const std::function<int(size_t)>& expected) {
    std::vector<int> host = got.read(stream_);
#ifdef PLANT
    host[host.size() / 2] ^= 1;
#endif
    for (size_t i = 0; i < host.size(); ++i) {
      if (host[i] == expected(i)) continue;
      std::fprintf(stderr, "rank %d: %s[%zu] is %d, not %d\n", rank_, what, i, host[i], expected(i));
      wrong_ = 1;
      return;
    }
  }

  int rank_, ranks_, wrong_ = 0;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

int oneThread(int ranks) {
  std::vector<ncclComm_t> comms(ranks);
  std::vector<cudaStream_t> streams(ranks);
  std::vector<float*> data(ranks);
  CHECK(ncclCommInitAll(comms.data(), ranks, nullptr));
  for (int r = 0; r < ranks; ++r) {
    std::vector<float> host(777, r + 0.5f);
    CHECK(cudaSetDevice(r));
    CHECK(cudaStreamCreate(&streams[r]));
    CHECK(cudaMallocAsync(&data[r], host.size() * sizeof(float), streams[r]));
    CHECK(cudaMemcpyAsync(data[r], host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice, streams[r]));
    CHECK(cudaStreamSynchronize(streams[r]));
  }
  CHECK(ncclGroupStart());
  for (int r = 0; r < ranks; ++r) CHECK(ncclAllReduce(data[r], data[r], 777, ncclFloat, ncclMax, comms[r], streams[r]));
  CHECK(ncclGroupEnd());
  int wrong = 0;
  for (int r = 0; r < ranks; ++r) {
    float got[777];
    CHECK(cudaSetDevice(r));
    CHECK(cudaMemcpyAsync(got, data[r], sizeof got, cudaMemcpyDeviceToHost, streams[r]));
    CHECK(cudaStreamSynchronize(streams[r]));
    for (float g : got) wrong |= g != ranks - 0.5f;
    CHECK(cudaFreeAsync(data[r], streams[r]));
    CHECK(cudaStreamDestroy(streams[r]));
  }
  for (ncclComm_t comm : comms) CHECK(ncclCommFinalize(comm));
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm));
  return wrong;
}
}  // namespace

int main(int argc, char** argv) try {
  int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  std::vector<int> wrong(ranks, 1);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        wrong[r] = Rank(r, ranks, id).run();
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", r, e.what());
        std::_Exit(1);
      }
    });
  for (std::thread& t : threads) t.join();
  int bad = std::accumulate(wrong.begin(), wrong.end(), 0) + oneThread(ranks);
  std::puts(bad ? "collectives: WRONG" : "collectives: ok");
  return bad != 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
