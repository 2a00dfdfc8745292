//! GINRS_SCHEDULE and `ginrs-run --explore`: `explore/mistakes.cu` has mistakes that the usual order of threads and blocks forgives, which
//! few seeds must find, and their mended twins, which none may blame. Needs GINRS_PREFIX (`make test` sets it).

#[path = "../../src/hang_limit.rs"]
mod hang_limit;

use abi_tests::programs::{compiled, compiled_as, compiled_with_theirs, line_of};
use abi_tests::{prefix, text};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// With the options and the program's arguments; GINRS_SCHEDULE and GINRS_CHAOS are ginrs-run's to set.
fn ginrs_run(options: &[&str], program: &Path, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "300"]).arg(prefix().join("bin/ginrs-run")).args(options).arg(program);
    command.env_remove("GINRS_SCHEDULE").env_remove("GINRS_CHAOS").envs(env.iter().copied()).output().unwrap()
}

#[track_caller]
fn is_ok(output: &Output, what: &str) {
    assert!(output.status.success(), "{what}: {}\n{}", output.status, text(output));
}

#[test]
fn each_mistake_passes_without_a_seed_is_found_by_few_and_no_seed_blames_its_mended_twin() {
    for program in
        [compiled("abi-tests/explore/mistakes.cu")].into_iter().chain(compiled_with_theirs("abi-tests/explore/mistakes.cu"))
    {
        for (mistake, ranks, seeds) in
            [("sync", "1", 8), ("warp", "1", 8), ("lock", "1", 20), ("blocks", "1", 8), ("put", "2", 20)]
        {
            // On a machine with much to do `blocks` and `put` may fail without a seed, too: they are mistakes.
            if !["blocks", "put"].contains(&mistake) {
                is_ok(&ginrs_run(&["-n", ranks, "--timeout", "240"], &program, &[("MISTAKE", mistake)]), mistake);
            }
            let found = (1..=seeds).find(|seed: &u32| {
                let seed = seed.to_string();
                let env = [("MISTAKE", mistake), ("GINRS_SCHEDULE", seed.as_str())];
                let output = ginrs_run(&["-n", ranks, "--timeout", "240"], &program, &env);
                assert!(!text(&output).contains("NCCL WARN"), "{mistake}, seed {seed}: {}", text(&output));
                text(&output).contains(": WRONG")
            });
            assert!(found.is_some(), "{mistake} of {} is not found by {seeds} seeds", program.display());
            let env = [("MISTAKE", mistake), ("MENDED", "1")];
            let output = ginrs_run(&["--explore", "4", "-n", ranks, "--timeout", "240"], &program, &env);
            is_ok(&output, &format!("mended {mistake}"));
            assert!(text(&output).contains("no failure: seeds 1 to 4 passed"), "{}", text(&output));
            assert!(!text(&output).contains(": ok,"), "what passes is not shown: {}", text(&output));
        }
    }
}

#[test]
fn a_hunt_says_the_seed_what_it_needs_and_how_it_comes_back() {
    let program = compiled("abi-tests/explore/mistakes.cu");
    let output = ginrs_run(&["--explore", "20"], &program, &[("MISTAKE", "sync")]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("[0] ") && said.contains(": WRONG,"), "{said}");
    let wants = |words: &[&str]| words.iter().for_each(|word| assert!(said.contains(word), "no {word:?} in\n{said}"));
    wants(&[
        " fails: it ended with status 1",
        " fails again, by the same ",
        "the schedule is what it needs",
        " choices are enough; with one less, and then none drawn, it passes",
    ]);
    // The command that it names does what it says.
    let command = said.split("comes back with: ").nth(1).expect("a command").lines().next().unwrap();
    let path = format!("{}:{}", prefix().join("bin").display(), std::env::var("PATH").unwrap());
    assert!(command.contains("GINRS_SCHEDULE_UNTIL="), "{command}");
    let again = Command::new("sh").args(["-c", command]).env("PATH", path).env("MISTAKE", "sync").output().unwrap();
    assert!(again.status.code() == Some(1) && text(&again).contains(": WRONG,"), "{command}: {}", text(&again));
    // So does the seed itself; without it, nothing goes wrong.
    let seed = said.split("ginrs-run: seed ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a seed");
    let once = ginrs_run(&["--seed", seed], &program, &[("MISTAKE", "sync")]);
    assert!(once.status.code() == Some(1) && text(&once).contains(": WRONG,"), "{}", text(&once));
}

/// Host threads that meet in each way there is.
fn host() -> PathBuf {
    compiled_as("abi-tests/explore/host.cu", &["-std=c++20".into()])
}

/// What one run of `seed` printed, its choices and their hash among it, but for the numbers of its process; in order of lines.
fn run_of(seed: u32, program: &Path, arguments: &[&str], env: &[(&str, &str)]) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]).arg(prefix().join("bin/ginrs-run")).args(["--seed", &seed.to_string()]);
    let output = command.arg(program).args(arguments).env_remove("GINRS_SCHEDULE").envs(env.iter().copied()).output().unwrap();
    let mut lines: Vec<String> = text(&output).lines().filter(|line| !line.contains("(pid ")).map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn a_seed_makes_the_same_choices_each_time_and_another_seed_makes_others() {
    let (mistakes, ring) = (compiled("abi-tests/explore/mistakes.cu"), compiled("examples-c/02-ring/main.cu"));
    let files = compiled_as("abi-tests/explore/files.cu", &["-std=c++17".into()]);
    let put: &[(&str, &str)] = &[("MISTAKE", "put")];
    let (none, two, three): ([&str; 0], _, _) = ([], ["--threads", "2"], ["--threads", "3"]);
    // Over libfabric, on the loopback.
    let machines: &[(&str, &str)] = &[("GINRS_FAKE_MACHINES", "0,0,1")];
    let programs = [
        (&host(), &none[..], &[][..], 20),
        (&files, &none, &[], 20),
        (&mistakes, &two, put, 20),
        (&ring, &three, &[], 5),
        (&ring, &three, machines, 5),
    ];
    for (program, arguments, env, seeds) in programs {
        let mut all = HashSet::new();
        for seed in 1..=seeds {
            let first = run_of(seed, program, arguments, env);
            assert!(first.contains(&format!("ginrs-run: seed {seed}: ")) && first.contains(", trace "), "{first}");
            assert!(!first.contains("another run may make others") && !first.contains("NCCL WARN"), "{first}");
            for again in 1..3 {
                assert_eq!(run_of(seed, program, arguments, env), first, "{}, seed {seed}, run {again}", program.display());
            }
            all.insert(first.split(", trace ").nth(1).map(str::to_owned));
        }
        assert_eq!(all.len(), seeds as usize);
    }
}

/// Hashes of addresses decide things, in locks and in tables of the program: a function of the system that was looked up by whoever needed it
/// first left memory otherwise, in one run of ten.
#[test]
fn a_seed_puts_memory_in_the_same_places_each_time() {
    let program = compiled("abi-tests/explore/addresses.cu");
    for seed in 1..=6 {
        let first = run_of(seed, &program, &[], &[]);
        assert!(first.contains("480 added") && !first.contains("another run may make others"), "{first}");
        for again in 1..8 {
            assert_eq!(run_of(seed, &program, &[], &[]), first, "seed {seed}, run {again}");
        }
    }
}

#[test]
fn host_threads_are_stopped_in_plain_code_and_the_fewest_choices_are_found() {
    let program = host();
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    let output = command.args(["--explore", "20"]).arg(&program).arg("lost").env_remove("GINRS_SCHEDULE").output().unwrap();
    let said = text(&output);
    for word in [" fails again, by the same ", "the schedule is what it needs", " choices are enough", "GINRS_SCHEDULE_UNTIL="] {
        assert!(said.contains(word), "no {word:?} in\n{said}");
    }
}

#[test]
fn what_is_not_replayed_is_said() {
    // A read that waits and a child of fork(): all goes on, after an hour that nobody has waited for.
    let begin = std::time::Instant::now();
    let said = run_of(1, &host(), &["outside"], &[]);
    assert!(said.contains("[0] r"), "{said}");
    assert!(said.contains("another run may make others: ") && said.contains("in a call of the system that lasts"), "{said}");
    assert!(begin.elapsed().as_secs() < 100);
    let env = [("MISTAKE", "put"), ("MENDED", "1")];
    let output = ginrs_run(&["--seed", "1", "-n", "2"], &compiled("abi-tests/explore/mistakes.cu"), &env);
    is_ok(&output, "two processes");
    assert!(text(&output).contains("often and not always here: its ranks are processes"), "{}", text(&output));
    let output = ginrs_run(&["--seed", "1"], Path::new("true"), &[]);
    is_ok(&output, "a program without CUDA");
    assert!(text(&output).contains("was not linked with libginrs_cpu.so"), "{}", text(&output));
}

#[test]
fn the_network_is_told_from_the_schedule() {
    let program = compiled("abi-tests/lawful/mistakes.cu");
    let output = ginrs_run(&["--explore", "20", "-n", "2", "--timeout", "240"], &program, &[("MISTAKE", "context")]);
    let said = text(&output);
    assert!(output.status.code() == Some(1) && said.contains(": WRONG,"), "{said}");
    let alone = said.rsplit("GINRS_CHAOS alone ").next().and_then(|rest| rest.split(',').next()).expect("a count");
    assert!(alone.parse::<u32>().unwrap() > 0, "{said}");
}

#[test]
fn a_hang_is_a_failure_and_says_who_waits() {
    let program = compiled("abi-tests/explore/mistakes.cu");
    // Ten runs of it hang. That a slow machine calls others so, too, is no matter here.
    let output = ginrs_run(&["--explore", "40", "--timeout", "2"], &program, &[("MISTAKE", "hang")]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in ["fails: it was not done after 2 s", "comes back with: "] {
        assert!(said.contains(word), "no {word:?} in\n{said}");
    }
    let output = ginrs_run(&["--explore", "4"], &program, &[("MISTAKE", "hang"), ("MENDED", "1")]);
    is_ok(&output, "mended hang");
}

/// Two warps of each rank: whether the second one counts what the first one says decides whether the ranks hang.
#[test]
fn a_hang_of_a_seed_is_proven_named_replayed_and_shrunk() {
    let program = compiled("abi-tests/explore/mistakes.cu");
    let run = |options: &[&str], mended: bool| {
        let mut command = Command::new(prefix().join("bin/ginrs-run"));
        command.args(options).args(["--devices", "2"]).arg(&program).args(["--threads", "2"]);
        command.env("MISTAKE", "lost").envs(mended.then_some(("MENDED", "1"))).env_remove("GINRS_SCHEDULE").output().unwrap()
    };
    is_ok(&run(&["-n", "1"], false), "without a seed");
    let output = run(&["--explore", "10", "--seed", "5"], false);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let line = format!("mistakes.cu:{}", line_of("abi-tests/explore/mistakes.cu", "wait of: lost"));
    let told = said.lines().find(|line| line.contains("GINRS-E140 ")).unwrap_or_else(|| panic!("{said}"));
    assert!(told.contains("waits for signal 0 >= ") && told.contains(&line), "{told}");
    for word in [" fails again, by the same ", "the schedule is what it needs", " choices are enough"] {
        assert!(said.contains(word), "no {word:?} in\n{said}");
    }
    is_ok(&run(&["--explore", "4"], true), "mended");
}

#[test]
fn ctrl_c_ends_it_with_what_is_known() {
    let program = Path::new("sleep");
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    command.args(["--explore", "5"]).arg(program).arg("900");
    let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Until its first run has started the program.
    let runs = |pid: u32| {
        let is_program = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
        let mut all = vec![pid.to_string()];
        while let Some(pid) = all.pop() {
            if is_program(&pid) {
                return true;
            }
            for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
                all.extend(children.split_ascii_whitespace().map(str::to_owned));
            }
        }
        false
    };
    let end = hang_limit::hang_deadline();
    while !runs(child.id()) {
        assert!(std::time::Instant::now() < end, "no run begins");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("ended by SIGINT in seed 1; none has run to its end"), "{said}");
}

#[test]
fn what_cannot_be_is_told() {
    let program = compiled("abi-tests/explore/mistakes.cu");
    for bad in ["x", "-1", "18446744073709551616", "1.5", ""] {
        let output = ginrs_run(&["-n", "1"], &program, &[("GINRS_SCHEDULE", bad), ("MISTAKE", "sync")]);
        let wanted = format!("GINRS_SCHEDULE={bad} is ignored: give a number from 0 to 18446744073709551615");
        assert!(text(&output).contains(&wanted), "{bad}: {}", text(&output));
    }
    for (options, word) in [
        (&["--explore", "0"][..], "`--explore 0`"),
        (&["--explore", "2", "--seed", "x"], "`--seed x`"),
        (&["--explore", "2", "--timeline", "/nowhere/x"], "--seed S --timeline"),
        (&["--explore", "2", "-n", "2", "--hosts", "a,b"], "--seed S --hosts"),
    ] {
        let output = ginrs_run(options, &program, &[]);
        assert!(output.status.code() == Some(2) && text(&output).contains(word), "{options:?}: {}", text(&output));
    }
    let output = ginrs_run(&["--explore", "3"], Path::new("/nowhere/program"), &[]);
    assert!(output.status.code() == Some(127) && text(&output).contains("cannot start"), "{}", text(&output));
}
