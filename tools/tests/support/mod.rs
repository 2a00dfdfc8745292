//! A scratch installation: ginrs-cc, the stand-in headers, and the smallest runtime that runs what it compiles.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The installation, made once for a test binary.
pub struct Prefix {
    folder: tempfile::TempDir,
}

impl Prefix {
    /// The only one.
    pub fn get() -> &'static Prefix {
        static PREFIX: OnceLock<Prefix> = OnceLock::new();
        PREFIX.get_or_init(Prefix::make)
    }

    fn make() -> Prefix {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let tools = Path::new(env!("CARGO_MANIFEST_DIR"));
        for sub in ["bin", "lib/ginrs/cpu", "include/ginrs", "work"] {
            std::fs::create_dir_all(at.join(sub)).unwrap();
        }
        std::fs::copy(env!("CARGO_BIN_EXE_ginrs-cc"), at.join("bin/ginrs-cc")).unwrap();
        let headers = tools.join("../cuda/cpu/include").canonicalize().unwrap();
        std::os::unix::fs::symlink(headers, at.join("lib/ginrs/cpu/include")).unwrap();
        let library = |name: &str, source: PathBuf| {
            let status = Command::new("g++")
                .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-x", "c++"])
                .arg(format!("-I{}", at.join("lib/ginrs/cpu/include").display()))
                .arg(source)
                .arg("-o")
                .arg(at.join("lib").join(name))
                .status()
                .unwrap();
            assert!(status.success(), "{name}");
        };
        library("libginrs_cpu.so", tools.join("tests/support/runtime.cc"));
        library("libginrs.so", PathBuf::from("/dev/null"));
        Prefix { folder }
    }

    /// Files of tests go here.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Writes a file into the work folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs ginrs-cc in the work folder.
    pub fn cc(&self, arguments: &[&str]) -> Output {
        Command::new(self.folder.path().join("bin/ginrs-cc"))
            .args(arguments)
            .current_dir(self.work())
            .env_remove("GINRS_CXX")
            .output()
            .unwrap()
    }

    /// Runs ginrs-cc, which must succeed.
    pub fn compile(&self, arguments: &[&str]) {
        let output = self.cc(arguments);
        assert!(output.status.success(), "ginrs-cc {arguments:?}:\n{}", errors(&output));
    }

    /// Runs a program of the work folder, which must succeed; its output.
    pub fn run(&self, program: &str) -> String {
        let output = Command::new("timeout").arg("120").arg(self.work().join(program)).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{program}: {}\n{text}{}", output.status, errors(&output));
        text
    }

    /// ginrs-cc on this text must fail with `message` in what it says.
    #[allow(dead_code)]
    pub fn fails(&self, name: &str, text: &str, message: &str) {
        self.write(name, text);
        let output = self.cc(&["-c", name, "-o", &format!("{name}.o")]);
        assert!(!output.status.success(), "{name} compiled");
        assert!(errors(&output).contains(message), "{name}: want `{message}` in\n{}", errors(&output));
    }
}

/// What it wrote to stderr.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
