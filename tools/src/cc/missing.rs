//! Headers of CUDA that the CPU device does not have: the compiler only says that there is no such file.

/// Beginnings of names, what they are, and what to do instead.
const FAMILIES: &[(&str, &str, &str)] = &[
    ("thrust/", "Thrust's algorithms are kernels for GPUs", "<algorithm> and <numeric> on the host, or a kernel of your own"),
    (
        "cub/",
        "CUB's algorithms are kernels for GPUs",
        "cooperative_groups' reduce and scan, warp intrinsics, or <algorithm> on the host",
    ),
    ("mma.h", "there are no tensor cores", "plain loops over float"),
    ("crt/mma.h", "there are no tensor cores", "plain loops over float"),
    (
        "cuda/pipeline",
        "there is no cuda::pipeline",
        "cuda_pipeline.h's primitives, <cuda/barrier>, or cp.async and mbarriers of <cuda/ptx>",
    ),
    (
        "cuda/std/",
        "this part of libcu++ is not there",
        "the header of that name of the C++ standard library, which kernels may use here",
    ),
    (
        "cuda/",
        "this part of libcu++ is not there",
        "<cuda/atomic>, <cuda/barrier>, <cuda/latch>, <cuda/semaphore> and <cuda/ptx>, which are",
    ),
    (
        "cooperative_groups/",
        "this part of cooperative groups is not there",
        "cooperative_groups.h, reduce.h, scan.h and memcpy_async.h, which are",
    ),
    ("cutlass/", "CUTLASS is for GPUs", "a plain kernel"),
    ("cute/", "CuTe is for GPUs", "a plain kernel"),
    ("nvshmem", "NVSHMEM is for GPUs", "the device API of nccl_device.h"),
    ("curand", "cuRAND is for GPUs", "<random> on the host, or a generator of your own"),
    ("cublas", "cuBLAS is for GPUs", "a BLAS for the host"),
    ("cufft", "cuFFT is for GPUs", "an FFT for the host"),
    ("cusparse", "cuSPARSE is for GPUs", "a library for the host"),
    ("cusolver", "cuSOLVER is for GPUs", "a library for the host"),
    ("cudnn", "cuDNN is for GPUs", "a library for the host"),
    ("nvrtc.h", "kernels are compiled by ginrs-cc, ahead of time", "a template"),
    ("texture_", "there are no textures", "plain memory"),
    ("surface_", "there are no surfaces", "plain memory"),
];

/// What to add to the compiler's messages, if one of them is about a header of this kind.
pub fn advice(messages: &str) -> Option<String> {
    let name = messages.lines().find_map(|line| {
        let behind = line.split_once("fatal error: ")?.1;
        let gcc = behind.strip_suffix(": No such file or directory");
        gcc.or_else(|| behind.strip_prefix('\'')?.strip_suffix("' file not found"))
    })?;
    let (_, what, instead) = FAMILIES.iter().find(|(family, ..)| name.starts_with(family))?;
    Some(format!(
        "ginrs-cc: error: <{name}> is not available on the CPU device: {what}\n\
         ginrs-cc: fix: use {instead}; keep what needs it under #ifndef __GINRS_CPU__"
    ))
}

#[cfg(test)]
mod tests {
    use super::advice;

    #[test]
    fn headers_of_cuda_are_explained_and_others_are_not() {
        let gcc = advice("a.cu:1:10: fatal error: thrust/sort.h: No such file or directory\ncompilation terminated.\n").unwrap();
        assert!(gcc.contains("<thrust/sort.h> is not available on the CPU device"), "{gcc}");
        let clang = advice("a.cu:3:10: fatal error: 'cuda/pipeline' file not found\n").unwrap();
        assert!(clang.contains("cuda::pipeline"), "{clang}");
        assert_eq!(advice("a.cu:1:10: fatal error: my/own.h: No such file or directory\n"), None);
        assert_eq!(advice("a.cu:1:10: error: 'thrust/sort.h' is not a type\n"), None);
    }
}
