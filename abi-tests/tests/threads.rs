//! Races of host code under ThreadSanitizer, with the installed libraries, which are not instrumented: each is reported at its line, and
//! nothing else is. `sanitizers/threads.cu` has a case for each.

use abi_tests::programs::{self, compiled_as};
use abi_tests::text;
use std::process::{Command, Output};

const SOURCE: &str = "abi-tests/sanitizers/threads.cu";

fn ran(case: &str, mended: bool) -> Output {
    let program = compiled_as(SOURCE, &["-g".into(), "-O1".into(), "-fsanitize=thread".into()]);
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]).arg(program).env("CASE", case).env("GINRS_CPU_DEVICES", "2");
    if mended {
        command.env("MENDED", "1");
    }
    command.output().unwrap()
}

#[test]
fn races_of_the_program_are_reported_and_none_of_the_libraries() {
    for case in ["count", "early", "other"] {
        let output = ran(case, false);
        let said = text(&output);
        let line = format!("threads.cu:{} ", programs::line_of(SOURCE, &format!("race of: {case}")));
        let reports: Vec<&str> = said.split("WARNING: ThreadSanitizer: ").skip(1).collect();
        assert!(!output.status.success() && !reports.is_empty(), "{case}: {}\n{said}", output.status);
        let others: Vec<_> = reports.iter().filter(|report| !report.contains(&line)).collect();
        assert!(others.is_empty(), "{case}: {others:?}");
        let twin = ran(case, true);
        let said = text(&twin);
        assert!(twin.status.success() && !said.contains("ThreadSanitizer"), "{case} mended: {}\n{said}", twin.status);
        assert!(said.contains("rank 0: ok") && said.contains("rank 1: ok"), "{case} mended: {said}");
    }
}
