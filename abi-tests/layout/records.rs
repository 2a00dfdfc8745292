//! Every struct that programs, kernels, plugins and the library share (spec host, appendix A), field by field.

use super::facts::{Record, Where, bytes, record};
use super::nic::*;
use super::plugin::*;
use ginrs::layout::*;

/// A test compares this list with the debug information of NVIDIA's headers: a struct or a field that is missing here fails it.
pub fn records() -> Vec<Record> {
    [host(), device(), gin(), verbs(), plugin()].into_iter().flatten().collect()
}

/// A.1
fn host() -> Vec<Record> {
    vec![
        record!(C, "ncclUniqueId", ncclUniqueId { internal }),
        record!(C, "ncclConfig_t", ncclConfig_t {
            size, magic, version, blocking, cgaClusterSize, minCTAs, maxCTAs, netName, splitShare, trafficClass, commName,
            collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched
        }),
        record!(C, "ncclSimInfo_t", ncclSimInfo_t { size, magic, version, estimatedTime }),
        record!(C, "ncclTeam_t", ncclTeam_t { nRanks, rank, stride }),
        record!(C, "ncclDevCommRequirements_t", ncclDevCommRequirements_t {
            resourceRequirementsList, teamRequirementsList, lsaMultimem, barrierCount, lsaBarrierCount, railGinBarrierCount,
            lsaLLA2ABlockCount, lsaLLA2ASlotCount, ginForceEnable, ginContextCount, ginSignalCount, ginCounterCount
        }),
        record!(C, "ncclDevResourceRequirements_t", ncclDevResourceRequirements_t {
            next, bufferSize, bufferAlign, outBufferHandle, ginSignalCount, ginCounterCount, outGinSignalStart, outGinCounterStart
        }),
        record!(C, "ncclTeamRequirements_t", ncclTeamRequirements_t { next, team, multimem, outMultimemHandle }),
        record!(C, "ncclMultimemHandle_t", ncclMultimemHandle_t { mcBasePtr }),
        record!(C, "ncclLsaBarrierHandle_t", ncclLsaBarrierHandle_t { bufHandle, nBarriers }),
        record!(Cxx, "ncclGinBarrierHandle_t", ncclGinBarrierHandle_t { signal0, bufHandle }),
        record!(C, "ncclLLA2AHandle_t", ncclLLA2AHandle_t { bufHandle, nSlots }),
        record!(C, "ncclResult_t", ncclResult_t {}),
        record!(C, "ncclDataType_t", ncclDataType_t {}),
        record!(C, "ncclRedOp_t", ncclRedOp_t {}),
        record!(C, "ncclScalarResidence_t", ncclScalarResidence_t {}),
        record!(C, "ncclComm_t", ncclComm_t {}),
        record!(C, "ncclWindow_t", ncclWindow_t {}),
        record!(C, "cudaStream_t", cudaStream_t {}),
        record!(C, "ncclDevResourceHandle_t", ncclDevResourceHandle_t {}),
        record!(C, "ncclGinSignal_t", ncclGinSignal_t {}),
        record!(C, "ncclGinCounter_t", ncclGinCounter_t {}),
    ]
}

/// A.2
fn device() -> Vec<Record> {
    vec![
        record!(C, "ncclWindow_vidmem", ncclWindow_vidmem {
            winHost, lsaFlatBase, lsaRank, worldRank, stride4G, mcOffset4K, ginOffset4K, ginWins
        }),
        record!(Cxx, "ncclDevCommWindowTable", ncclDevCommWindowTable { entries, next }),
        record!(Cxx, "ncclDevCommWindowTable::Entry", ncclDevCommWindowTableEntry { base, size, window }),
        record!(Cxx, "ncclDevComm_t", ncclDevComm {
            rank, nRanks, nRanks_rcp32, lsaRank, lsaSize, lsaSize_rcp32, windowTable, resourceWindow, resourceWindow_inlined,
            lsaMultimem, lsaBarrier, railGinBarrier, ginContextCount, ginTypes, ginHandles, ginSignalBase, ginSignalCount,
            ginCounterBase, ginCounterCount, ginSignalShadows
        }),
    ]
}

/// A.2 and A.3: what a GIN backend's host and device halves share.
fn gin() -> Vec<Record> {
    vec![
        record!(Cxx, "ncclGinCtx", - { "backend", "rank", "nRanks", "handle" }),
        record!(Cxx, "ncclGinCtx_M<12u>", - {}),
        record!(Cxx, "ncclGinDescriptorSmem", - { "space" }),
        record!(Cxx, "ncclGinSignalOp_t", - {}),
        record!(Cxx, "ncclGinGpuCtx_t", - {}),
        record!(Cxx, "ncclGinWindow_t", - {}),
        record!(Cxx, "ncclSymPtr<float>", - { "window", "offset" }),
        record!(Cxx, "ncclGinProxyGpuCtx_t", ncclGinProxyGpuCtx_t { nranks, queueSize, queues, pis, cis, counters, signals }),
        record!(Cxx, "ncclGinProxyGfd_t", ncclGinProxyGfd_t { qword }),
        record!(Cxx, "ncclGinProxyQword_t", - { "raw" }),
        record!(Cxx, "ncclGinProxyOp_t", - {}),
        record!(Cxx, "ncclGinProxyGfdQwordIdx_t", - {}),
        record!(Cxx, "ncclGinGdakiGlobalGPUBufferTable<uint64_t>", ncclGinGdakiGlobalGPUBufferTable { buffer, rkeys, lkey }),
        record!(Cxx, "ncclGinGdakiGPUContext", ncclGinGdakiGPUContext {
            gdqp, companion_gdqp, counters_table, signals_table, sink_buffer_lkey
        }),
        record!(Cxx, "ncclGinGdakiMemHandle", ncclGinGdakiMemHandle { rkeys, lkey }),
    ]
}

/// A.4
fn verbs() -> Vec<Record> {
    vec![
        record!(Doca, "doca_gpu_dev_verbs_qp", doca_gpu_dev_verbs_qp {
            sq_rsvd_index, sq_ready_index, sq_wqe_pi, sq_num, sq_num_shift8, sq_num_shift8_be, sq_num_shift8_be_1ds,
            sq_num_shift8_be_2ds, sq_num_shift8_be_3ds, sq_num_shift8_be_4ds, sq_lock, sq_wqe_num, sq_wqe_mask, sq_wqe_daddr,
            sq_dbrec, sq_db, rq_num, rq_wqe_pi, rq_wqe_num, rq_wqe_mask, rq_wqe_daddr, rq_dbrec, rcv_wqe_size, rq_rsvd_index,
            rq_ready_index, rq_lock, cq_sq, cq_rq, nic_handler, mem_type
        }),
        record!(Doca, "doca_gpu_dev_verbs_cq", doca_gpu_dev_verbs_cq {
            cqe_daddr, cq_num, cqe_num, dbrec, cqe_ci, cqe_mask, cqe_size, cqe_rsvd, mem_type
        }),
        record!(Doca, "doca_gpu_dev_verbs_addr", - { "addr", "key" }),
        record!(Doca, "doca_gpu_dev_verbs_wqe", doca_gpu_dev_verbs_wqe { dseg0, dseg1, dseg2, dseg3; c:
            "inl_data", "rw_cseg", "rw_rseg", "rw_dseg0", "rw_dseg1", "at_cseg", "at_rseg", "at_seg", "at_dseg", "snd_cseg",
            "snd_dseg0", "snd_dseg1", "snd_dseg2", "wait_cseg", "wait_dseg", "padding0", "padding1"
        }),
        record!(Doca, "doca_gpu_dev_verbs_wqe_ctrl_seg", doca_gpu_dev_verbs_wqe_ctrl_seg {
            opmod_idx_opcode, qpn_ds, signature, rsvd, fm_ce_se, imm; c: "signature_fm_ce_se"
        }),
        record!(Doca, "doca_gpu_dev_verbs_wqe_wait_seg", doca_gpu_dev_verbs_wqe_wait_seg { resv, max_index, qpn_cqn }),
        record!(Doca, "doca_gpunetio_ib_mlx5_wqe_data_seg", doca_gpunetio_ib_mlx5_wqe_data_seg { byte_count, lkey, addr }),
        record!(Doca, "doca_gpunetio_ib_mlx5_wqe_raddr_seg", doca_gpunetio_ib_mlx5_wqe_raddr_seg { raddr, rkey, reserved }),
        record!(Doca, "doca_gpunetio_ib_mlx5_wqe_atomic_seg", doca_gpunetio_ib_mlx5_wqe_atomic_seg { swap_add, compare }),
        record!(Doca, "doca_gpunetio_ib_mlx5_wqe_inl_data_seg", - { "byte_count" }),
        record!(Doca, "doca_gpunetio_ib_mlx5_wqe_ctrl_seg", - {
            "opmod_idx_opcode", "qpn_ds", "signature", "dci_stream_channel_id", "fm_ce_se", "imm"
        }),
        record!(Doca, "doca_gpunetio_ib_mlx5_err_cqe_ex", doca_gpunetio_ib_mlx5_err_cqe_ex {
            rsvd0, srqn, rsvd1, hw_err_synd, hw_synd_type, vendor_err_synd, syndrome, s_wqe_opcode_qpn, wqe_counter, signature,
            op_own
        }),
        record!(Doca, "doca_gpunetio_ib_mlx5_cqe64", - {
            "rsvd0", "wqe_id", "rsvd4", "ml_path", "rsvd20", "slid", "flags_rqpn", "hds_ip_ext", "l4_hdr_type_etc", "vlan_info",
            "tm_cqe", "tmh", "srqn_uidx", "imm_inval_pkey", "app", "app_op", "app_info", "byte_cnt", "timestamp", "sop_drop_qpn",
            "wqe_counter", "signature", "op_own"
        }),
        record!(Doca, "doca_gpunetio_ib_mlx5_tm_cqe", - { "success", "hw_phase_cnt", "rsvd0" }),
        record!(Doca, "doca_gpunetio_ib_ibv_tmh", - { "opcode", "reserved", "app_ctx", "tag" }),
    ]
}

/// A.5
fn plugin() -> Vec<Record> {
    vec![
        record!(Cxx, "ncclNetDeviceHandle_v7_t", ncclNetDeviceHandle_t {
            netDeviceType, netDeviceVersion, handle, size, needsProxyProgress
        }),
        record!(Cxx, "ncclNetDeviceHandle_v8_t", - {}),
        record!(Cxx, "ncclNetDeviceHandle_v9_t", - {}),
        record!(Cxx, "ncclNetDeviceHandle_v10_t", - {}),
        record!(Cxx, "ncclNetDeviceHandle_v11_t", - {}),
        record!(Cxx, "ncclNetDeviceHandle_t", ncclNetDeviceHandle_t {}),
        record!(Cxx, "ncclNetDeviceType", - {}),
        record!(Plugin, "ncclNetVDeviceProps_t", ncclNetVDeviceProps_t { ndevs, devs }),
        record!(Plugin, "ncclNetProperties_v11_t", ncclNetProperties_v11_t {
            name, pciPath, guid, ptrSupport, regIsGlobal, forceFlush, speed, port, latency, maxComms, maxRecvs, netDeviceType,
            netDeviceVersion, vProps, maxP2pBytes, maxCollBytes, maxMultiRequestSize
        }),
        record!(Plugin, "ncclGin_v11_t", ncclGin_v11_t {
            name, init, devices, getProperties, listen, connect, createContext, regMrSym, regMrSymDmaBuf, deregMrSym,
            destroyContext, closeColl, closeListen, iput, iputSignal, test, ginProgress, queryLastError, finalize
        }),
    ]
}
