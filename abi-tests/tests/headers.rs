//! The device-API headers: that each compiles alone everywhere, that layouts and arithmetic are NCCL's, that what compiled
//! against NVIDIA's headers compiles against these, and that the device code posts and waits as the protocols say.
//! Sources in `headers/`; T numbers are those of
//! the compatibility list, which matrix/tests.txt has.

mod compilers;
#[path = "compilers/cpu.rs"]
mod cpu;

use compilers::{Headers, has_clang, limited, nvcc_command, nvcc_or_skip, root, skip, succeed};
use cpu::{compile_for_cpu, source};
use ginrs::coll::datatype::DataType;
use std::path::{Path, PathBuf};

/// Every header of include/, relative to it.
fn all_headers() -> Vec<String> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).expect("include/ is readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "h" || e == "cuh") {
                found.push(path);
            }
        }
    }
    let include = root().join("include");
    let mut found = Vec::new();
    walk(&include, &mut found);
    let mut names: Vec<String> =
        found.iter().map(|p| p.strip_prefix(&include).expect("below include/").display().to_string()).collect();
    names.sort();
    assert!(names.len() > 40, "only {} headers found", names.len());
    names
}

/// One file per header that includes it and nothing else.
fn lone_includes(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let write = |name: &String| {
        let file = dir.join(format!("{}.{extension}", name.replace(['/', '.'], "_")));
        std::fs::write(&file, format!("#include <{name}>\n")).expect("write a test unit");
        file
    };
    all_headers().iter().map(write).collect()
}

/// A header that NCCL has, too: what users include. nvcc takes one to two seconds for each.
fn is_nccls(unit: &Path) -> bool {
    let name = unit.file_name().expect("a file").to_string_lossy();
    name.starts_with("nccl") && !name.contains("utility__") && !name.contains("coop__") && !name.contains("mem_barrier")
}

fn include_flag() -> String {
    format!("-I{}", root().join("include").display())
}

#[test]
fn t010_each_header_alone_as_c_and_cpp() {
    let dir = tempfile::tempdir().expect("a folder for units");
    let strict = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"];
    let c = lone_includes(dir.path(), "c");
    succeed(limited("gcc").args(["-std=c11", "-pedantic"]).args(strict).arg(include_flag()).args(&c));
    let cpp = lone_includes(dir.path(), "cc");
    for standard in ["-std=c++14", "-std=c++17", "-std=c++20"] {
        succeed(limited("g++").arg(standard).args(strict).arg(include_flag()).args(&cpp));
        if has_clang() && standard == "-std=c++17" {
            succeed(limited("clang++").arg(standard).args(strict).arg(include_flag()).args(&cpp));
        }
    }
    if !has_clang() {
        skip("t010: no clang++");
    }
}

#[test]
fn t010_each_header_alone_for_the_cpu_device() {
    let dir = tempfile::tempdir().expect("a folder for units");
    for unit in lone_includes(dir.path(), "cu") {
        compile_for_cpu(&unit, &unit.with_extension("o"), &["-fsyntax-only"]);
    }
}

#[ignore = "a minute of a core; make abi-full"]
#[test]
fn t010_each_header_alone_with_nvcc() {
    let Some(nvcc) = nvcc_or_skip("t010") else { return };
    let dir = tempfile::tempdir().expect("a folder for units");
    let units: Vec<PathBuf> = lone_includes(dir.path(), "cu").into_iter().filter(|unit| is_nccls(unit)).collect();
    let mut command = nvcc_command(&nvcc);
    command.args(["-arch=sm_90", "-ptx", "--threads", "2", "-Werror", "all-warnings"]).arg(include_flag());
    succeed(command.args(&units).current_dir(dir.path()));
}

/// Compiles a C++ program, runs it, and expects it to find nothing wrong.
fn run_host(name: &str, headers: Headers) {
    let Some(flags) = headers.flags() else {
        return skip(&format!("{name} against NVIDIA's headers: set GINRS_NVIDIA_NCCL or GINRS_TEST_VENV"));
    };
    let dir = tempfile::tempdir().expect("a folder for the program");
    let program = dir.path().join("program");
    let warnings: &[&str] = if headers == Headers::Ours { &["-Wall", "-Wextra", "-Werror"] } else { &["-w"] };
    succeed(limited("g++").args(["-std=c++17", "-O1"]).args(warnings).args(&flags).arg(source(name)).arg("-o").arg(&program));
    succeed(&mut limited(program));
}

#[test]
fn t001_t002_t003_layouts() {
    run_host("layout.cc", Headers::Ours);
    run_host("layout.cc", Headers::Nvidia);
}

#[test]
fn the_library_writes_the_mark_that_kernels_look_for() {
    use ginrs::layout::*;
    use ginrs::layout::{MARKER, MARKER_WORD};
    let same = [
        ("GINRS_MARK_BYTE0", u64::from(MARKER[0])),
        ("GINRS_MARK_BYTE1", u64::from(MARKER[1])),
        ("GINRS_MARK_BYTE2", u64::from(MARKER[2])),
        ("GINRS_MARK_WORD", u64::from(MARKER_WORD)),
        ("GINRS_COMM_EXT_OFFSET", COMM_EXT_OFFSET),
        ("GINRS_COMM_EXT_MAGIC", COMM_EXT_MAGIC),
        ("sizeof(ginrsCommExt)", size_of::<ginrsCommExt>() as u64),
        ("GINRS_GIN_EXT_OFFSET", GIN_EXT_OFFSET as u64),
        ("GINRS_GIN_EXT_MAGIC", GIN_EXT_MAGIC),
    ];
    /* Kernels read the blocks of older libraries; of newer ones than these headers only what they know. */
    assert!((1..=5).contains(&COMM_EXT_VERSION) && GIN_EXT_VERSION == 5);
    let asserts = same.map(|(name, value)| format!("static_assert({name} == {value}ull, \"{name}\");\n")).concat();
    let dir = tempfile::tempdir().expect("a folder for the unit");
    let unit = dir.path().join("mark.cc");
    std::fs::write(&unit, format!("#include <ginrs_device/marker.h>\n{asserts}")).expect("write a test unit");
    succeed(limited("g++").args(["-std=c++17", "-fsyntax-only"]).arg(include_flag()).arg(unit));
}

#[test]
fn t033_t034_team_arithmetic() {
    run_host("teams.cc", Headers::Ours);
    run_host("teams.cc", Headers::Nvidia);
}

#[test]
fn t042_to_t048_symmetric_pointers() {
    run_host("symptr.cc", Headers::Ours);
    run_host("symptr.cc", Headers::Nvidia);
}

#[test]
fn t110_t112_utility() {
    run_host("utility.cc", Headers::Ours);
    run_host("utility.cc", Headers::Nvidia);
}

#[test]
fn t004_t071_descriptor_bits() {
    run_host("gfd.cc", Headers::Ours);
    run_host("gfd.cc", Headers::Nvidia);
}

#[test]
fn t099_lines_of_the_ll_all_to_all() {
    run_host("ll.cc", Headers::Ours);
}

#[test]
fn the_macro_for_direct_contexts_links_against_both_libraries() {
    let dir = tempfile::tempdir().expect("a folder for programs");
    let strict = ["-Wall", "-Wextra", "-Werror", "-Wno-pedantic"];
    for (compiler, language, standard) in [("gcc", "c", "-std=c11"), ("g++", "c++", "-std=c++14")] {
        for (library, said) in [("1", "ginrs 1\nginrs 1\n"), ("2", "plain\nplain\n")] {
            let (shared, program) = (dir.path().join("libtest.so"), dir.path().join("program"));
            let build = |of: &str, out: &Path, more: &[&str]| {
                let mut command = limited(compiler);
                command.args([standard, "-x", language]).args(strict).arg(format!("-DLIBRARY={of}")).arg(include_flag());
                command.arg(source("direct_create.c")).args(["-x", "none"]).args(more);
                succeed(command.arg(format!("-Wl,-rpath,{}", dir.path().display())).arg("-o").arg(out));
            };
            build(library, &shared, &["-shared", "-fPIC"]);
            build("0", &program, &[&format!("-L{}", dir.path().display()), "-ltest"]);
            assert_eq!(succeed(&mut limited(&program)), said, "{language}, library {library}");
        }
    }
}

/// Runs device code on plain threads, one per block, against the runtime in one_thread.cc.
fn run_cpu(name: &str) {
    let dir = tempfile::tempdir().expect("a folder for the program");
    let (object, runtime, program) = (dir.path().join("a.o"), dir.path().join("runtime.o"), dir.path().join("program"));
    let tests = format!("-I{}", root().join("abi-tests/headers").display());
    let out = object.display().to_string();
    let unit = dir.path().join("unit.cu");
    std::fs::write(&unit, format!("#include \"{}\"\n", source(name).display())).expect("write a test unit");
    compile_for_cpu(&unit, &object, &["-O1", "-g", "-c", "-o", &out]);
    let contract = format!("-I{}", root().join("cuda/cpu/include").display());
    let mut compile = limited("g++");
    succeed(compile.args(["-std=c++17", "-c", &tests, &contract]).arg(source("one_thread.cc")).arg("-o").arg(&runtime));
    succeed(limited("g++").args([&object, &runtime]).arg("-lpthread").arg("-o").arg(&program));
    succeed(&mut limited(program));
}

#[test]
fn t116_gin_posts_waits_and_aborts() {
    run_cpu("run_gin.cu");
}

#[test]
fn direct_contexts_store_add_and_fall_back_to_the_queue() {
    run_cpu("run_direct.cu");
}

#[test]
fn proxied_contexts_store_small_payloads_and_post_their_actions() {
    run_cpu("run_stored.cu");
}

#[test]
fn a_failed_request_ends_puts_flushes_and_waits_on_a_queue_of_the_network_card() {
    run_cpu("run_gdaki.cu");
}

#[test]
fn t059_t100_lsa_and_ll_words_and_aborts() {
    run_cpu("run_lsa.cu");
}

#[test]
fn t012_t086_cpp20_relocatable_units_link_and_name_one_type() {
    let Some(nvcc) = nvcc_or_skip("t012") else { return };
    let dir = tempfile::tempdir().expect("a folder for objects");
    let objects: Vec<PathBuf> = ["teams.cu", "lsa.cu"].iter().map(|n| dir.path().join(n).with_extension("o")).collect();
    for (name, object) in ["teams.cu", "lsa.cu"].iter().zip(&objects) {
        let mut command = nvcc_command(&nvcc);
        command.args(["-std=c++20", "-arch=sm_90", "-rdc=true", "-c"]).args(Headers::Ours.flags().expect("ours"));
        succeed(command.arg(root().join("abi-tests/matrix").join(name)).arg("-o").arg(object));
    }
    let mut link = nvcc_command(&nvcc);
    succeed(link.args(["-arch=sm_90", "-dlink"]).args(&objects).arg("-o").arg(dir.path().join("linked.o")));

    /* A kernel template over ncclGin: the host's symbol and the device's must be one. */
    let unit = dir.path().join("type.cu");
    std::fs::write(&unit, "#include <nccl_device.h>\ntemplate <typename G> __global__ void byType(G*) {}\nvoid const* p = (void const*)&byType<ncclGin>;\n")
        .expect("write a test unit");
    let (ptx, object) = (dir.path().join("type.ptx"), dir.path().join("type.o"));
    succeed(nvcc_command(&nvcc).args(["-arch=sm_90", "-ptx"]).arg(include_flag()).arg(&unit).arg("-o").arg(&ptx));
    succeed(nvcc_command(&nvcc).args(["-arch=sm_90", "-c"]).arg(include_flag()).arg(&unit).arg("-o").arg(&object));
    let name = "_Z6byTypeI19ncclGin_BackendMaskILj12EEEvPT_";
    assert!(std::fs::read_to_string(&ptx).expect("ptx").contains(name), "the device's name is another");
    assert!(succeed(limited("nm").arg(&object)).contains(name), "the host's name is another");
}

/// The body of a kernel in PTX.
fn kernel<'a>(ptx: &'a str, name: &str) -> &'a str {
    let start = ptx.find(&format!(".entry {name}(")).unwrap_or_else(|| panic!("no kernel {name}"));
    let rest = &ptx[start..];
    let end = [".entry ", ".func "].iter().filter_map(|next| rest[1..].find(next)).min();
    &rest[..end.map_or(rest.len(), |end| end + 1)]
}

/// A block of 1024 threads has 64 registers for each: a kernel beyond that does not start.
#[test]
fn kernels_with_puts_and_barriers_fit_blocks_of_1024_threads() {
    let Some(nvcc) = nvcc_or_skip("registers") else { return };
    let mut command = nvcc_command(&nvcc);
    command.args(["-arch=sm_90", "-cubin", "-Xptxas", "-v", "-o", "/dev/null"]).args(Headers::Ours.flags().expect("ours"));
    let output = command.arg(source("ptx.cu")).output().expect("nvcc starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let counts: Vec<u32> =
        said.split("Used ").skip(1).map(|rest| rest.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")).collect();
    assert!(output.status.success() && counts.len() >= 6, "{said}");
    assert!(counts.iter().all(|&registers| registers <= 64), "{counts:?} registers");
    let calls = said.replace("Function properties for _ZN5ginrs5gdaki", ""); /* once a kernel, off the proxy's path */
    assert!(!calls.contains("Function properties for _ZN5ginrs"), "a call costs more registers than it saves:\n{said}");
}

/// ptx.cu as users compile, with more options.
fn ptx_of(nvcc: &Path, options: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a folder for objects");
    let file = dir.path().join("a.ptx");
    let mut command = nvcc_command(nvcc);
    command.args(["-arch=sm_90", "-ptx"]).args(options).args(Headers::Ours.flags().expect("ours"));
    succeed(command.arg(source("ptx.cu")).arg("-o").arg(&file));
    std::fs::read_to_string(&file).expect("ptx")
}

#[test]
fn t027_t058_instructions() {
    let Some(nvcc) = nvcc_or_skip("t058") else { return };
    let ptx = ptx_of(&nvcc, &[]);
    let has = |name: &str, instruction: &str| kernel(&ptx, name).contains(instruction);

    /* Polls are relaxed, and one fence behind them acquires: PTX's acquire pattern, as strong as ld.acquire. */
    assert!(has("lsaReleaseAcquire", "st.release.sys.b32"));
    assert!(has("lsaReleaseAcquire", "ld.relaxed.sys.global.b32") && has("lsaReleaseAcquire", "fence.acquire.sys;"));
    assert!(has("lsaRelaxed", "st.relaxed.sys.global.b32") && has("lsaRelaxed", "ld.relaxed.sys.global.b32"));
    assert!(!has("lsaRelaxed", "release") && !has("lsaRelaxed", "acquire"));
    assert!(has("lsaMultimem", "multimem.red.release.sys.global.add.u32"));
    assert!(!has("bcastThread", "shfl"), "a single thread asks nobody");
    let fence = "fence.release.sys;";
    assert!(has("putFenced", fence) && !has("putReleased", fence), "the release fence is paid once");
    assert!(has("putFenced", "atom.inc.relaxed.gpu.global.u32") && has("putFenced", "st.relaxed.sys.global.v2.b64"));

    /* What a signal publishes may be stores to the peer: no window's mark makes its fence the GPU's alone. */
    let [on_gpu, marked] = ["fence.release.gpu;", "844256071"]; // GINRS_MARK_WINDOW_GPU
    assert!(has("fenceBeforeSignal", fence) && !has("fenceBeforeSignal", on_gpu));
    assert!(has("fenceBeforeNone", fence) && has("fenceBeforeNone", on_gpu));
    assert!(has("putFenced", marked) && !has("putWithSignal", marked), "puts with signals must not ask where the source is");
}

/// Asserts stay out of what users run and what is measured, unless they ask for them.
#[test]
fn checks_on_gpus_are_opt_in() {
    let Some(nvcc) = nvcc_or_skip("checks") else { return };
    /* PTX has texts as numbers. */
    let words = "is not a rank".bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    assert!(!ptx_of(&nvcc, &[]).contains(&words), "a check is in what users compile");
    assert!(ptx_of(&nvcc, &["-DGINRS_DEVICE_CHECKS=1"]).contains(&words), "no check where they are asked for");
}

/// The library finds the kernels of collectives by name. Here nvcc compiles them for a GPU that has
/// every instruction, without optimization; `make build` takes minutes for all GPUs.
#[test]
fn nvcc_takes_the_kernels_of_collectives() {
    kernels_of_collectives_compile("compute_100");
}

/// The same for the oldest GPU.
#[ignore = "a minute of a core; make abi-full"]
#[test]
fn nvcc_takes_the_kernels_of_collectives_for_the_oldest_gpu() {
    kernels_of_collectives_compile("compute_75");
}

#[track_caller]
fn kernels_of_collectives_compile(architecture: &str) {
    let Some(nvcc) = nvcc_or_skip("kernels") else { return };
    let dir = tempfile::tempdir().expect("a folder for PTX");
    let sources = ["launch.rs", "point_to_point.rs"]
        .map(|file| std::fs::read_to_string(root().join("src/coll").join(file)).expect("the library's sources"));
    let named = sources.iter().flat_map(|text| text.split("c\"").skip(1)).map(|rest| rest.split('"').next().unwrap());
    let mut wanted: Vec<String> = named.filter(|name| name.starts_with("ginrs_")).map(str::to_owned).collect();
    for datatype in (0..12).map(|number| DataType::from_c(number).expect("a type of nccl.h")) {
        let alone = [datatype.reduce_kernel(), datatype.reduce_ll_kernel()].map(Some);
        let several = [datatype.several_reduce_kernel(), datatype.several_reduce_ll_kernel()];
        wanted.extend(alone.into_iter().chain(several).flatten().map(|name| name.to_str().unwrap().to_owned()));
    }
    assert!(wanted.len() >= 31, "{wanted:?}");
    let file = dir.path().join(architecture);
    let mut command = nvcc_command(&nvcc);
    command.arg(format!("-arch={architecture}")).args(["-ptx", "-Xcicc", "-O0"]).args(Headers::Ours.flags().expect("ours"));
    succeed(command.arg("-o").arg(&file).arg(root().join("cuda/collectives/kernels.cu")));
    let ptx = std::fs::read_to_string(&file).expect("ptx");
    for name in &wanted {
        assert!(ptx.contains(&format!(".entry {name}(")), "{architecture}: no kernel {name}");
    }
}
