//! What C headers say of layouts and numbers, as a program prints it that a test compiles.

use std::fmt::Write;
use std::process::Command;

/// What the C expressions come to, with those headers of `package`.
pub fn values(package: &str, headers: &[&str], expressions: &[String]) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("x.c"), folder.path().join("x"));
    let mut text: String = headers.iter().map(|header| format!("#include <{header}.h>\n")).collect();
    text += "#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n";
    expressions.iter().for_each(|of| writeln!(text, "printf(\"%llu\\n\", (unsigned long long)({of}));").unwrap());
    std::fs::write(&source, text + "}\n").unwrap();
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&program).output().unwrap();
    assert!(compiled.status.success(), "install {package}: {}", String::from_utf8_lossy(&compiled.stderr));
    let printed = Command::new(program).output().unwrap().stdout;
    String::from_utf8(printed).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// Each expression comes to the value beside it.
#[track_caller]
pub fn compare(package: &str, headers: &[&str], all: &[(String, u64)]) {
    let theirs = values(package, headers, &all.iter().map(|(expression, _)| expression.clone()).collect::<Vec<_>>());
    assert_eq!(theirs.len(), all.len());
    for ((expression, ours), theirs) in all.iter().zip(theirs) {
        assert_eq!(*ours, theirs, "{expression}");
    }
}

/// A struct's size.
pub fn size<T>(name: &str) -> (String, u64) {
    (format!("sizeof(struct {name})"), size_of::<T>() as u64)
}

/// A test `offsets` of the fields of structs of `ours`; `compare` stands beside it. `field = other`: C calls it so.
macro_rules! same {
    ($($of:ident { $($field:ident $(= $other:ident)?),* $(,)? })*) => {
        #[test]
        fn offsets() {
            compare(&[$($((
                format!("offsetof(struct {}, {})", stringify!($of), in_c::same!(@ $field $($other)?)),
                std::mem::offset_of!(ours::$of, $field) as u64,
            )),*),*]);
        }
    };
    (@ $field:ident) => { stringify!($field) };
    (@ $field:ident $other:ident) => { stringify!($other) };
}
pub(crate) use same;

/// Numbers of `ours` and their names.
macro_rules! equal {
    ($($name:ident)*) => { &[$((stringify!($name).to_owned(), ours::$name as u64)),*] };
}
pub(crate) use equal;
