//! Arguments that are no UTF-8, that are too many for execve, whose order matters; and an output that takes nothing.

mod support;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{Prefix, errors};

fn odd(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

fn ginrs_run() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ginrs-run"))
}

fn cc(arguments: &[OsString]) -> Output {
    let prefix = Prefix::get();
    Command::new(prefix.work().join("../bin/ginrs-cc")).args(arguments).current_dir(prefix.work()).output().unwrap()
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", errors(output));
}

#[test]
fn names_of_files_and_values_are_bytes() {
    let work = Prefix::get().work();
    let folder = work.join(odd(b"caf\xe9 au lait, \xff"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("value.h"), "#define VALUE 5\n").unwrap();
    let source = folder.join(odd(b"k\xff.cu"));
    std::fs::write(&source, "#include <cstdio>\n#include <value.h>\n__global__ void k() { printf(\"%d %s\\n\", VALUE, WORD); }\nint main() { k<<<1, 1>>>(); return cudaDeviceSynchronize(); }\n").unwrap();
    let mut include = odd(b"-I");
    include.push(&folder);
    let program = folder.join(odd(b"prog\xe9"));
    succeeds(&cc(&[
        include,
        odd(b"-DWORD=\"\xc3\xa9\xff\""),
        source.clone().into(),
        "-o".into(),
        program.clone().into(),
        "-MD".into(),
    ]));
    let output = ginrs_run().args(["-n", "2", "--no-prefix"]).arg(&program).arg(odd(b"\xfe")).output().unwrap();
    succeeds(&output);
    assert_eq!(output.stdout, b"5 \xc3\xa9\xff\n5 \xc3\xa9\xff\n");
    // Messages show what can be shown and no more.
    let output = cc(&[odd(b"-\xff")]);
    assert!(output.status.code() == Some(1) && errors(&output).contains("unknown option"), "{output:?}");
    let output = cc(&["-ccbin".into(), odd(b"/none/\xff"), "-c".into(), source.into()]);
    assert!(output.status.code() == Some(1) && errors(&output).contains("cannot run the compiler"), "{output:?}");
    let output = ginrs_run().arg(odd(b"-\xff")).output().unwrap();
    assert!(output.status.code() == Some(2) && errors(&output).contains("unknown option"), "{output:?}");
    let output = ginrs_run().args(["-n", "1"]).arg(odd(b"/none/\xff")).output().unwrap();
    assert!(output.status.code() == Some(127) && errors(&output).contains("cannot start"), "{output:?}");
    // An environment that is no text either, and a place for temporary files.
    let output = ginrs_run().args(["-n", "1", "true"]).env("TMPDIR", &folder).env(odd(b"A\xff"), odd(b"\xff")).output().unwrap();
    succeeds(&output);
    let output = Command::new(work.join("../bin/ginrs-cc")).arg("--version").env("GINRS_CXX", odd(b"g\xff++")).output().unwrap();
    succeeds(&output);
}

/// Files of options as CMake writes them, objects for more than execve takes, and a file that names itself. (Of options for one
/// compilation g++ itself takes about 100 KB.)
#[test]
fn options_may_be_longer_than_execve_takes() {
    let prefix = Prefix::get();
    prefix.write("long.cu", "#if LAST != 3000\n#error LAST\n#endif\nconst char* text = TEXT;\nint main() { return 0; }\n");
    let mut options = String::from("\"-DTEXT=\\\"two words\\\"\" -DLAST=3000\n");
    for n in 0..3_000 {
        options += &format!("-DA_NAME_{n}={n}\n");
    }
    prefix.write("long.rsp", &options);
    for arguments in [["--options-file", "long.rsp"].as_slice(), &["@long.rsp"], &["-optf=long.rsp"]] {
        prefix.compile(&[arguments, &["-c", "long.cu", "-o", "long.o"]].concat());
    }
    let folder = format!("{}/{}", "d".repeat(200), "e".repeat(200));
    std::fs::create_dir_all(prefix.work().join(&folder)).unwrap();
    prefix.write("empty.cc", "");
    prefix.compile(&["-c", "empty.cc", "-o", &format!("{folder}/empty.o")]);
    prefix.write("objects.rsp", &format!("{folder}/empty.o\n").repeat(12_000));
    prefix.compile(&["long.o", "@objects.rsp", "-o", "long"]);
    prefix.run("long");
    prefix.write("loop.rsp", "@loop.rsp");
    let output = prefix.cc(&["@loop.rsp"]);
    assert!(output.status.code() == Some(1) && errors(&output).contains("does it name itself?"), "{}", errors(&output));
    let output = prefix.cc(&["@none.rsp"]);
    assert!(output.status.code() == Some(1) && errors(&output).contains("options file `none.rsp`"), "{}", errors(&output));
}

#[test]
fn the_linker_sees_the_order_of_the_command_line() {
    let prefix = Prefix::get();
    prefix.write("registers.cc", "int registered;\nstatic int at = registered = 7;\n");
    prefix.write(
        "main.cu",
        "extern int registered __attribute__((weak));\nint main() { return &registered && registered == 7 ? 0 : 1; }\n",
    );
    prefix.compile(&["-c", "registers.cc", "-o", "registers.o"]);
    let work = prefix.work();
    let ar = Command::new("ar").args(["rcs", "libregisters.a", "registers.o"]).current_dir(&work).status().unwrap();
    assert!(ar.success());
    prefix.compile(&[
        "main.cu",
        "-Xlinker",
        "--whole-archive",
        "libregisters.a",
        "-Xlinker",
        "--no-whole-archive",
        "-o",
        "whole",
    ]);
    prefix.run("whole");
    prefix.compile(&[
        "-Wl,--whole-archive",
        "libregisters.a",
        "-Wl,--no-whole-archive",
        "main.cu",
        "-o",
        "whole2",
        "-no-pie",
        "-z",
        "now",
    ]);
    prefix.run("whole2");
}

/// `make CXX=ginrs-cc NVCC=ginrs-cc` says -ccbin ginrs-cc.
#[test]
fn the_compiler_behind_ginrs_cc_is_never_itself() {
    let prefix = Prefix::get();
    prefix.write("own.cu", "__global__ void k() {}\nint main() { k<<<1, 1>>>(); return cudaDeviceSynchronize(); }\n");
    let bin = prefix.work().join("../bin").canonicalize().unwrap();
    let link = prefix.work().join("nvcc");
    std::os::unix::fs::symlink(bin.join("ginrs-cc"), &link).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    for (named, by) in
        [("ginrs-cc", ""), (bin.join("ginrs-cc").to_str().unwrap(), ""), (link.to_str().unwrap(), ""), ("", "ginrs-cc")]
    {
        let mut command = Command::new(bin.join("ginrs-cc"));
        command.args(["own.cu", "-o", "own"]).current_dir(prefix.work()).env("PATH", &path).env("GINRS_CXX", by);
        if !named.is_empty() {
            command.args(["-ccbin", named]);
        }
        succeeds(&command.output().unwrap());
        prefix.run("own");
    }
}

/// CUDA_HOME/include is a link to our headers: under that name, too, they are ours and come first.
#[test]
fn our_headers_are_ours_under_every_name() {
    let prefix = Prefix::get();
    let work = prefix.work();
    std::os::unix::fs::symlink("../lib/ginrs/cpu/include", work.join("home-include")).unwrap();
    std::fs::create_dir_all(work.join("toolkit")).unwrap();
    prefix.write("toolkit/cuda_runtime.h", "#error another toolkit's header came first\n");
    prefix.write("named.cu", "#include <cuda_runtime.h>\n__shared__ int unused;\n__global__ void k() { __shared__ int s; s = 1; }\nint main() { k<<<1, 1>>>(); return cudaDeviceSynchronize(); }\n");
    for flags in [
        &["-Ihome-include", "-Itoolkit"][..],
        &["-Itoolkit", "-isystem", "home-include"],
        &["-Itoolkit", "-isystem=home-include"],
        &["-isystem", "home-include", "-isystem", "toolkit"],
    ] {
        prefix.compile(&[flags, &["named.cu", "-o", "named"]].concat());
        prefix.run("named");
    }
    let mut command = Command::new(work.join("../bin/ginrs-cc"));
    command.args(["named.cu", "-o", "named"]).current_dir(&work).env("CPLUS_INCLUDE_PATH", work.join("home-include"));
    succeeds(&command.output().unwrap());
    prefix.run("named");
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error_and_no_panic() {
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let tools = [env!("CARGO_BIN_EXE_ginrs-cc"), env!("CARGO_BIN_EXE_ginrs-run")];
    for tool in tools {
        for question in ["--help", "--version"] {
            let output = Command::new(tool).arg(question).stdout(full()).stderr(Stdio::piped()).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{tool} {question}");
            assert!(errors(&output).contains("cannot write to standard output: No space left"), "{}", errors(&output));
            // Nobody reads: as `ginrs-cc --help | head -1`.
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let output = Command::new(tool).arg(question).stdout(writer).stderr(Stdio::piped()).output().unwrap();
            assert!(output.status.code() == Some(0) && errors(&output).is_empty(), "{tool} {question}: {output:?}");
        }
        let status = Command::new(tool).arg("--no-such-option").stderr(full()).status().unwrap();
        assert!(matches!(status.code(), Some(1 | 2)), "{tool}: {status}");
    }
    assert!(Path::new("/dev/full").exists());
}
