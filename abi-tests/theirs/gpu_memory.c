// The soft libraries on memory that the host cannot touch: a write and an add by ibv_post_send between two GPUs' memories, and into the
// host's. tests/soft_layouts.rs runs it on the stand-in of the driver.
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(uint64_t*, size_t);
int cuMemcpyHtoD_v2(uint64_t, const void*, size_t);
int cuMemcpyDtoH_v2(void*, uint64_t, size_t);

enum { kWords = 1 << 18 };  // 2 MiB: more than goes through pinned memory at once
#define CHECK(what) if (!(what)) return fprintf(stderr, "line %d: %s\n", __LINE__, #what), 1

static int done(struct ibv_cq* cq) {
  struct ibv_wc entry;
  return ibv_poll_cq(cq, 1, &entry) == 1 && entry.status == IBV_WC_SUCCESS;
}

int main(void) {
  static uint64_t here[kWords], there[kWords];
  uint64_t memory[2];
  CHECK(cuInit(0) == 0);
  for (int device = 0; device < 2; device++) {
    void* context;
    CHECK(cuDevicePrimaryCtxRetain(&context, device) == 0 && cuCtxSetCurrent(context) == 0);
    for (int i = 0; i < kWords; i++) here[i] = (uint64_t)(device + 1) << 32 | (unsigned)i;
    CHECK(cuMemAlloc_v2(&memory[device], sizeof here) == 0 && cuMemcpyHtoD_v2(memory[device], here, sizeof here) == 0);
  }
  struct ibv_device** devices = ibv_get_device_list(NULL);
  struct ibv_context* context = ibv_open_device(devices[0]);
  struct ibv_pd* domain = ibv_alloc_pd(context);
  struct ibv_mr *mr[2], *host;
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  for (int i = 0; i < 2; i++) CHECK((mr[i] = ibv_reg_mr(domain, (void*)memory[i], sizeof here, access)) != NULL);
  CHECK((host = ibv_reg_mr(domain, there, sizeof there, access)) != NULL);
  struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_qp_init_attr made = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
  struct ibv_qp* pair[2] = {ibv_create_qp(domain, &made), ibv_create_qp(domain, &made)};
  for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
    for (int i = 0; i < 2; i++) {
      struct ibv_qp_attr next = {.qp_state = state, .dest_qp_num = pair[!i]->qp_num};
      CHECK(ibv_modify_qp(pair[i], &next, IBV_QP_STATE) == 0);
    }
  }
  // All but the last word of device 0's memory, one word further in device 1's.
  struct ibv_sge from = {.addr = memory[0], .length = sizeof here - 8, .lkey = mr[0]->lkey};
  struct ibv_send_wr wr = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
  wr.wr.rdma.remote_addr = memory[1] + 8, wr.wr.rdma.rkey = mr[1]->rkey;
  CHECK(ibv_post_send(pair[0], &wr, &bad) == 0 && done(cq));
  // The old value comes to the host.
  struct ibv_sge old = {.addr = (uint64_t)there, .length = 8, .lkey = host->lkey};
  struct ibv_send_wr add = {.sg_list = &old, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
  add.wr.atomic.remote_addr = memory[1], add.wr.atomic.compare_add = 5, add.wr.atomic.rkey = mr[1]->rkey;
  CHECK(ibv_post_send(pair[0], &add, &bad) == 0 && done(cq));
  CHECK(there[0] == 2ull << 32);
  CHECK(cuMemcpyDtoH_v2(there, memory[1], sizeof there) == 0 && there[0] == (2ull << 32) + 5);
  for (int i = 1; i < kWords; i++) CHECK(there[i] == (1ull << 32 | (unsigned)(i - 1)));
  // One byte past the end.
  wr.wr.rdma.remote_addr++, from.length++;
  struct ibv_wc entry;
  CHECK(ibv_post_send(pair[0], &wr, &bad) == 0 && ibv_poll_cq(cq, 1, &entry) == 1 && entry.status == IBV_WC_REM_ACCESS_ERR);
  puts("ok");
  return 0;
}
