/* DOCA's device verbs: a queue pair and a completion queue as GPU and host share them, and work queue entries. Layouts only, as
 * doca_gpunetio_verbs_def.h. C-safe. */
#ifndef DOCA_GPUNETIO_VERBS_DEV_H
#define DOCA_GPUNETIO_VERBS_DEV_H
#include "doca_gpunetio_verbs_def.h"

typedef uint64_t doca_gpu_dev_verbs_ticket_t;

struct doca_gpu_dev_verbs_addr {
  uint64_t addr;
  __be32 key;
};

/* Lives in GPU memory; threads move cqe_ci. */
struct doca_gpu_dev_verbs_cq {
  uint8_t* cqe_daddr;
  uint32_t cq_num, cqe_num;
  __be32* dbrec;
  uint64_t cqe_ci;
  uint32_t cqe_mask;
  uint8_t cqe_size;
  uint64_t cqe_rsvd;
  enum doca_gpu_dev_verbs_mem_type mem_type;
};

/* Lives in GPU memory; threads move the three indices and take the lock. */
struct doca_gpu_dev_verbs_qp {
  uint64_t sq_rsvd_index, sq_ready_index, sq_wqe_pi;
  uint32_t sq_num;
  uint32_t sq_num_shift8; /* and in big-endian, alone and with the number of segments */
  uint32_t sq_num_shift8_be, sq_num_shift8_be_1ds, sq_num_shift8_be_2ds, sq_num_shift8_be_3ds, sq_num_shift8_be_4ds;
  int sq_lock;
  uint16_t sq_wqe_num, sq_wqe_mask;
  uint8_t* sq_wqe_daddr;
  __be32* sq_dbrec;
  uint64_t* sq_db;

  uint32_t rq_num;
  uint64_t rq_wqe_pi;
  uint32_t rq_wqe_num, rq_wqe_mask;
  uint8_t* rq_wqe_daddr;
  __be32* rq_dbrec;
  uint32_t rcv_wqe_size;
  uint64_t rq_rsvd_index, rq_ready_index;
  int rq_lock;

  struct doca_gpu_dev_verbs_cq cq_sq, cq_rq;
  enum doca_gpu_dev_verbs_nic_handler nic_handler;
  enum doca_gpu_dev_verbs_mem_type mem_type;
};

struct doca_gpu_dev_verbs_wqe_ctrl_seg {
  __be32 opmod_idx_opcode, qpn_ds;
  union {
    struct {
      uint8_t signature, rsvd[2], fm_ce_se;
    };
    uint32_t signature_fm_ce_se;
  };
  __be32 imm;
} __attribute__((aligned(8)));

struct doca_gpu_dev_verbs_wqe_wait_seg {
  uint32_t resv[2];
  __be32 max_index, qpn_cqn;
} __attribute__((aligned(8)));

/* An entry by its segments: as data, and by the kind of operation. */
struct doca_gpu_dev_verbs_wqe {
  union {
    uint8_t inl_data[64];
    struct {
      struct doca_gpunetio_ib_mlx5_wqe_data_seg dseg0, dseg1, dseg2, dseg3;
    };
    struct {
      struct doca_gpu_dev_verbs_wqe_ctrl_seg rw_cseg;
      struct doca_gpunetio_ib_mlx5_wqe_raddr_seg rw_rseg;
      struct doca_gpunetio_ib_mlx5_wqe_data_seg rw_dseg0, rw_dseg1;
    };
    struct {
      struct doca_gpu_dev_verbs_wqe_ctrl_seg at_cseg;
      struct doca_gpunetio_ib_mlx5_wqe_raddr_seg at_rseg;
      struct doca_gpunetio_ib_mlx5_wqe_atomic_seg at_seg;
      struct doca_gpunetio_ib_mlx5_wqe_data_seg at_dseg;
    };
    struct {
      struct doca_gpu_dev_verbs_wqe_ctrl_seg snd_cseg;
      struct doca_gpunetio_ib_mlx5_wqe_data_seg snd_dseg0, snd_dseg1, snd_dseg2;
    };
    struct {
      struct doca_gpu_dev_verbs_wqe_ctrl_seg wait_cseg;
      struct doca_gpu_dev_verbs_wqe_wait_seg wait_dseg;
      struct doca_gpunetio_ib_mlx5_wqe_data_seg padding0, padding1;
    };
  };
};
#endif
