//! Programs of the field with the mistakes that people make in them (`field/field.cu`): `ginrs-run --check` finds each, names its line and a
//! command that brings it back, and blames no mended twin. Needs GINRS_PREFIX (`make test` sets it).

use abi_tests::programs::{compiled, compiled_as};
use abi_tests::{prefix, root, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn field() -> PathBuf {
    compiled_as("abi-tests/field/field.cu", &["--check=race".into(), "-O0".into()])
}

/// Each case, and how many ranks it has as processes.
fn cases(program: &Path) -> Vec<(String, String)> {
    let listed = text(&Command::new(program).output().unwrap());
    let cases: Vec<_> = listed
        .lines()
        .map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            (words.next().unwrap(), words.next().unwrap_or_default())
        })
        .collect();
    assert!(cases.len() > 5, "{listed}");
    cases
}

/// In a folder of its own, where its page goes.
fn check(options: &[&str], program: &Path, arguments: &[&str]) -> (Output, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "300"]).arg(prefix().join("bin/ginrs-run")).args(options).arg(program).args(arguments);
    (command.current_dir(folder.path()).env_remove("GINRS_SCHEDULE").output().unwrap(), folder)
}

/// Runs `what` for each case, some at a time, for hangs mostly wait; it says what is wrong.
fn each(cases: &[(String, String)], what: impl Fn(&str, &str) -> Option<String> + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some((case, ranks)) = cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let found = what(case, ranks);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n\n"));
}

/// `kernels.cuh:95` each: where a case is marked.
fn marked(case: &str) -> Vec<String> {
    [
        "field.cu",
        "kernels.cuh",
        "around.cu",
        "more.cu",
        "experts.cu",
        "flags.cu",
        "ptx.cu",
        "shared.cu",
        "practice.cu",
        "phases.cu",
        "pinned.cu",
        "unwritten.cu",
    ]
    .into_iter()
    .flat_map(|file| {
        let source = std::fs::read_to_string(root().join("abi-tests/field").join(file)).unwrap();
        let is_its =
            |line: &str| line.split_once("// bug of: ").is_some_and(|(_, marks)| marks.split(", ").any(|mark| mark == case));
        let lines: Vec<usize> = (1..).zip(source.lines()).filter(|(_, line)| is_its(line)).map(|(number, _)| number).collect();
        lines.into_iter().map(move |line| format!("{file}:{line}"))
    })
    .collect()
}

/// Whether one of its lines is named in `said`.
fn is_named(case: &str, said: &str) -> bool {
    marked(case).iter().any(|mark| said.split([' ', ',', ';', '\n']).any(|word| word.ends_with(mark)))
}

/// Most are by a plain run, so that costs the test less; what is not is what `--check` looks for.
#[test]
fn each_mistake_is_found_and_its_line_named() {
    let program = field();
    each(&cases(&program), |case, _| {
        let (output, _folder) = check(&["--check=race", "--timeout", "240"], &program, &[case]);
        if !output.status.success() && is_named(case, &text(&output)) {
            return None;
        }
        let (output, folder) = check(&["--check=60", "--explore", "8", "--timeout", "240"], &program, &[case]);
        let said = text(&output);
        let summary = said.split("--check has found a failure: ").nth(1).unwrap_or_default();
        let is_told = is_named(case, summary.split("where: ").last().unwrap_or_default());
        let is_whole = output.status.code() == Some(1) && summary.contains("  again: ") && summary.contains("  picture: ");
        let has_page = std::fs::read_dir(folder.path()).unwrap().count() == 1;
        (!is_told || !is_whole || !has_page).then(|| format!("{case}: {} of {:?}\n{said}", output.status, marked(case)))
    });
}

/// The same of `field/around.cu`, `field/more.cu` and `field/phases.cu`, each twin beside it; of messages that are received in another order no line is known.
#[test]
fn mistakes_around_kernels_are_found_and_their_twins_are_not_blamed() {
    each_is_found_and_no_twin_blamed("around.cu", 24, &[Ranks::Threads]);
    each_is_found_and_no_twin_blamed("more.cu", 16, &[Ranks::Threads]);
    each_is_found_and_no_twin_blamed("phases.cu", 9, &[Ranks::Threads]);
}

/// It moves nothing, and two of them at one place are no race.
#[test]
fn a_put_that_is_refused_races_with_none() {
    let program = compiled_as("abi-tests/field/phases.cu", &["--check=race".into(), "-O1".into()]);
    let said = text(&check(&["--check=race", "--timeout", "240"], &program, &["parent"]).0);
    assert!(is_named("parent", &said) && said.contains("refused: ncclGin::put, target: "), "{said}");
    assert!(!said.contains("ginrs-cpu: race "), "{said}");
}

/// And of `field/experts.cu`, `field/flags.cu`, `field/ptx.cu`, `field/shared.cu`, `field/practice.cu`, `field/pinned.cu` and `field/unwritten.cu`, also where the ranks are processes.
#[test]
fn mistakes_are_found_by_processes_as_by_threads() {
    each_is_found_and_no_twin_blamed("experts.cu", 19, &[Ranks::Threads, Ranks::Processes]);
    each_is_found_and_no_twin_blamed("flags.cu", 13, &[Ranks::Threads, Ranks::Processes]);
    each_is_found_and_no_twin_blamed("ptx.cu", 9, &[Ranks::Threads, Ranks::Processes]);
    each_is_found_and_no_twin_blamed("shared.cu", 9, &[Ranks::Threads, Ranks::Processes]);
    each_is_found_and_no_twin_blamed("practice.cu", 12, &[Ranks::Threads, Ranks::Processes]);
    each_is_found_and_no_twin_blamed("pinned.cu", 6, &[Ranks::Threads, Ranks::Processes]);
    each_is_found_and_no_twin_blamed("unwritten.cu", 11, &[Ranks::Threads, Ranks::Processes]);
}

#[derive(Clone, Copy)]
enum Ranks {
    Threads,
    Processes,
}

#[track_caller]
fn each_is_found_and_no_twin_blamed(file: &str, count: usize, hows: &[Ranks]) {
    let program = compiled_as(&format!("abi-tests/field/{file}"), &["--check=race".into(), "-O1".into()]);
    let cases = cases(&program);
    assert_eq!(cases.len(), count, "{cases:?}");
    each(&cases, |case, ranks| {
        hows.iter().find_map(|how| match how {
            Ranks::Threads => is_not_found(&program, case, &[]),
            Ranks::Processes => is_not_found(&program, case, &["-n", ranks]),
        })
    });
}

/// What is wrong with a case and its twin, as these processes of `ginrs-run`.
fn is_not_found(program: &Path, case: &str, processes: &[&str]) -> Option<String> {
    let is_told = |output: &Output| !output.status.success() && (marked(case).is_empty() || is_named(case, &text(output)));
    let ran = |arguments: &[&str]| check(&[&["--check=race", "--timeout", "240"], processes].concat(), program, arguments).0;
    let twin = ran(&[case, "mended"]);
    if !twin.status.success() || ["race", "GINRS-E", "refused"].iter().any(|word| text(&twin).contains(word)) {
        return Some(format!("{case} mended, {processes:?}: {}\n{}", twin.status, text(&twin)));
    }
    if is_told(&ran(&[case])) {
        return None;
    }
    let options = [&["--check=60", "--explore", "8", "--timeout", "240"], processes].concat();
    let (output, _folder) = check(&options, program, &[case]);
    (!is_told(&output)).then(|| format!("{case}, {processes:?}: {} of {:?}\n{}", output.status, marked(case), text(&output)))
}

/// The sanitizer for that reports it and lets the program go on to its own end, with status 0.
#[test]
fn arithmetic_that_overflows_is_found_and_its_twin_is_not_blamed() {
    let source = "abi-tests/sanitizers/overflow.cu";
    let program = compiled_as(source, &["-g".into(), "-fsanitize=undefined".into()]);
    let options = ["--check=60", "--explore", "1", "--timeout", "240", "-n", "1"];
    let said = text(&check(&options, &program, &[]).0);
    let line = abi_tests::programs::line_of(source, "bug of: overflow");
    let told = format!("overflow.cu:{line}:");
    assert!(said.contains("--check has found a failure: the plain run ended with status 0"), "{said}");
    let what = said.lines().find(|line| line.starts_with("ginrs-run:   what: ")).unwrap_or_default();
    assert!(what.contains(&told) && what.contains("signed integer overflow"), "{said}");
    let (output, _folder) = check(&options, &program, &["mended"]);
    assert!(output.status.success() && text(&output).contains("--check has found nothing"), "{}", text(&output));
}

/// Between machines that GINRS_FAKE_MACHINES pretends there are messages alone; as threads of one process their ranks are looked at all the same.
#[test]
fn puts_between_pretended_machines_are_looked_at() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(prefix().join("bin/ginrs-run"));
        command.args(["--check=race", "--timeout", "240"]).arg(field()).args(arguments);
        command.env("GINRS_FAKE_MACHINES", "0,0,1,1").output().unwrap()
    };
    let output = run(&["scatter-signal"]);
    assert!(output.status.code() == Some(66) && is_named("scatter-signal", &text(&output)), "{}", text(&output));
    let output = run(&["scatter-signal", "mended"]);
    assert!(output.status.success() && !text(&output).contains("race"), "{}", text(&output));
}

/// Of cases whose mended programs differ; each plainly, and under a seed.
const TWINS: [&str; 18] = [
    "halo-early",
    "halo-source",
    "moe-flag",
    "gather-stale",
    "reduce-reuse",
    "reduce-node",
    "pipe-depth",
    "scatter-fence",
    "scatter-signal",
    "ll-epoch",
    "host-gone",
    "host-stale",
    "sync-warps",
    "sync-gin",
    "sync-nested",
    "sync-order",
    "sync-once",
    "sync-hybrid",
];

#[test]
fn no_mended_twin_is_blamed() {
    let program = field();
    let cases: Vec<_> = cases(&program).into_iter().filter(|(case, _)| TWINS.contains(&case.as_str())).collect();
    assert_eq!(cases.len(), TWINS.len());
    each(&cases, |case, _| {
        let (output, _folder) = check(&["--check=60", "--explore", "1", "--timeout", "240"], &program, &[case, "mended"]);
        let said = text(&output);
        (output.status.code() != Some(0) || !said.contains("--check has found nothing"))
            .then(|| format!("{case}: {}\n{said}", output.status))
    });
}

#[test]
fn a_summary_says_what_where_how_it_comes_back_and_has_a_page() {
    let program = field();
    let (output, folder) = check(&["--check=60", "--html", "page.html", "--timeout", "240"], &program, &["halo-early"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for words in [
        "  what: ginrs-cpu: race 1: ",
        "  where: ",
        "  picture: page.html",
        "  tried: of 2 plain runs 2 failed",
        "  not looked for: ",
    ] {
        assert!(said.contains(words), "no {words} in\n{said}");
    }
    assert!(std::fs::metadata(folder.path().join("page.html")).unwrap().len() > 10_000);
    let command = said.split("  again: ").nth(1).expect("a command").lines().next().unwrap();
    let path = format!("{}:{}", prefix().join("bin").display(), std::env::var("PATH").unwrap());
    let again = Command::new("sh").args(["-c", command]).env("PATH", path).current_dir(folder.path()).output().unwrap();
    assert!(again.status.code() == Some(66) && text(&again).contains("race 1: "), "{command}: {}", text(&again));
    // Processes are looked at as threads are.
    let (output, _folder) = check(&["--check=60", "-n", "3"], &program, &["halo-early"]);
    assert!(output.status.code() == Some(1) && is_named("halo-early", &text(&output)), "{}", text(&output));
}

#[test]
fn what_was_not_looked_at_is_said() {
    let mistakes = compiled("abi-tests/explore/mistakes.cu");
    let run = |options: &[&str], program: &Path, arguments: &[&str]| {
        let output = check(options, program, arguments).0;
        (output.status.code(), text(&output))
    };
    let (status, said) = run(&["--check=60", "--explore", "2"], &mistakes, &[]);
    assert!(status == Some(1) && said.contains("picture: "), "its own failure, for want of MISTAKE: {said}");
    // Not ours, whether it fails or never ends.
    for (options, program, how) in [
        (&["--check"][..], &["true"][..], "it ended with status 0"),
        (&["--check", "-n", "2"], &["false"], "it ended with status 1"),
        (&["--check", "--timeout", "1"], &["sleep", "100"], "it was not done after 1 s (--timeout)"),
    ] {
        let (status, said) = run(options, Path::new(program[0]), &program[1..]);
        let wanted = format!("no process of {} uses ginrs, so nothing of it can be checked; {how}", program[0]);
        assert!(status == Some(2) && said.contains(&wanted) && !said.contains("tried: "), "{said}");
    }
    let (status, said) = run(&["--check"], Path::new("/nowhere/program"), &[]);
    assert!(status == Some(127) && said.contains("cannot start"), "{said}");
    let ring = compiled("examples-c/02-ring/main.cu");
    let (status, said) = run(&["--check=60", "--explore", "2"], &ring, &["--threads", "2"]);
    assert_eq!(status, Some(0), "{said}");
    for words in [
        "--check has found nothing",
        "tried: a plain run passed; seeds 1 to 2 passed",
        "races (build it with: ginrs-cc --check=race)",
    ] {
        assert!(said.contains(words), "no {words} in\n{said}");
    }
    // A rank that never ends is a failure, after its time.
    let (status, said) = run(&["--check", "--timeout", "2", "-n", "2"], &compiled("abi-tests/hangs/hang.cu"), &["sleep"]);
    assert!(status == Some(1) && said.contains("the plain run was not done after 2 s (--timeout)"), "{said}");
}

/// A seed whose hang nobody can prove, one poll in a kernel: its runs are ended by `--timeout`, and further ones by the time that is left.
#[test]
fn a_hang_of_a_seed_leaves_check_within_its_time() {
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    command.args(["--check=0.001", "--timeout", "2"]).arg(compiled("abi-tests/explore/mistakes.cu")).env("MISTAKE", "hang");
    let folder = tempfile::tempdir().unwrap();
    let output = command.current_dir(folder.path()).env_remove("GINRS_SCHEDULE").output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for words in [
        "the time is over: seed 1 is not run again",
        "ginrs-run --seed 1 ",
        "  hint: built with ginrs-cc --check=race",
        "seed 1 was not done after 2 s",
    ] {
        assert!(said.contains(words), "no {words} in\n{said}");
    }
}

/// In the plain run, in a seed's, and where a plain run that has failed is run again.
#[test]
fn ctrl_c_ends_the_ranks_and_says_what_was_tried() {
    let ring = compiled("examples-c/02-ring/main.cu");
    let nothing = "--check was ended, and had found nothing";
    for (stays, told, tried, files) in [
        ("[ -z \"$GINRS_SCHEDULE\" ]", nothing, "tried: ended by SIGINT", 2),
        ("[ -n \"$GINRS_SCHEDULE\" ]", nothing, "tried: a plain run passed; ended by SIGINT", 2),
        (
            "{ [ -e was.$RANK ] || { touch was.$RANK; \"$0\"; exit 3; }; }",
            "--check has found a failure: the plain run ended with status 3",
            "tried: a plain run failed; ended by SIGINT",
            5,
        ),
    ] {
        let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let script = format!("if {stays}; then echo $$ > $RANK && mv $RANK pid.$RANK && exec sleep 600; fi; exec \"$0\"");
        let mut command = Command::new(prefix().join("bin/ginrs-run"));
        command.args(["--check", "-n", "2", "sh", "-c", &script]).arg(&ring).env("TMPDIR", temporary.path());
        command.current_dir(folder.path()).env_remove("GINRS_SCHEDULE").stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let pids: Vec<String> = (0..2).map(|rank| once_there(&folder.path().join(format!("pid.{rank}")))).collect();
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert!(said.contains(told) && said.contains(tried), "{said}");
        for pid in pids {
            assert!(!Path::new("/proc").join(pid.trim()).exists(), "rank {pid} runs: {said}");
        }
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "{said}");
        // The ranks' own, and the page where there is a failure.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), files, "{said}");
    }
}

/// What another process writes there.
fn once_there(file: &Path) -> String {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) => return text,
            Err(error) => assert!(Instant::now() < until, "{}: {error}", file.display()),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
