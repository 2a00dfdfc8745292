//! Names that are known, and what a typing error was meant to be.

use super::table;

/// NCCL's other variables, without the prefix: known, without effect here, so no warning.
const OTHERS: &str = "ALGO ASYNC_ERROR_HANDLING BLOCKING_WAIT DESYNC_DEBUG ENABLE_TIMING ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CHECK_POINTERS CHECKS_DISABLE CHUNK_SIZE \
    COLLNET_NODE_THRESHOLD CREATE_THREAD_CONTEXT CROSS_NIC CUMEM_ENABLE \
    CUMEM_HOST_ENABLE ENV_PLUGIN GDR_FLUSH_DISABLE GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE \
    GDRCOPY_SYNC_ENABLE GIN_ERROR_QUERY_SEC GIN_PLUGIN GRAPH_DUMP_FILE GRAPH_FILE GRAPH_MIXING_SUPPORT \
    GRAPH_REGISTER IB_ADAPTIVE_ROUTING IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_DATA_DIRECT IB_ECE_ENABLE \
    IB_FIFO_TC IB_MERGE_NICS IB_MERGE_VFS IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC \
    IB_QPS_PER_CONNECTION IB_RETURN_ASYNC_EVENTS IB_ROUTABLE_FLID_GID_INDEX \
    IB_SPLIT_DATA_ON_QPS IB_USE_INLINE IB_WARN_RAIL_LOCAL IGNORE_DISABLED_P2P L1_SHARED_MEMORY_CARVEOUT \
    LAUNCH_MODE LAUNCH_ORDER_IMPLICIT LL_BUFFSIZE LL128_BUFFSIZE MAX_NCHANNELS MAX_NRINGS MAX_P2P_NCHANNELS \
    MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MNNVL_CLIQUE_ID MNNVL_ENABLE MNNVL_RAIL_PER_HOST MNNVL_SCATTER_NETS_ENABLE MNNVL_UUID \
    NET_DISABLE_INTRA NET_FORCE_FLUSH NET_FORCE_MERGE NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ NET_MERGE_LEVEL \
    NET_PLUGIN NET_PLUGIN_REF_COUNT NET_SHARED_BUFFERS NET_SHARED_COMMS NETDEVS_POLICY NSOCKS_PERTHREAD NTHREADS NVB_DISABLE \
    NVLS_CHUNKSIZE NVLS_NCHANNELS NVLSTREE_MAX_CHUNKSIZE OOB_NET_ENABLE OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL \
    P2P_LL_THRESHOLD P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_READ_ENABLE P2P_USE_CUDA_MEMCPY PROFILER_PLUGIN \
    PROGRESS_APPENDOP_FREQ PROTO PROXY_CPUSET PROXY_DUMP_SIGNAL PXN_C2C PXN_DISABLE RAS_ADDR RAS_ENABLE RAS_TIMEOUT_FACTOR RUNTIME_CONNECT \
    SET_CPU_STACK_SIZE SET_STACK_SIZE SET_THREAD_NAME SHM_DISABLE SHM_LOCALITY SHM_USE_CUDA_MEMCPY SHM_MEMCPY_MODE SINGLE_PROC_MEM_REG_ENABLE \
    SINGLE_RING_THRESHOLD SOCKET_INLINE SOCKET_MIN_TASKSIZE SOCKET_NTHREADS SOCKET_RCVBUF SOCKET_RETRY_CNT \
    SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF SYM_CTAS SYM_KERNEL THREAD_THRESHOLDS TOPO_DUMP_FILE TOPO_DUMP_FILE_RANK TOPO_FILE TUNER_CONFIG_FILE \
    TUNER_PLUGIN UID_STAGGER_RATE UID_STAGGER_THRESHOLD UNPACK_DOUBLE_NCHANNELS WORK_ARGS_BYTES WORK_FIFO_BYTES HOME INCLUDE_DIR LIB LIB_DIR LIBRARY ROOT ROOT_DIR \
    VERSION";

/// Variables of the tools, of the build and of ginrs_bootstrap.h, which read them themselves.
const TOOLS: &[&str] = &[
    "GINRS_PREFIX",
    "GINRS_BOOTSTRAP_TIMEOUT",
    "GINRS_RUN_ID",
    "GINRS_RSH",
    "GINRS_FATBIN",
    "GINRS_GPU_ARCHS",
    "GINRS_NVIDIA_NCCL",
    "GINRS_PERF",
    "GINRS_BENCH_MS",
];

/// Read by us, by our tools, or a variable of NCCL's without effect here.
pub(super) fn known(name: &str) -> bool {
    let other = name.strip_prefix("NCCL_").is_some_and(|name| OTHERS.split_whitespace().any(|other| other == name));
    other
        || table::find(name).is_some()
        || TOOLS.contains(&name)
        || name.starts_with("GINRS_TEST_")
        || name.starts_with("GINRS_MOCK_")
}

/// The known name that a typing error turned into `name`, if one is near.
pub(super) fn nearest(name: &str) -> Option<String> {
    let ours = table::TABLE.iter().map(|var| var.name.to_owned());
    let all = ours
        .chain(TOOLS.iter().map(|tool| (*tool).to_owned()))
        .chain(OTHERS.split_whitespace().map(|other| format!("NCCL_{other}")));
    let most = 1 + name.len() / 8;
    let all = all.filter(|known| known.len().abs_diff(name.len()) <= most);
    let (distance, near) = all.map(|known| (typing_distance(name.as_bytes(), known.as_bytes()), known)).min()?;
    (distance <= most).then_some(near)
}

/// Letters to add, drop, change or swap with their neighbour until `a` is `b`.
fn typing_distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_once_and_typing_errors_find_them() {
        for (i, var) in table::TABLE.iter().enumerate() {
            assert!(table::TABLE[..i].iter().all(|other| other.name != var.name), "{} stands twice", var.name);
            assert!(
                !var.name.strip_prefix("NCCL_").is_some_and(|n| OTHERS.split_whitespace().any(|o| o == n)),
                "{} is also in OTHERS",
                var.name
            );
        }
        assert_eq!(nearest("NCCL_DEBGU").as_deref(), Some("NCCL_DEBUG"));
        assert_eq!(nearest("GINRS_TIMEOUTS").as_deref(), Some("GINRS_TIMEOUT"));
        assert_eq!(nearest("NCCL_COMPLETELY_OTHER"), None);
        assert_eq!(typing_distance(b"kitten", b"sitting"), 3);
    }

    /// For every name of ours, here and there: a letter dropped, doubled, or swapped with the next.
    #[test]
    fn a_typing_error_in_any_name_finds_it() {
        let all = table::TABLE.iter().map(|var| var.name).chain(TOOLS.iter().copied());
        for name in all.filter(|name| name.starts_with("NCCL_") || name.starts_with("GINRS_")) {
            for at in (name.find('_').unwrap() + 1..name.len() - 1).step_by(7) {
                let (head, tail) = name.split_at(at);
                let swapped = format!("{head}{}{}{}", &tail[1..2], &tail[..1], &tail[2..]);
                for typed in [format!("{head}{}", &tail[1..]), format!("{head}{}{tail}", &tail[..1]), swapped] {
                    assert!(known(&typed) || nearest(&typed).is_some(), "{typed} is not told to be near {name}");
                }
            }
        }
    }
}
