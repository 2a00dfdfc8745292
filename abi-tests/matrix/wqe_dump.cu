/* T115: what GIN and the device verbs write into mlx5 send queues, byte for byte. Device code posts into queues in plain
 * memory; the host compares with requests that it builds from the format's description, and prints all it found. Compiled
 * with NVIDIA's headers and -DNCCL_GIN_GDAKI_ENABLE=1 it finds the same on a GPU. No network card takes part. */
#include <nccl_device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#define CUDA(call)                                                                   \
  do {                                                                               \
    cudaError_t error_ = (call);                                                     \
    if (error_ != cudaSuccess) {                                                     \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_)); \
      exit(2);                                                                       \
    }                                                                                \
  } while (0)

constexpr int kDepth = 64, kPeers = 2, kQueues = 2 * kPeers + 1; /* the last is for requests by hand */
constexpr uint32_t kRemoteKey = 0x11223344, kLocalKey = 0x55667788, kSignalKey = 0x99aabb00, kCounterKey = 0xccddee00,
                   kSinkKey = 0x12345678;
/* All that the device touches, in one piece of its memory. */
struct Memory {
  doca_gpu_dev_verbs_qp qps[kQueues];
  alignas(64) uint8_t rings[kQueues][kDepth][64];
  uint8_t completions[kQueues][kDepth][64];
  uint64_t doorbells[kQueues];
  uint32_t records[kQueues], keys[4][kPeers];
  ncclGinGdakiGPUContext context;
  ncclGinGdakiMemHandle dst, src;
  ncclWindow_vidmem to, from;
  uint64_t signals[16], counters[16], shadows[16], results[16];
  uint8_t payload[32];
};

__global__ void post(ncclDevComm d, ncclWindow_t to, ncclWindow_t from) {
  ncclGin g{d, 0};
  ncclTeam W = ncclTeamWorld(d);
  g.put(W, 1, to, 16, from, 32, 100);
  g.put(W, 1, to, 16, from, 32, 0, ncclGin_SignalInc{3});
  g.put(W, 1, to, 16, from, 32, 8, ncclGin_SignalAdd{3, 0x1122334455667788}, ncclGin_CounterInc{5});
  g.putValue(W, 1, to, 8, 1.5f, ncclGin_SignalInc{3});
  g.putValue(W, 1, to, 8, uint64_t(0x0102030405060708));
  g.signal(W, 1, ncclGin_SignalInc{2});
  g.put(W, 1, to, 0, from, 0, (size_t(3) << 30) + 5, ncclGin_SignalInc{3}, ncclGin_CounterInc{6});
  g.put(W, 0, to, 0, from, 0, 4096, ncclGin_None{}, ncclGin_CounterInc{7});
}

__global__ void byHand(Memory* m) {
  doca_gpu_dev_verbs_qp* qp = &m->qps[kQueues - 1];
  auto const update = DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CQ_UPDATE;
  auto at = [&](uint16_t i) { return doca_gpu_dev_verbs_get_wqe_ptr(qp, i); };
  uint64_t base = doca_gpu_dev_verbs_reserve_wq_slots<DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU>(qp, 7);
  doca_gpu_dev_verbs_wqe_prepare_write(qp, at(0), 0, DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_WRITE, update, 0, 0x1000, kRemoteKey,
                                       0x2000, kLocalKey, 300);
  doca_gpu_dev_verbs_wqe_prepare_read(qp, at(1), 1, update, 0x1000, kRemoteKey, 0x2000, kLocalKey, 300);
  doca_gpu_dev_verbs_wqe_prepare_nop(qp, at(2), 2, DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CQ_ERROR_UPDATE);
  doca_gpu_dev_verbs_wqe_prepare_atomic(qp, at(3), 3, DOCA_GPUNETIO_IB_MLX5_OPCODE_ATOMIC_FA, update, 0x1000, kRemoteKey,
                                        0x2000, kLocalKey, 8, 0x0102030405060708, 0);
  doca_gpu_dev_verbs_wqe_prepare_wait(qp, at(4), 4, update, 0x01020304, 77);
  doca_gpu_dev_verbs_prepare_inl_rdma_write_wqe_header(qp, at(5), 5, update, 0x1000, kRemoteKey, 4);
  doca_gpu_dev_verbs_prepare_inl_rdma_write_wqe_data<uint32_t>(qp, at(5), 0x0a0b0c0d);
  doca_gpu_dev_verbs_prepare_inl_rdma_write_wqe_header(qp, at(6), 6, update, 0x1000, kRemoteKey, 8);
  doca_gpu_dev_verbs_prepare_inl_rdma_write_wqe_data<uint64_t>(qp, at(6), 0x0102030405060708);
  doca_gpu_dev_verbs_mark_wqes_ready<DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU>(qp, base, base + 6);
  doca_gpu_dev_verbs_submit<DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU>(qp, base + 7);
  /* Not posted: what is compared only with NVIDIA's headers. */
  doca_gpu_dev_verbs_wqe_prepare_write(qp, at(40), 40, DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_WRITE_IMM, update, 0x01020304,
                                       0x1000, kRemoteKey, 0x2000, kLocalKey, 300);
  doca_gpu_dev_verbs_wqe_prepare_write(qp, at(41), 41, DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_WRITE, update, 0, 0x1000,
                                       kRemoteKey, 0x2000, kLocalKey, 300, 0x3000, kSinkKey, 400);
  doca_gpu_dev_verbs_wqe_prepare_atomic(qp, at(42), 42, DOCA_GPUNETIO_IB_MLX5_OPCODE_ATOMIC_CS, update, 0x1000, kRemoteKey,
                                        0x2000, kLocalKey, 8, 0x0102030405060708, 0x1112131415161718);
  doca_gpu_dev_verbs_wqe_prepare_atomic(qp, at(43), 43, DOCA_GPUNETIO_IB_MLX5_OPCODE_ATOMIC_FA, update, 0x1000, kRemoteKey,
                                        0x2000, kLocalKey, 8, 0x0102030405060708, 0x1112131415161718);
  doca_gpu_dev_verbs_wqe_prepare_write_inl(qp, at(44), 44, update, 0x1000, kRemoteKey, uint64_t(m->payload), 4);
  doca_gpu_dev_verbs_wqe_prepare_write_inl(qp, at(45), 45, update, 0x1000, kRemoteKey, uint64_t(m->payload), 20);
  m->results[0] = doca_gpu_dev_verbs_prepare_db(qp, 70000);
  m->results[1] = doca_gpu_dev_verbs_prepare_dbr(70000);
  m->results[2] = doca_gpu_dev_verbs_div_ceil_aligned_pow2(4097, 12);
  m->results[3] = doca_gpu_dev_verbs_cqe_idx_inc_mask(0xfffffe, 3);
  /* Completions: 0 is there, 1 is not, 2 has failed. */
  doca_gpu_dev_verbs_cq* cq = doca_gpu_dev_verbs_qp_get_cq_sq(qp);
  m->results[4] = uint64_t(int64_t(doca_gpu_dev_verbs_poll_one_cq_at(cq, 1)));
  m->results[5] = uint64_t(int64_t(doca_gpu_dev_verbs_poll_one_cq_at(cq, 0)));
  m->results[6] = uint64_t(int64_t(doca_gpu_dev_verbs_poll_one_cq_at(cq, 2)));
  doca_gpu_dev_verbs_wait(qp, 0);
  m->results[7] = qp->cq_sq.cqe_ci;
}

/* ---- The format, written down once more. ---- */
struct Bytes {
  uint8_t at[64] = {};
  int n = 0;
  Bytes& big(uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--) at[n++] = uint8_t(value >> (8 * i));
    return *this;
  }
  Bytes& little(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[n++] = uint8_t(value >> (8 * i));
    return *this;
  }
  Bytes& control(uint32_t qpn, uint32_t index, uint32_t opcode, uint32_t segments, uint32_t flags = 8) {
    return big(index & 0xffff, 3).big(opcode, 1).big(qpn << 8 | segments, 4).big(flags, 4).big(0, 4);
  }
  Bytes& remote(uint64_t address, uint32_t key) {
    return big(address, 8).little(key, 4).big(0, 4);
  }
  Bytes& local(uint32_t bytes, uint32_t key, uint64_t address) {
    return big(bytes, 4).little(key, 4).big(address, 8);
  }
};
static Bytes request(uint32_t qpn, uint32_t index, uint32_t opcode, uint32_t segments, uint32_t flags = 8) {
  Bytes b;
  b.at[0] = 0;
  return b.control(qpn, index, opcode, segments, flags);
}
static Bytes writeOf(uint32_t qpn, uint32_t index, uint64_t to, uint64_t from, uint32_t bytes) {
  return request(qpn, index, 0x08, 3).remote(to, kRemoteKey).local(bytes, kLocalKey, from);
}
static Bytes valueOf(uint32_t qpn, uint32_t index, uint64_t to, uint64_t value, uint32_t bytes) {
  return request(qpn, index, 0x08, 3).remote(to, kRemoteKey).big(0x80000000u | bytes, 4).little(value, int(bytes));
}
static Bytes addOf(uint32_t qpn, uint32_t index, uint32_t id, uint32_t key, uint64_t value) {
  return request(qpn, index, 0x12, 4).remote(id * 8, key).big(value, 8).big(0, 8).local(8, kSinkKey, 0);
}
static Bytes waitOf(uint32_t qpn, uint32_t index, uint32_t other, uint32_t cqn) {
  return request(qpn, index, 0x0f, 2).big(0, 8).big(other, 4).big(cqn, 4);
}

static int failures = 0;
/* Reserved words, and what a FETCH_ADD is to compare with: ignored, and NVIDIA's headers leave garbage there. */
static bool isIgnored(Bytes const& want, int byte) {
  int const opcode = want.at[3];
  if (opcode == 0x0f) return byte >= 16 && byte < 24;
  return (byte >= 28 && byte < 32) || (opcode == 0x12 && byte >= 40 && byte < 48);
}
static void compare(char const* what, int index, uint8_t const* got, Bytes const& want) {
  bool isSame = true; /* behind the last segment stands whatever was there */
  for (int i = 0; i < want.n; i++) isSame &= got[i] == want.at[i] || isIgnored(want, i);
  if (isSame) return;
  failures += 1;
  printf("%s %d differs: want", what, index);
  for (int i = 0; i < want.n; i++) printf("%s%02x", i % 16 == 0 ? " " : "", want.at[i]);
  printf("\n");
}
static void print(char const* what, int index, uint8_t const* got) {
  printf("%s %d:", what, index);
  for (int i = 0; i < 64; i++) printf("%s%02x", i % 16 == 0 ? " " : "", got[i]);
  printf("\n");
}

static uint32_t numberOf(int queue) {
  return 0x000102 + uint32_t(queue) * 0x010000;
}
/* Addresses in m are of device memory; what is set here goes there. */
static void fill(Memory& m, Memory* device) {
  memset(static_cast<void*>(&m), 0, sizeof m);
  for (int q = 0; q < kQueues; q++) {
    doca_gpu_dev_verbs_qp& qp = m.qps[q];
    uint32_t const number = numberOf(q);
    qp.sq_num = number;
    qp.sq_num_shift8 = number << 8;
    qp.sq_num_shift8_be = __builtin_bswap32(number << 8);
    qp.sq_num_shift8_be_1ds = __builtin_bswap32(number << 8 | 1);
    qp.sq_num_shift8_be_2ds = __builtin_bswap32(number << 8 | 2);
    qp.sq_num_shift8_be_3ds = __builtin_bswap32(number << 8 | 3);
    qp.sq_num_shift8_be_4ds = __builtin_bswap32(number << 8 | 4);
    qp.sq_wqe_num = kDepth;
    qp.sq_wqe_mask = kDepth - 1;
    qp.sq_wqe_daddr = device->rings[q][0];
    qp.sq_dbrec = &device->records[q];
    qp.sq_db = &device->doorbells[q];
    qp.nic_handler = q == 0 || q == kPeers ? DOCA_GPUNETIO_VERBS_NIC_HANDLER_CPU_PROXY : DOCA_GPUNETIO_VERBS_NIC_HANDLER_GPU_SM_DB;
    qp.cq_sq.cqe_daddr = device->completions[q][0];
    qp.cq_sq.cq_num = uint32_t(100 + q);
    qp.cq_sq.cqe_num = kDepth;
    qp.cq_sq.cqe_mask = kDepth - 1;
    qp.cq_sq.cqe_size = 64;
    for (int i = 0; i < kDepth; i++) m.completions[q][i][63] = 0xf1;
  }
  uint8_t(&last)[kDepth][64] = m.completions[kQueues - 1];
  last[0][63] = 0x00;
  last[2][61] = 2;
  last[2][63] = 0xd0;
  for (int peer = 0; peer < kPeers; peer++) {
    m.keys[0][peer] = kRemoteKey + (peer == 1 ? 0 : 1);
    m.keys[1][peer] = kSignalKey;
    m.keys[2][peer] = kCounterKey;
  }
  m.context.gdqp = device->qps;
  m.context.companion_gdqp = device->qps + kPeers;
  m.context.signals_table = {device->signals, device->keys[1], 0};
  m.context.counters_table = {device->counters, device->keys[2], 0};
  m.context.sink_buffer_lkey = kSinkKey;
  m.dst = {device->keys[0], 0};
  m.src = {device->keys[3], kLocalKey};
  m.to.ginOffset4K = 1;
  m.to.ginWins[0] = &device->dst;
  m.from.ginOffset4K = 2;
  m.from.ginWins[0] = &device->src;
  for (int i = 0; i < 32; i++) m.payload[i] = uint8_t(0xa0 + i);
}

static void check(Memory const& m) {
  uint32_t const q = numberOf(1), c = numberOf(3);
  uint8_t const(*ring)[64] = m.rings[1], (*counts)[64] = m.rings[3];
  uint64_t const to = 4096, from = 8192, gib = uint64_t(1) << 30;
  std::vector<Bytes> want = {
      writeOf(q, 0, to + 16, from + 32, 100),
      request(q, 1, 0x00, 1),
      addOf(q, 2, 8 + 3, kSignalKey, 1),
      writeOf(q, 3, to + 16, from + 32, 8),
      addOf(q, 4, 8 + 3, kSignalKey, 0x1122334455667788),
      valueOf(q, 5, to + 8, 0x3fc00000, 4),
      addOf(q, 6, 8 + 3, kSignalKey, 1),
      valueOf(q, 7, to + 8, 0x0102030405060708, 8),
      addOf(q, 8, 8 + 2, kSignalKey, 1),
      writeOf(q, 9, to, from, 1u << 30),
      writeOf(q, 10, to + gib, from + gib, 1u << 30),
      writeOf(q, 11, to + 2 * gib, from + 2 * gib, 1u << 30),
      writeOf(q, 12, to + 3 * gib, from + 3 * gib, 5),
      addOf(q, 13, 8 + 3, kSignalKey, 1),
  };
  for (int i = 0; i < int(want.size()); i++) {
    print("peer 1", i, ring[i]);
    compare("peer 1", i, ring[i], want[i]);
  }
  std::vector<Bytes> wantCounts = {waitOf(c, 0, 4, 101), addOf(c, 1, 4 + 5, kCounterKey, 1), waitOf(c, 2, 13, 101),
                                   addOf(c, 3, 4 + 6, kCounterKey, 1)};
  for (int i = 0; i < int(wantCounts.size()); i++) {
    print("companion 1", i, counts[i]);
    compare("companion 1", i, counts[i], wantCounts[i]);
  }
  for (int i = 0; i < 7; i++) print("by hand", i, m.rings[4][i]);
  uint32_t const h = numberOf(4);
  compare("by hand", 0, m.rings[4][0], request(h, 0, 0x08, 3).remote(0x1000, kRemoteKey).local(300, kLocalKey, 0x2000));
  compare("by hand", 1, m.rings[4][1], request(h, 1, 0x10, 3).remote(0x1000, kRemoteKey).local(300, kLocalKey, 0x2000));
  compare("by hand", 2, m.rings[4][2], request(h, 2, 0x00, 1, 0));
  compare("by hand", 3, m.rings[4][3],
          request(h, 3, 0x12, 4).remote(0x1000, kRemoteKey).big(0x0102030405060708, 8).big(0, 8).local(8, kLocalKey, 0x2000));
  compare("by hand", 4, m.rings[4][4], waitOf(h, 4, 0x01020304, 77));
  compare("by hand", 5, m.rings[4][5], valueOf(h, 5, 0x1000, 0x0a0b0c0d, 4));
  compare("by hand", 6, m.rings[4][6], valueOf(h, 6, 0x1000, 0x0102030405060708, 8));
  for (int i = 40; i < 46; i++) print("more by hand", i, m.rings[4][i]);

  struct {
    uint64_t claimed, doorbell;
    uint32_t record;
  } const wantEnds[kQueues] = {{1, 1, 0},
                               {14, __builtin_bswap64(uint64_t(14) << 40 | q << 8), __builtin_bswap32(14)},
                               {2, 2, 0},
                               {4, __builtin_bswap64(uint64_t(4) << 40 | c << 8), __builtin_bswap32(4)},
                               {7, __builtin_bswap64(uint64_t(7) << 40 | h << 8), __builtin_bswap32(7)}};
  for (int i = 0; i < kQueues; i++) {
    doca_gpu_dev_verbs_qp const& qp = m.qps[i];
    printf("queue %d: claimed %llu ready %llu rung %llu lock %d doorbell %016llx record %08x\n", i,
           (unsigned long long)qp.sq_rsvd_index, (unsigned long long)qp.sq_ready_index, (unsigned long long)qp.sq_wqe_pi,
           qp.sq_lock, (unsigned long long)m.doorbells[i], m.records[i]);
    bool const isRung = i == 0 || i == kPeers ? true : qp.sq_wqe_pi == wantEnds[i].claimed; /* the mailbox keeps no such index */
    if (qp.sq_rsvd_index != wantEnds[i].claimed || qp.sq_ready_index != wantEnds[i].claimed || !isRung || qp.sq_lock != 0 ||
        m.doorbells[i] != wantEnds[i].doorbell || m.records[i] != wantEnds[i].record) {
      failures += 1;
      printf("queue %d differs: want %llu %016llx %08x\n", i, (unsigned long long)wantEnds[i].claimed,
             (unsigned long long)wantEnds[i].doorbell, wantEnds[i].record);
    }
  }
  int64_t const wantResults[8] = {0, 0, 2, 1, 16, 0, -5, 1};
  for (int i = 0; i < 8; i++) {
    printf("result %d: %016llx\n", i, (unsigned long long)m.results[i]);
    if (i >= 2 && int64_t(m.results[i]) != wantResults[i]) failures += 1, printf("result %d differs\n", i);
  }
}

int main() {
  Memory* device;
  static Memory m;
  CUDA(cudaMalloc(reinterpret_cast<void**>(&device), sizeof m));
  fill(m, device);
  CUDA(cudaMemcpy(device, &m, sizeof m, cudaMemcpyHostToDevice));
  ncclDevComm d;
  memset(static_cast<void*>(&d), 0, sizeof d);
  d.nRanks = d.lsaSize = kPeers;
  d.ginContextCount = 1;
  d.ginTypes[0] = NCCL_NET_DEVICE_GIN_GDAKI;
  d.ginHandles[0] = &device->context;
  d.ginSignalBase = 8;
  d.ginCounterBase = 4;
  d.ginSignalCount = d.ginCounterCount = 8;
  d.ginSignalShadows = device->shadows;
  post<<<1, 1>>>(d, &device->to, &device->from);
  byHand<<<1, 1>>>(device);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpy(&m, device, sizeof m, cudaMemcpyDeviceToHost));
  check(m);
  printf("%s: %d differences\n", failures == 0 ? "ok" : "FAILED", failures);
  return failures != 0;
}
