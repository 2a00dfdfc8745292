//! Every shared struct and constant has one layout in Rust, in our headers and in NVIDIA's. The asserts are made from the Rust
//! types, so no number stands here.

use abi_tests::{nvidia_headers, prefix, run};
use ginrs::abi::types::*;
use std::mem::{align_of, offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Appends a static_assert on the size, the alignment and each offset.
macro_rules! same {
    ($out:ident, $t:ident $(, $field:ident)* $(,)?) => {
        $out.push(format!("static_assert(sizeof({0}) == {1} && alignof({0}) == {2}, \"{0}\");", stringify!($t), size_of::<$t>(), align_of::<$t>()));
        $($out.push(format!("static_assert(offsetof({0}, {1}) == {2}, \"{0}.{1}\");", stringify!($t), stringify!($field), offset_of!($t, $field)));)*
    };
}

fn host_structs() -> Vec<String> {
    let mut out = Vec::new();
    same!(out, ncclUniqueId, internal);
    same!(
        out,
        ncclConfig_t,
        size,
        magic,
        version,
        blocking,
        cgaClusterSize,
        minCTAs,
        maxCTAs,
        netName,
        splitShare,
        trafficClass,
        commName,
        collnetEnable,
        CTAPolicy,
        shrinkShare,
        nvlsCTAs,
        nChannelsPerNetPeer,
        nvlinkCentricSched
    );
    same!(out, ncclSimInfo_t, size, magic, version, estimatedTime);
    for (name, value) in [
        ("NCCL_VERSION_CODE", i64::from(NCCL_VERSION_CODE)),
        ("NCCL_VERSION(2, 28, 9)", 22809),
        ("NCCL_VERSION(2, 8, 4)", 2804),
        ("NCCL_UNIQUE_ID_BYTES", size_of::<ncclUniqueId>() as i64),
        ("NCCL_CONFIG_UNDEF_INT", i64::from(NCCL_CONFIG_UNDEF_INT)),
        ("NCCL_SPLIT_NOCOLOR", -1),
        ("NCCL_WIN_DEFAULT", i64::from(NCCL_WIN_DEFAULT)),
        ("NCCL_WIN_COLL_SYMMETRIC", i64::from(NCCL_WIN_COLL_SYMMETRIC)),
        ("NCCL_WIN_REQUIRED_ALIGNMENT", NCCL_WIN_REQUIRED_ALIGNMENT as i64),
        ("NCCL_CTA_POLICY_DEFAULT", 0),
        ("NCCL_CTA_POLICY_EFFICIENCY", 1),
        ("NCCL_CTA_POLICY_ZERO", 2),
        ("NCCL_SHRINK_DEFAULT", 0),
        ("NCCL_SHRINK_ABORT", 1),
        ("NCCL_REVOKE_DEFAULT", 0),
        ("ncclSuccess", 0),
        ("ncclUnhandledCudaError", ginrs::error::Code::UnhandledCudaError as i64),
        ("ncclSystemError", ginrs::error::Code::SystemError as i64),
        ("ncclInternalError", ginrs::error::Code::InternalError as i64),
        ("ncclInvalidArgument", ginrs::error::Code::InvalidArgument as i64),
        ("ncclInvalidUsage", ginrs::error::Code::InvalidUsage as i64),
        ("ncclRemoteError", ginrs::error::Code::RemoteError as i64),
        ("ncclInProgress", ginrs::error::Code::InProgress as i64),
        ("ncclNumResults", 8),
        ("ncclNumTypes", 12),
        ("ncclFloat8e5m2", 11),
        ("ncclBfloat16", 9),
        ("ncclHalf", 6),
        ("ncclNumOps", 5),
        ("ncclMaxRedOp", i64::from(i32::MAX)),
        ("ncclScalarHostImmediate", 1),
    ] {
        out.push(format!("static_assert((long long){name} == {value}LL, \"{name}\");"));
    }
    out.push(format!("static ncclConfig_t config = NCCL_CONFIG_INITIALIZER; int main() {{ return !(config.size == {} && config.magic == {NCCL_CONFIG_MAGIC}u && config.version == {NCCL_VERSION_CODE} && config.blocking == NCCL_CONFIG_UNDEF_INT && config.netName == NULL && config.commName == NULL && config.nvlinkCentricSched == NCCL_CONFIG_UNDEF_INT); }}", size_of::<ncclConfig_t>()));
    out
}

fn device_structs() -> Vec<String> {
    let mut out = Vec::new();
    same!(out, ncclTeam_t, nRanks, rank, stride);
    same!(
        out,
        ncclDevCommRequirements_t,
        resourceRequirementsList,
        teamRequirementsList,
        lsaMultimem,
        barrierCount,
        lsaBarrierCount,
        railGinBarrierCount,
        lsaLLA2ABlockCount,
        lsaLLA2ASlotCount,
        ginForceEnable,
        ginContextCount,
        ginSignalCount,
        ginCounterCount
    );
    same!(
        out,
        ncclDevResourceRequirements_t,
        next,
        bufferSize,
        bufferAlign,
        outBufferHandle,
        ginSignalCount,
        ginCounterCount,
        outGinSignalStart,
        outGinCounterStart
    );
    same!(out, ncclTeamRequirements_t, next, team, multimem, outMultimemHandle);
    same!(out, ncclMultimemHandle_t, mcBasePtr);
    same!(out, ncclLsaBarrierHandle_t, bufHandle, nBarriers);
    same!(out, ncclGinBarrierHandle_t, signal0, bufHandle);
    same!(out, ncclLLA2AHandle_t, bufHandle, nSlots);
    same!(out, ncclWindow_vidmem, winHost, lsaFlatBase, lsaRank, worldRank, stride4G, mcOffset4K, ginOffset4K, ginWins);
    same!(out, ncclDevCommWindowTable, entries, next);
    same!(
        out,
        ncclDevComm,
        rank,
        nRanks,
        nRanks_rcp32,
        lsaRank,
        lsaSize,
        lsaSize_rcp32,
        windowTable,
        resourceWindow,
        resourceWindow_inlined,
        lsaMultimem,
        lsaBarrier,
        railGinBarrier,
        ginContextCount,
        ginTypes,
        ginHandles,
        ginSignalBase,
        ginSignalCount,
        ginCounterBase,
        ginCounterCount,
        ginSignalShadows
    );
    out
}

/// Compiles (and runs, where it can be linked alone) the asserts against the headers in `include`.
fn compile(compiler: &str, language: &str, head: &str, lines: &[String], include: &[&Path]) -> PathBuf {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(format!("layout.{language}"));
    std::fs::write(&source, format!("{head}\n{}\n", lines.join("\n"))).unwrap();
    let object = folder.path().join("layout");
    let mut command = Command::new(compiler);
    include.iter().for_each(|path| {
        command.arg("-I").arg(path);
    });
    run(command.arg("-o").arg(&object).arg(&source));
    run(&mut Command::new(&object));
    object
}

const HOST: &str = "#include <assert.h>\n#include <nccl.h>\n#include <stdalign.h>\n#include <stddef.h>";
/// The table's entry type has its own name in C++; main stands for the host part's.
const DEVICE: &str = "#include <cstddef>\n#include <nccl.h>\n#include <nccl_device.h>\nint main() { return 0; }";

#[test]
fn our_nccl_h_as_c_and_as_cxx_without_a_toolkit() {
    let include = prefix().join("include/ginrs");
    for (compiler, language) in [("gcc", "c"), ("g++", "cc"), ("clang", "c"), ("clang++", "cc")] {
        compile(compiler, language, HOST, &host_structs(), &[&include]);
    }
}

#[test]
fn our_device_headers_on_the_stand_in() {
    let (include, cpu) = (prefix().join("include/ginrs"), prefix().join("lib/ginrs/cpu/include"));
    let head = format!("#define __host__\n#define __device__\n#define __forceinline__ inline\n{DEVICE}");
    compile("g++", "cc", &head, &device_structs(), &[&include, &cpu]);
}

#[test]
fn nvidias_headers_have_the_same_layouts() {
    let Some((nccl, cuda)) = nvidia_headers() else { return };
    compile("gcc", "c", HOST, &host_structs(), &[&nccl, &cuda]);
    compile("g++", "cc", DEVICE, &device_structs(), &[&nccl, &cuda]);
}

/// Our prototypes declared again after NVIDIA's: a C compiler refuses any difference in type.
#[test]
fn our_prototypes_are_nvidias() {
    let Some((nccl, cuda)) = nvidia_headers() else { return };
    let ours = std::fs::read_to_string(prefix().join("include/ginrs/nccl.h")).unwrap();
    let at = ours.find("ncclScalarResidence_t;").expect("the last type") + "ncclScalarResidence_t;".len();
    let prototypes = ours[at..].split("#ifdef __cplusplus").next().unwrap().to_owned();
    assert!(prototypes.matches("ncclResult_t pnccl").count() > 30);
    compile("gcc", "c", HOST, &[prototypes, "int main(void) { return 0; }".into()], &[&nccl, &cuda]);
}
