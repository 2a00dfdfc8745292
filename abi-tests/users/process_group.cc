// C++20, a process group as frameworks have it: ranks by fork meet through a TCP store; work objects are events; a
// watchdog polls the communicator; in the end one rank dies and all others must hear of it and abort in time.
#include <arpa/inet.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static void cuda(cudaError_t e) {
  if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
}
static void nccl(ncclResult_t r) {
  if (r != ncclSuccess && r != ncclInProgress) throw std::runtime_error(ncclGetLastError(nullptr));
}

// Rank 0 hands the same bytes to whoever connects.
class Store {
 public:
  Store() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    if (bind(fd_, (sockaddr*)&at, sizeof at) != 0 || listen(fd_, 64) != 0 || getsockname(fd_, (sockaddr*)&at, &size) != 0)
      throw std::runtime_error("no listener");
    port = at.sin_port;
  }
  void serve(std::span<const char> bytes, int clients) const {
    for (int c = 0; c < clients; c++) {
      int peer = accept(fd_, nullptr, nullptr);
      if (write(peer, bytes.data(), bytes.size()) != (ssize_t)bytes.size()) throw std::runtime_error("store: short write");
      close(peer);
    }
  }
  void fetch(std::span<char> bytes) const {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{.sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (connect(fd, (sockaddr*)&at, sizeof at) != 0) throw std::runtime_error("store: no connection");
    for (size_t got = 0; got < bytes.size();) {
      ssize_t n = read(fd, bytes.data() + got, bytes.size() - got);
      if (n <= 0) throw std::runtime_error("store: closed");
      got += n;
    }
    close(fd);
  }
  in_port_t port;

 private:
  int fd_;
};

class Work {
 public:
  explicit Work(cudaStream_t stream) {
    cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    cuda(cudaEventRecord(event_, stream));
  }
  ~Work() { cudaEventDestroy(event_); }
  bool done() const { return cudaEventQuery(event_) == cudaSuccess; }
  void wait() const { cuda(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_;
};

class ProcessGroup {
 public:
  ProcessGroup(const Store& store, int rank, int size) : rank(rank), size(size) {
    ncclUniqueId id;
    if (rank == 0) {
      nccl(ncclGetUniqueId(&id));
      store.serve({id.internal, sizeof id}, size - 1);
    } else {
      store.fetch({id.internal, sizeof id});
    }
    cuda(cudaSetDevice(rank));
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 0;
    config.netName = "Socket";
    nccl(ncclCommInitRankConfig(&comm_, size, id, rank, &config));
    ready();
    watchdog_ = std::jthread([this](std::stop_token stop) { watch(stop); });
  }
  ~ProcessGroup() {
    watchdog_.request_stop();
    watchdog_.join();
    if (comm_) ncclCommAbort(comm_);
    cudaStreamDestroy(stream);
  }

  std::shared_ptr<Work> allreduce(std::span<float> x, ncclRedOp_t op = ncclSum) {
    nccl(ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, op, comm_, stream));
    ready();
    return std::make_shared<Work>(stream);
  }
  std::shared_ptr<Work> exchange(std::span<float> out, std::span<float> in) { // equal parts for all
    const size_t part = out.size() / size;
    nccl(ncclGroupStart());
    for (int peer = 0; peer < size; peer++) {
      nccl(ncclSend(&out[peer * part], part, ncclFloat, peer, comm_, stream));
      nccl(ncclRecv(&in[peer * part], part, ncclFloat, peer, comm_, stream));
    }
    nccl(ncclGroupEnd());
    ready();
    return std::make_shared<Work>(stream);
  }
  std::optional<ncclResult_t> failure(std::chrono::milliseconds within) const {
    const auto end = std::chrono::steady_clock::now() + within;
    while (failed_ == ncclSuccess && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(2ms);
    return failed_ == ncclSuccess ? std::nullopt : std::optional(failed_.load());
  }

  const int rank, size;
  cudaStream_t stream;

 private:
  void ready() const {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) nccl(ncclCommGetAsyncError(comm_, &state));
    nccl(state);
  }
  void watch(std::stop_token stop) {
    while (!stop.stop_requested()) {
      ncclResult_t state = ncclSuccess;
      if (ncclCommGetAsyncError(comm_, &state) == ncclSuccess && state != ncclSuccess && state != ncclInProgress) failed_ = state;
      std::this_thread::sleep_for(5ms);
    }
  }
  ncclComm_t comm_ = nullptr;
  std::atomic<ncclResult_t> failed_{ncclSuccess};
  std::jthread watchdog_;
};

static int runRank(const Store& store, int rank, int size) {
  ProcessGroup group(store, rank, size);
  constexpr size_t kPart = 1000;
  const size_t n = kPart * size;
  std::vector<float> host(n);
  float *a, *b;
  cuda(cudaMalloc(&a, n * sizeof(float)));
  cuda(cudaMalloc(&b, n * sizeof(float)));
  for (size_t i = 0; i < n; i++) host[i] = rank * 100.f + i / kPart;
  cuda(cudaMemcpy(a, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  auto first = group.exchange({a, n}, {b, n});
  auto second = group.allreduce({b, n});
  second->wait();
  if (!first->done()) throw std::runtime_error("work out of order");
  cuda(cudaMemcpy(host.data(), b, n * sizeof(float), cudaMemcpyDeviceToHost));
#ifdef PLANT
  host[1] = -1;
#endif
  for (size_t i = 0; i < n; i++) // from rank i / kPart, summed over the receivers
    if (host[i] != size * 100.f * (i / kPart) + size * (size - 1) / 2) throw std::runtime_error("wrong at " + std::to_string(i));

  if (size > 1 && rank == size - 1) _exit(42); // dies without a word
  if (size > 1) {
    auto failure = group.failure(20s);
    if (!failure) throw std::runtime_error("nobody told of the rank that died");
    std::string told = ncclGetLastError(nullptr);
    if (*failure != ncclRemoteError || told.find("rank " + std::to_string(size - 1)) == told.npos)
      throw std::runtime_error("another error: " + std::to_string(*failure) + " " + told);
  }
  cuda(cudaFree(a));
  cuda(cudaFree(b));
  return 0;
}

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  Store store;
  for (int rank = 0; rank < size; rank++) {
    if (fork() != 0) continue;
    int status = 1;
    try {
      status = runRank(store, rank, size);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    }
    std::fflush(nullptr);
    _exit(status);
  }
  int status, failed = 0, died = 0;
  while (wait(&status) > 0) WIFEXITED(status) && WEXITSTATUS(status) == 42 ? died++ : failed += status != 0;
  const bool ok = failed == 0 && died == (size > 1);
  std::puts(ok ? "process_group: ok" : "process_group: WRONG");
  return !ok;
}
