//! What the driver refuses, now or later.

use super::Mode::{Processes, Threads};
use super::{Mode, all_ok, program, start};
use abi_tests::text;
use std::time::{Duration, Instant};

/// What the driver refuses becomes a line with one of these numbers (whoever sees it first), and no rank hangs or crashes:
/// (GINRS_MOCK_FAIL, numbers).
const REFUSED: &[(&str, &[u32])] = &[
    ("cuInit:1:999", &[68]),
    ("cuInit:1:100", &[68]),
    ("cuDevicePrimaryCtxRetain:1:2", &[72]),
    ("cuDeviceGetAttribute:5:1", &[71]),
    ("cuThreadExchangeStreamCaptureMode:1:1", &[71]),
    // A full device is asked twice, by each thread.
    ("cuMemCreate:1:2,cuMemCreate:2:2,cuMemCreate:3:2,cuMemCreate:4:2", &[72]),
    ("cuMemCreate:3:2,cuMemCreate:4:2,cuMemCreate:5:2,cuMemCreate:6:2", &[72]),
    ("cuMemAddressReserve:1:2", &[25]),
    ("cuMemMap:2:1", &[71]),
    ("cuMemSetAccess:2:101", &[74]),
    ("cuMemExportToShareableHandle:2:304", &[71]),
    ("cuMemImportFromShareableHandle:2:999", &[71]),
    ("cuMemHostAlloc:2:2", &[75]),
    ("cuMemHostRegister:1:2", &[75]),
    ("cuStreamCreate:1:2", &[72]),
    ("cuMemcpyHtoDAsync:5:700", &[73, 84]),
    // Copies go alone or in a batch, as they come.
    ("cuMemcpyBatchAsync:1:1,cuMemcpyAsync:1:1", &[71, 76]),
    ("cuStreamWriteValue64:1:1", &[71, 76]),
    ("copy:1:700", &[73, 84]),
    ("copy:30:700", &[73, 84]),
];

/// A copy that fails on the GPU, long after it was handed over, ends the job.
#[test]
fn a_copy_that_fails_later_is_said() {
    let plan = ("TORTURE", "blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=1000 seed=27");
    for mode in [Processes, Threads] {
        // Puts by the copy engine, and no collectives: how many copies it takes to set those up is a matter of time.
        let env = [plan, ("GINRS_MOCK_FAIL", "copy:500:700"), ("GINRS_KERNELS", "none"), ("GINRS_PROXIED_LARGEST", "0")];
        let output = start(&program("torture"), 2, mode, &env);
        let said = text(&output);
        let named = ["E076", "E084"].iter().any(|id| said.contains(id)) && said.contains("CUDA_ERROR_ILLEGAL_ADDRESS");
        assert!(matches!(output.status.code(), Some(1..100)) && named, "{mode:?}: {}\n{said}", output.status);
    }
}

/// These are tried again, or fail at the end of something's life: the program has had all it wanted.
const BORNE: &[&str] =
    &["cuMemCreate:1:2", "cuMemRelease:1:1", "cuMemHostUnregister:1:1", "cuCtxSynchronize:1:900", "cuStreamDestroy:1:400"];

/// Without kernels: what collectives want of the driver, and do without, would come first. All puts by the copy engine, whose calls fail.
#[test]
fn what_the_driver_refuses_is_said() {
    for (plan, numbers) in REFUSED {
        // Threads have nothing to hand over.
        let modes: &[Mode] = if plan.contains("Shareable") { &[Processes] } else { &[Processes, Threads] };
        for &mode in modes {
            let began = Instant::now();
            let output = start(
                &program("api"),
                2,
                mode,
                &[("GINRS_MOCK_FAIL", plan), ("GINRS_TIMEOUT", "120"), ("GINRS_KERNELS", "none"), ("GINRS_PROXIED_LARGEST", "0")],
            );
            let said = text(&output);
            let named = numbers.iter().any(|number| said.contains(&format!("GINRS-E{number:03}")));
            let ended = matches!(output.status.code(), Some(1..100)) && began.elapsed() < Duration::from_secs(100);
            assert!(ended && named, "{plan} {mode:?}: {} after {:?}, wanted {numbers:?}\n{said}", output.status, began.elapsed());
        }
    }
    for plan in BORNE {
        all_ok(
            &program("api"),
            2,
            Processes,
            &[("GINRS_MOCK_FAIL", plan), ("GINRS_KERNELS", "none"), ("GINRS_PROXIED_LARGEST", "0")],
        );
    }
}
