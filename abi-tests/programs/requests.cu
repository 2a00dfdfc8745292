// Work requests written by the device verbs on the queue pairs of a GDAKI context. REQUEST chooses:
//   fine     a write, an inline value, inline data of 9 to 28 bytes and an add on a signal, each polled for
//   others   one request that must not be done: the last rank posts it to rank 0. Its completion is the error that a card would give,
//            nothing of it is done, and every rank hears of it
#include <errno.h>
#include <stdint.h>
#include "../../examples-c/common/example.h"

static const size_t kSize = 64 << 10;

struct Wrong {
  const char* name;
  int syndrome;
};
static const Wrong wrongs[] = {
  {"fine", 0}, {"remote key of another rank", 0x13}, {"no remote key", 0x13}, {"behind the target's end", 0x13}, {"no local key", 0x04},
  {"behind the source's end", 0x04}, {"all ones", 0x13}, {"read", 0x02}, {"add to a window", 0x13}, {"add to no signal", 0x13}, {"signal of nobody", 0x13}, {"counter of nobody", 0x13},
  {"index of another", 0x02}, {"waits for no queue", 0x02},
};

template <typename Prepare>
__device__ int post(doca_gpu_dev_verbs_qp* qp, Prepare prepare) {
  constexpr auto gpu = DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU;
  uint64_t index = doca_gpu_dev_verbs_reserve_wq_slots<gpu>(qp, 1);
  prepare(doca_gpu_dev_verbs_get_wqe_ptr(qp, uint16_t(index)), uint16_t(index));
  doca_gpu_dev_verbs_mark_wqes_ready<gpu>(qp, index, index);
  doca_gpu_dev_verbs_submit<gpu>(qp, index + 1);
  return doca_gpu_dev_verbs_poll_cq_at<gpu>(&qp->cq_sq, index);
}

// What the poll says, and the entry's syndrome.
__global__ void request(ncclDevComm comm, ncclWindow_t window, int which, int* said) {
  auto* context = static_cast<ncclGinGdakiGPUContext*>(comm.ginHandles[0]);
  auto* memory = static_cast<ncclGinGdakiMemHandle*>(window->ginWins[0]);
  doca_gpu_dev_verbs_qp* qp = &context->gdqp[0];
  uint32_t own = memory->lkey, theirs = memory->rkeys[0], signals = context->signals_table.rkeys[0], sink = context->sink_buffer_lkey;
  auto write = [&](uint64_t to, uint32_t key, uint64_t from, uint32_t lkey, uint32_t opcode = DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_WRITE, int off = 0) {
    return post(qp, [=](auto* wqe, uint16_t index) {
      doca_gpu_dev_verbs_wqe_prepare_write(qp, wqe, uint16_t(index + off), opcode, DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CQ_UPDATE, 0, to, key, from, lkey, 64);
    });
  };
  auto add = [&](uint64_t to, uint32_t key) {
    return post(qp, [=](auto* wqe, uint16_t index) {
      doca_gpu_dev_verbs_wqe_prepare_atomic(qp, wqe, index, DOCA_GPUNETIO_IB_MLX5_OPCODE_ATOMIC_FA, DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CQ_UPDATE, to, key, 0, sink, 8,
                                            5, 0);
    });
  };
  int result = 0;
  switch (which) {
    case 0:
      result = write(128, theirs, 0, own);
      if (result == 0) {
        doca_gpu_dev_verbs_ticket_t ticket;
        doca_gpu_dev_verbs_p<uint32_t>(qp, doca_gpu_dev_verbs_addr{1024, theirs}, 0xffffffffu, &ticket);
        result = doca_gpu_dev_verbs_poll_cq_at<DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU>(&qp->cq_sq, ticket);
      }
      // Behind them what they must not touch.
      for (uint32_t bytes = 9; result == 0 && bytes <= 28; bytes++) {
        uint8_t data[28];
        for (uint32_t i = 0; i < 28; i++) data[i] = uint8_t(bytes + i);
        result = post(qp, [&](auto* wqe, uint16_t index) {
          doca_gpu_dev_verbs_wqe_prepare_write_inl(qp, wqe, index, DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CQ_UPDATE, 2048 + 32 * bytes, theirs, uint64_t(data), bytes);
        });
      }
      if (result == 0) result = add(8 * comm.ginSignalBase, signals);
      break;
    case 1: result = write(0, memory->rkeys[comm.rank], 0, own); break;
    case 2: result = write(0, 0x12345678, 0, own); break;
    case 3: result = write(kSize - 63, theirs, 0, own); break;
    case 4: result = write(0, theirs, 0, 0); break;
    case 5: result = write(0, theirs, kSize, own); break;
    case 6: result = write(~uint64_t(0), ~0u, ~uint64_t(0), ~0u); break;
    case 7: result = write(0, theirs, 0, own, DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_READ); break;
    case 8: result = add(0, theirs); break;
    case 9: result = add(uint64_t(1) << 40, signals); break;
    case 10: result = add(8 * (comm.ginSignalBase + 1), signals); break;
    case 11: result = add(8 * (comm.ginCounterBase + 1), context->counters_table.rkeys[comm.rank]); break;
    case 12: result = write(0, theirs, 0, own, DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_WRITE, 1); break;
    case 13:
      qp = &context->companion_gdqp[0];
      result = post(qp, [=](auto* wqe, uint16_t index) {
        doca_gpu_dev_verbs_wqe_prepare_wait(qp, wqe, index, DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CQ_UPDATE, 0, 0xffffff);
      });
      break;
  }
  said[0] = result;
  said[1] = qp->cq_sq.cqe_daddr[55];
}

__global__ void await(ncclDevComm comm) { ncclGin(comm, 0).waitSignal(ncclCoopThread(), 0, 5); }

int runRank(Example& ex) {
  const char* name = getenv("REQUEST") ? getenv("REQUEST") : "fine";
  int which = 0, nWrongs = sizeof wrongs / sizeof *wrongs;
  while (which < nWrongs && strcmp(wrongs[which].name, name)) which++;
  if (which == nWrongs) return fprintf(stderr, "REQUEST=%s is none\n", name), 1;
  ncclWindow_t window;
  char* memory = (char*)ex.allocWindow(kSize, &window);
  CUDACHECK(cudaMemset(memory, ex.rank == 0 ? 0 : 0x5a, kSize));
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
  reqs.ginSignalCount = reqs.ginCounterCount = 1;
  ncclDevComm comm;
  NCCLCHECK(ncclDevCommCreate(ex.comm, &reqs, &comm));
  if (comm.ginTypes[0] != NCCL_NET_DEVICE_GIN_GDAKI) return fprintf(stderr, "no GDAKI: NCCL_GIN_TYPE=3\n"), 1;
  int *said, got[2] = {};
  CUDACHECK(cudaMalloc(&said, sizeof got));
  bool const posts = ex.rank == ex.nRanks - 1;
  if (posts) {
    request<<<1, 1, 0, ex.stream>>>(comm, window, which, said);
  } else if (ex.rank == 0) {
    await<<<1, 1, 0, ex.stream>>>(comm);
  }
  CUDACHECK(cudaStreamSynchronize(ex.stream));
  if (posts) {
    CUDACHECK(cudaMemcpy(got, said, sizeof got, cudaMemcpyDeviceToHost));
    // A poll that comes after the abort, on a busy machine, is ended by it and not by its entry.
    bool const ended = got[0] == -EIO || got[0] == 0;
    if (which == 0 ? got[0] != 0 : !ended || got[1] != wrongs[which].syndrome) {
      return fprintf(stderr, "%s: the poll says %d, the syndrome is %#x\n", name, got[0], got[1]), 1;
    }
  }
  std::vector<unsigned char> bytes(kSize);
  CUDACHECK(cudaMemcpy(bytes.data(), memory, kSize, cudaMemcpyDeviceToHost));
  for (size_t i = 0; ex.rank == 0 && i < kSize; i++) {
    size_t inlined = i < 2048 ? 0 : (i - 2048) / 32;
    bool isInlined = inlined >= 9 && inlined <= 28 && i % 32 < inlined;
    int expected = which == 0 && isInlined ? int(inlined + i % 32) : which != 0 ? 0 : i >= 128 && i < 192 ? 0x5a : i >= 1024 && i < 1028 ? 0xff : 0;
    if (bytes[i] != expected) return fprintf(stderr, "%s: byte %zu is %#x\n", name, i, bytes[i]), 1;
  }
  ncclResult_t state = ncclSuccess;
  for (int turn = 0; which != 0 && state == ncclSuccess && turn < 5000; turn++) {
    NCCLCHECK(ncclCommGetAsyncError(ex.comm, &state));
    usleep(1000);
  }
  if (which != 0) {
    if (state == ncclSuccess) return fprintf(stderr, "%s: nobody told rank %d\n", name, ex.rank), 1;
    printf("told: %s\n", ncclGetLastError(ex.comm));
    fflush(stdout);
    _exit(0);
  }
  CUDACHECK(cudaFree(said));
  NCCLCHECK(ncclDevCommDestroy(ex.comm, &comm));
  ex.freeWindow(memory, window);
  return 0;
}
