//! scripts/test.sh, which runs `make test`, with steps of its own: what it prints, where it stops, how one carries on.

use abi_tests::root;
use std::path::Path;
use std::process::{Command, Output};

const STEPS: &str = "step deps true\nstep stage echo staged\nstep first echo 'test result: ok. 3 passed'\n\
                     step second sh -c 'seq 100; echo cause >&2; exit ${SECOND:-7}'\nstep 'third' echo last\n";

fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let scripts = folder.path().join("scripts");
    std::fs::create_dir(&scripts).unwrap();
    std::fs::copy(root().join("scripts/test.sh"), scripts.join("test.sh")).unwrap();
    std::fs::write(scripts.join("test-steps.sh"), STEPS).unwrap();
    std::fs::write(scripts.join("test-durations.txt"), "# head\ndeps 0 0\nfirst 600 1200\nthird 300 300\n").unwrap();
    folder
}

fn test(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> (Output, String) {
    // By the shell: a child of another test's thread may hold the file open that was just written, and it cannot be executed then.
    let mut command = Command::new("bash");
    command.arg(folder.join("scripts/test.sh"));
    for name in ["GINRS_TEST_ONLY", "GINRS_TEST_FROM", "GINRS_TEST_QUICK", "BLESS"] {
        command.env_remove(name);
    }
    let output = command.args(arguments).envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output, text)
}

#[test]
fn it_counts_estimates_stops_and_carries_on() {
    let folder = scratch();
    let (output, text) = test(folder.path(), &[], &[]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    // 1200 s for the first in a fresh clone (no target), 300 for the third, 15 for each that no table knows.
    assert!(text.contains("[1/5] deps ... about 26 min left"), "{text}");
    assert!(text.contains("[3/5] first ... ") && text.contains("test result: ok. 3 passed"), "{text}");
    assert!(
        text.contains("FAILED [4/5] second after ") && text.contains(" s (status 7)") && text.contains("build/test/second.log"),
        "{text}"
    );
    assert!(text.contains("  | 100\n  | cause\n") && text.contains("make test FROM=second"), "{text}");
    assert!(!text.contains("third ...") && !text.contains("tests passed"), "{text}");
    let log = std::fs::read_to_string(folder.path().join("build/test/second.log")).unwrap();
    assert!(log.ends_with("100\ncause\n"), "{log}");

    let (output, text) = test(folder.path(), &[("GINRS_TEST_FROM", "second"), ("SECOND", "0")], &[]);
    assert!(output.status.success() && text.contains("[3/4] second") && !text.contains("first ..."), "{text}");
    assert!(text.contains("the chosen tests passed: 4 steps"), "{text}");
    let (output, text) = test(folder.path(), &[("GINRS_TEST_ONLY", "fir thi")], &[]);
    assert!(output.status.success() && text.contains("[4/4] third") && !text.contains("second ..."), "{text}");
    for variable in ["GINRS_TEST_ONLY", "GINRS_TEST_FROM"] {
        let (output, text) = test(folder.path(), &[(variable, "fifth")], &[]);
        assert!(
            output.status.code() == Some(2) && text.contains("no step is called fifth; they are: deps stage first"),
            "{text}"
        );
    }

    // What was measured counts from the second run on, and a whole run can become what is known.
    std::fs::create_dir_all(folder.path().join("target/debug/deps")).unwrap();
    let seconds = |text: &str, name: &str| -> Vec<u32> {
        let line =
            text.lines().find(|l| l.split_whitespace().next() == Some(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
        line.split_whitespace().filter_map(|w| w.parse().ok()).collect()
    };
    let (_, text) = test(folder.path(), &[], &["--list"]);
    assert!(seconds(&text, "third")[0] < 300 && seconds(&text, "first")[0] < 600, "{text}");
    let (output, text) = test(folder.path(), &[("SECOND", "0"), ("BLESS", "1")], &[]);
    assert!(output.status.success() && text.contains("all tests passed: 5 steps in"), "{text}");
    let known = std::fs::read_to_string(folder.path().join("scripts/test-durations.txt")).unwrap();
    assert!(known.starts_with("# head\ndeps ") && known.lines().count() == 6, "{known}");
    assert!(
        seconds(&known, "first")[0] < 600 && seconds(&known, "first")[1] == 1200 && seconds(&known, "second").len() == 2,
        "{known}"
    );
}

/// The names in the committed table are those of steps.
#[test]
fn the_committed_durations_are_of_steps() {
    let (_, text) = test(&root(), &[], &["--list"]);
    let steps: Vec<&str> = text.lines().filter_map(|l| l.split_whitespace().next()).collect();
    let known = std::fs::read_to_string(root().join("scripts/test-durations.txt")).unwrap();
    for line in known.lines().filter(|l| !l.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(steps.contains(&words[0]) && words.len() == 3, "scripts/test-durations.txt: {line}");
        assert!(words[1..].iter().all(|w| w.parse::<u32>().is_ok()), "scripts/test-durations.txt: {line}");
    }
}
