/* Numbers of DOCA's device verbs, and the entries of an mlx5 NIC's queues. For host code that fills or decodes them,
 * too. Every field of the entries is big-endian. C-safe.
 *
 * A program that brings DOCA itself keeps that: the guard is DOCA's. */
#ifndef DOCA_GPUNETIO_VERBS_DEF_H
#define DOCA_GPUNETIO_VERBS_DEF_H
#include <limits.h>
#include <stdint.h>
#if defined(__has_include)
#if __has_include(<linux/types.h>)
#include <linux/types.h>
#define GINRS_HAS_BE 1
#endif
#endif
#ifndef GINRS_HAS_BE
typedef uint16_t __be16;
typedef uint32_t __be32;
typedef unsigned long long __be64;
#endif

#define DOCA_GPUNETIO_VERBS_WARP_SIZE 32
#define DOCA_GPUNETIO_VERBS_WARP_FULL_MASK 0xffffffffu
#define DOCA_GPUNETIO_VERBS_PAGE_SIZE 65536
#define DOCA_GPUNETIO_VERBS_CQE_CI_MASK 0xffffff
#define DOCA_GPUNETIO_VERBS_CQE_SIZE 64
#define DOCA_GPUNETIO_VERBS_WQE_PI_MASK 0xffff
#define DOCA_GPUNETIO_VERBS_WQE_IDX_SHIFT 8
#define DOCA_GPUNETIO_VERBS_MAX_INLINE_SIZE 28
#define DOCA_GPUNETIO_VERBS_MAX_TRANSFER_SIZE_SHIFT 30
#define DOCA_GPUNETIO_VERBS_MAX_TRANSFER_SIZE (1ull << DOCA_GPUNETIO_VERBS_MAX_TRANSFER_SIZE_SHIFT)
#define DOCA_GPUNETIO_VERBS_MKEY_SWAPPED 1
#define DOCA_GPUNETIO_VERBS_MLX5_CQE_OPCODE_SHIFT 4
#define DOCA_GPUNETIO_IB_MLX5_WQE_SQ_SHIFT 6
#ifndef DOCA_GPUNETIO_VERBS_ENABLE_DEBUG
#define DOCA_GPUNETIO_VERBS_ENABLE_DEBUG 0
#endif

enum doca_gpu_dev_verbs_resource_sharing_mode {
  DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_EXCLUSIVE = 0,
  DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_CTA = 1,
  DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU = 2,
  DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_MAX = INT_MAX
};

enum doca_gpu_dev_verbs_nic_handler {
  DOCA_GPUNETIO_VERBS_NIC_HANDLER_AUTO = 0,
  DOCA_GPUNETIO_VERBS_NIC_HANDLER_CPU_PROXY = 1,
  DOCA_GPUNETIO_VERBS_NIC_HANDLER_GPU_SM_DB = 2,
  DOCA_GPUNETIO_VERBS_NIC_HANDLER_GPU_SM_BF = 3,
  DOCA_GPUNETIO_VERBS_NIC_HANDLER_TYPE_MAX
};

enum doca_gpu_dev_verbs_mem_type {
  DOCA_GPUNETIO_VERBS_MEM_TYPE_AUTO = 0,
  DOCA_GPUNETIO_VERBS_MEM_TYPE_HOST = 1,
  DOCA_GPUNETIO_VERBS_MEM_TYPE_GPU = 2,
  DOCA_GPUNETIO_VERBS_MEM_TYPE_MAX = INT_MAX
};

enum doca_gpu_dev_verbs_exec_scope { DOCA_GPUNETIO_VERBS_EXEC_SCOPE_THREAD = 0, DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP };

enum doca_gpu_dev_verbs_sync_scope {
  DOCA_GPUNETIO_VERBS_SYNC_SCOPE_SYS = 0,
  DOCA_GPUNETIO_VERBS_SYNC_SCOPE_GPU = 1,
  DOCA_GPUNETIO_VERBS_SYNC_SCOPE_CTA = 2,
  DOCA_GPUNETIO_VERBS_SYNC_SCOPE_MAX = INT_MAX
};

enum doca_gpu_dev_verbs_gpu_code_opt {
  DOCA_GPUNETIO_VERBS_GPU_CODE_OPT_DEFAULT = 0,
  DOCA_GPUNETIO_VERBS_GPU_CODE_OPT_ASYNC_STORE_RELEASE = 1,
  DOCA_GPUNETIO_VERBS_GPU_CODE_OPT_MAX = INT_MAX
};

enum doca_gpu_dev_verbs_qp_type { DOCA_GPUNETIO_VERBS_QP_SQ = 0 };

enum doca_gpu_dev_verbs_signal_op { DOCA_GPUNETIO_VERBS_SIGNAL_OP_ADD = 0 };

enum doca_gpu_dev_verbs_wqe_ctrl_flags {
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CQ_ERROR_UPDATE = 0x00,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_SOLICITED = 0x02,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CQ_FIRST_CQE_ERROR = 0x04,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CQ_UPDATE = 0x08,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE = 0x20,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_STRONG_ORDERING = 0x60,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_FENCE = 0x80
};

/* The CE and FM fields that those flags are made of. */
enum {
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CE_CQE_ON_CQE_ERROR = 0,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CE_CQE_ON_FIRST_CQE_ERROR = 1,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CE_CQE_ALWAYS = 2,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_CE_CQE_AND_EQE = 3
};
enum {
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_FM_NO_FENCE = 0,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_FM_INITIATOR_SMALL_FENCE = 1,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_FM_FENCE = 2,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_FM_STRONG_ORDERING = 3,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_FM_FENCE_AND_INITIATOR_SMALL_FENCE = 4,
  DOCA_GPUNETIO_IB_MLX5_WQE_CTRL_FM_CUSTOM = 256
};

/* Words of a doorbell record. */
enum { DOCA_GPUNETIO_IB_MLX5_RCV_DBR = 0, DOCA_GPUNETIO_IB_MLX5_SND_DBR = 1 };

/* Segments of 16 bytes that an entry takes. */
enum {
  DOCA_GPUNETIO_VERBS_WQE_SEG_CNT_WAIT = 2,
  DOCA_GPUNETIO_VERBS_WQE_SEG_CNT_RDMA_WRITE_INL_MIN = 3,
  DOCA_GPUNETIO_VERBS_WQE_SEG_CNT_RDMA_WRITE_INL_MAX = 4,
  DOCA_GPUNETIO_VERBS_WQE_SEG_CNT_ATOMIC_FA_CAS = 4
};

/* In byte_count of an inline segment. In C an enumerator is an int, which has no such value. */
#ifdef __cplusplus
enum { DOCA_GPUNETIO_IB_MLX5_INLINE_SEG = 0x80000000 };
#else
#define DOCA_GPUNETIO_IB_MLX5_INLINE_SEG 0x80000000u
#endif

enum {
  DOCA_GPUNETIO_IB_MLX5_OPCODE_NOP = 0x00,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_SEND_INVAL = 0x01,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_WRITE = 0x08,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_WRITE_IMM = 0x09,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_SEND = 0x0a,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_SEND_IMM = 0x0b,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_TSO = 0x0e,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_WAIT = 0x0f,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_RDMA_READ = 0x10,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_ATOMIC_CS = 0x11,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_ATOMIC_FA = 0x12,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_ATOMIC_MASKED_CS = 0x14,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_ATOMIC_MASKED_FA = 0x15,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_FMR = 0x19,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_LOCAL_INVAL = 0x1b,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_CONFIG_CMD = 0x1f,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_SET_PSV = 0x20,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_DUMP = 0x23,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_UMR = 0x25,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_TAG_MATCHING = 0x28,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_FLOW_TBL_ACCESS = 0x2c,
  DOCA_GPUNETIO_IB_MLX5_OPCODE_MMO = 0x2f
};

/* op_own: the owner bit, and above DOCA_GPUNETIO_VERBS_MLX5_CQE_OPCODE_SHIFT one of these. */
enum {
  DOCA_GPUNETIO_IB_MLX5_CQE_OWNER_MASK = 1,
  DOCA_GPUNETIO_IB_MLX5_CQE_REQ = 0,
  DOCA_GPUNETIO_IB_MLX5_CQE_RESP_WR_IMM = 1,
  DOCA_GPUNETIO_IB_MLX5_CQE_RESP_SEND = 2,
  DOCA_GPUNETIO_IB_MLX5_CQE_RESP_SEND_IMM = 3,
  DOCA_GPUNETIO_IB_MLX5_CQE_RESP_SEND_INV = 4,
  DOCA_GPUNETIO_IB_MLX5_CQE_RESIZE_CQ = 5,
  DOCA_GPUNETIO_IB_MLX5_CQE_NO_PACKET = 6,
  DOCA_GPUNETIO_IB_MLX5_CQE_SIG_ERR = 12,
  DOCA_GPUNETIO_IB_MLX5_CQE_REQ_ERR = 13,
  DOCA_GPUNETIO_IB_MLX5_CQE_RESP_ERR = 14,
  DOCA_GPUNETIO_IB_MLX5_CQE_INVALID = 15
};

struct doca_gpunetio_ib_mlx5_wqe_data_seg {
  __be32 byte_count, lkey;
  __be64 addr;
};

struct doca_gpunetio_ib_mlx5_wqe_raddr_seg {
  __be64 raddr;
  __be32 rkey, reserved;
};

struct doca_gpunetio_ib_mlx5_wqe_atomic_seg {
  __be64 swap_add, compare;
};

struct doca_gpunetio_ib_mlx5_wqe_inl_data_seg {
  uint32_t byte_count;
};

struct doca_gpunetio_ib_mlx5_wqe_ctrl_seg {
  __be32 opmod_idx_opcode, qpn_ds;
  uint8_t signature;
  __be16 dci_stream_channel_id;
  uint8_t fm_ce_se;
  __be32 imm;
} __attribute__((packed, aligned(4)));

struct doca_gpunetio_ib_ibv_tmh {
  uint8_t opcode, reserved[3];
  __be32 app_ctx;
  __be64 tag;
};

struct doca_gpunetio_ib_mlx5_tm_cqe {
  __be32 success;
  __be16 hw_phase_cnt;
  uint8_t rsvd0[12];
};

struct doca_gpunetio_ib_mlx5_cqe64 {
  union {
    struct {
      uint8_t rsvd0[2];
      __be16 wqe_id;
      uint8_t rsvd4[13], ml_path, rsvd20[4];
      __be16 slid;
      __be32 flags_rqpn;
      uint8_t hds_ip_ext, l4_hdr_type_etc;
      __be16 vlan_info;
    };
    struct doca_gpunetio_ib_mlx5_tm_cqe tm_cqe;
    struct doca_gpunetio_ib_ibv_tmh tmh;
  };
  __be32 srqn_uidx, imm_inval_pkey;
  uint8_t app, app_op;
  __be16 app_info;
  __be32 byte_cnt;
  __be64 timestamp;
  __be32 sop_drop_qpn;
  __be16 wqe_counter;
  uint8_t signature, op_own;
};

struct doca_gpunetio_ib_mlx5_err_cqe_ex {
  uint8_t rsvd0[32];
  __be32 srqn;
  uint8_t rsvd1[16], hw_err_synd, hw_synd_type, vendor_err_synd, syndrome;
  __be32 s_wqe_opcode_qpn;
  __be16 wqe_counter;
  uint8_t signature, op_own;
};
#endif
