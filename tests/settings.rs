//! What a process says about its settings, seen from outside: each case is a process of its own.

use std::process::{Command, Output};

/// Runs this test in a process with those variables, which uses the library a little, twice.
fn process(test: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("GINRS_TEST_INNER", "1")
        .env_remove("NCCL_DEBUG")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn inner() -> bool {
    let inner = std::env::var_os("GINRS_TEST_INNER").is_some();
    if inner {
        for _ in 0..2 {
            drop(ginrs::bootstrap::UniqueId::create().unwrap());
        }
    }
    inner
}

fn count(bytes: &[u8], part: &str) -> usize {
    String::from_utf8_lossy(bytes).matches(part).count()
}

#[test]
fn the_version_is_printed_once_by_every_level_but_none() {
    if inner() {
        return;
    }
    let test = "the_version_is_printed_once_by_every_level_but_none";
    for (level, times) in [("VERSION", 1), ("warn", 1), ("INFO", 1), ("TRACE", 1), ("NONE", 0), ("", 0)] {
        let output = process(test, &[("NCCL_DEBUG", level)]);
        assert!(output.status.success());
        assert_eq!(count(&output.stdout, "NCCL version 2.28.9"), times, "NCCL_DEBUG={level:?}: {output:?}");
        assert_eq!(count(&output.stderr, "NCCL"), 0, "NCCL_DEBUG={level:?}: {output:?}");
    }
}

#[test]
fn bad_values_are_one_line_each_where_warnings_go() {
    if inner() {
        return;
    }
    let test = "bad_values_are_one_line_each_where_warnings_go";
    let bad = [
        ("NCCL_GIN_ENABLE", "true"),
        ("GINRS_TIMEOUT", "0"),
        ("GINRS_INIT_TIMEOUT", "-1"),
        ("NCCL_DEBUG_SUBSYS", "INIT,NETT"),
        ("NCCL_GIN_PROXY_QUEUE_SIZE", "100"),
        ("NCCL_GIN_NCONTEXTS", "5"),
        ("GINRS_WAIT_WRAN", "\x1b[2J"),
    ];
    for level in ["", "VERBOSE", "INFO"] {
        let output = process(test, &[&bad[..], &[("NCCL_DEBUG", level)]].concat());
        let told = if level == "INFO" { &output.stdout } else { &output.stderr };
        assert_eq!(count(told, "GINRS-W00"), bad.len() + usize::from(level == "VERBOSE"), "{output:?}");
        for (name, _) in bad {
            assert_eq!(count(told, &format!(" {name}")), 1, "{name}: {output:?}");
        }
        assert_eq!(count(told, "\x1b"), 0);
        assert!(output.status.success());
    }
}

/// What a program hears of the library through `tracing`.
#[derive(Clone, Default)]
struct Heard(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Heard {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let about = event.metadata();
        self.0.lock().unwrap().push(format!("{} {} {}", about.level(), about.target(), about.file().unwrap()));
    }
}

/// Also where NCCL_DEBUG asks for no line; and one that is not attached hears nothing and keeps its filters.
#[test]
fn a_subscriber_of_the_program_hears_the_library_if_it_is_attached() {
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::layer::{Layer, SubscriberExt};
    let registry = tracing_subscriber::registry::Registry::default;
    let (own, attached) = (Heard::default(), Heard::default());
    tracing::dispatcher::set_global_default(registry().with(own.clone().with_filter(LevelFilter::WARN)).into()).unwrap();
    let most = LevelFilter::current();
    ginrs::info!(INIT, "nobody hears it");
    assert_eq!(LevelFilter::current(), most);
    ginrs::log::attach(tracing::Dispatch::new(registry().with(attached.clone())));
    ginrs::info!(NET, "of {}", 1);
    ginrs::log::error(&ginrs::error::Error::new(ginrs::error::Code::InternalError, 1, "planted by a test"));
    assert_eq!(*attached.0.lock().unwrap(), ["INFO ginrs::NET tests/settings.rs", "WARN ginrs src/log/mod.rs"]);
    assert!(own.0.lock().unwrap().is_empty());
}

/// A log file that is a FIFO nobody reads would hold up the first line for ever.
#[test]
fn a_log_file_that_blocks_is_not_opened() {
    if inner() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let output = Command::new("timeout")
        .arg("120")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_log_file_that_blocks_is_not_opened", "--nocapture"])
        .envs([("GINRS_TEST_INNER", "1"), ("NCCL_DEBUG", "WARN")])
        .env("NCCL_DEBUG_FILE", &fifo)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(count(&output.stdout, "GINRS-W001 NCCL_DEBUG_FILE cannot be written"), 1, "{output:?}");
}

/// What a full disk does not take is said on stderr, with the reason once.
#[test]
fn lines_that_a_log_file_does_not_take_are_not_lost() {
    if inner() {
        ginrs::warn!("first");
        ginrs::warn!("second");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lines_that_a_log_file_does_not_take_are_not_lost", "--nocapture"])
        .envs([("GINRS_TEST_INNER", "1"), ("NCCL_DEBUG", "WARN"), ("NCCL_DEBUG_FILE", "/dev/full")])
        .output()
        .unwrap();
    for (what, times) in [("GINRS-W001 NCCL_DEBUG_FILE cannot be written", 1), ("NCCL WARN first", 1), ("NCCL WARN second", 1)] {
        assert_eq!(count(&output.stderr, what), times, "{output:?}");
    }
}
