//! `ginrs-cc --clangd`: clangd opens .cu files without errors; what the user has is not written over.

use abi_tests::{prefix, root, run, text};
use std::path::Path;
use std::process::{Command, Output};

/// `ginrs-cc --clangd` with these, in a folder.
fn write(folder: &Path, options: &[&str]) -> Output {
    Command::new(prefix().join("bin/ginrs-cc")).arg("--clangd").args(options).current_dir(folder).output().unwrap()
}

/// No line of an error, but those of refactorings that clangd tries at each token and that do not apply.
fn is_clean(said: &str) -> bool {
    said.contains("All checks completed") && !said.lines().any(|line| line.starts_with("E[") && !line.contains(" tweak: "))
}

#[test]
fn sources_open_without_errors() {
    if !Command::new("clangd").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: there is no clangd | fix: make deps");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir_all(folder.path().join("own headers")).unwrap();
    std::fs::create_dir_all(folder.path().join("src")).unwrap();
    file("own headers/job.cuh", "#pragma once\n__device__ inline int twice(int n) { return 2 * n + EXTRA; }\n");
    std::fs::create_dir_all(folder.path().join("src/common")).unwrap();
    for entry in std::fs::read_dir(root().join("examples-c/common")).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), folder.path().join("src/common").join(entry.file_name())).unwrap();
    }
    let own = "#include \"job.cuh\"\n__global__ void own(int* out) {\n  __shared__ alignas(16) int tile[32];\n  tile[threadIdx.x] = twice(1);\n  \
               __syncthreads();\n  *out = tile[0];\n}\nint main() { own<<<1, 32>>>(nullptr); return cudaDeviceSynchronize(); }\n";
    file("src/own.cu", own);
    let told = write(folder.path(), &["-I", "own headers", "-DEXTRA=3", "-std=c++20"]);
    assert!(told.status.success(), "{}", text(&told));
    let check = |path: &Path| {
        let output = Command::new("timeout").args(["120", "clangd"]).arg(format!("--check={}", path.display())).output().unwrap();
        text(&output)
    };
    let sources = [
        "examples-c/02-ring/main.cu",
        "abi-tests/programs/moe.cu",
        "abi-tests/cpu-kernels/idioms.cu",
        "abi-tests/users/stencil.cu",
    ];
    for (n, source) in sources.iter().enumerate() {
        let place = folder.path().join(format!("src/{n}.cu"));
        let source = std::fs::read_to_string(root().join(source)).unwrap();
        // Headers of the repository by their place in it.
        let folder = |line: &str| format!("#include \"{}/", root().join(line).display());
        let source =
            source.replace("#include \"../common/", &folder("examples-c/common")).replace("#include \"../../", &folder(""));
        let source = source.replace("#include \"children.h\"", &(folder("abi-tests/programs") + "children.h\""));
        let source = source.replace("#include \"check.h\"", &(folder("abi-tests/cpu-kernels") + "check.h\""));
        let source = source.replace("#include \"reference.h\"", &(folder("abi-tests/cpu-kernels") + "reference.h\""));
        std::fs::write(&place, source).unwrap();
        let said = check(&place);
        assert!(is_clean(&said), "{}\n{said}", sources[n]);
    }
    let said = check(&folder.path().join("src/own.cu"));
    assert!(is_clean(&said), "{said}");
    // It is read, and not passed over.
    file("src/own.cu", &own.replace("twice(1)", "thrice(1)"));
    assert!(check(&folder.path().join("src/own.cu")).contains("undeclared identifier 'thrice'"));
}

#[test]
fn what_is_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".clangd");
    std::fs::write(&path, "Diagnostics: {}\n").unwrap();
    let said = write(folder.path(), &[]);
    assert!(
        !said.status.success() && text(&said).contains(".clangd is there and says something else; remove it, or write with -o"),
        "{said:?}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "Diagnostics: {}\n");
    assert!(write(folder.path(), &["-o", "other"]).status.success());
    let again = write(folder.path(), &["-o", "other"]);
    assert!(again.status.success() && text(&again).contains("is as it has to be"), "{again:?}");
    let files = write(folder.path(), &["a.cu"]);
    assert!(!files.status.success() && text(&files).contains("--clangd takes no files"), "{files:?}");
    let nowhere = write(folder.path(), &["-o", "no/such/folder"]);
    assert!(!nowhere.status.success() && text(&nowhere).contains("no/such/folder"), "{nowhere:?}");
    run(Command::new("test").arg("-s").arg(folder.path().join("other")));
}
