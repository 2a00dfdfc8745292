//! What the output of a run says of a mistake: the lines of the libraries and of the sanitizers, the one that is nearest to the cause first.

/// A report, and the lines that belong to it.
#[derive(Debug, PartialEq)]
pub struct Finding {
    kind: Kind,
    /// Without `[rank] ` and what a line of NCCL's has in front.
    pub lines: Vec<String>,
}

/// Who says it; the first knows most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The CPU device, with the line of the kernel.
    Kernel,
    /// AddressSanitizer, ThreadSanitizer, UndefinedBehaviorSanitizer.
    Sanitizer,
    /// The CPU device, of a put into a window that its target has deregistered: mostly it did not wait, and something else says why.
    Late,
    /// A hang that is proven.
    Hang,
    /// The CPU device, of a kernel that it does not launch.
    Launch,
    /// The library refuses a call, or says that something has failed.
    Error,
    /// The CPU device, of a call of the CUDA API.
    Call,
    /// Blocks cannot begin, as all that have begun go on: they may end yet.
    Blocks,
    /// A wait that lasts: it may be right.
    Wait,
    /// A rank beside those that wait.
    Idle,
}

/// How the reports of the CPU device begin that are of a mistake in a kernel; `race: ` counts them, or says that nothing is checked.
const KERNEL: [&str; 7] = [
    "race ",
    "refused: ",
    "assertion `",
    "deadlock in ",
    "stack overflow in ",
    "illegal address ",
    "integer division by zero in ",
];
/// Of those, and of others: somewhere in them.
const WITHIN: [&str; 2] = [" | called at ", " is entered by a part of its group: "];
/// Under any other of them stands the thread, or the block, whose it is.
const WHOSE: [&str; 2] = ["ginrs-cpu:   thread (", "ginrs-cpu:   block ("];
/// Somewhere in the warning of blocks that wait for room.
const CANNOT_BEGIN: &str = " cannot begin, and none of the others has ended";
/// How reports begin that are of no mistake, whatever mends them.
const HARMLESS: [&str; 3] = ["race: ", "warning: ", "GINRS_"];
const FIX: &str = "ginrs-cpu: fix: ";
/// What else stands under one of them.
const UNDER: [&str; 4] = ["ginrs-cpu:   ", FIX, "ginrs-cpu: it goes on as a GPU does", "ginrs-cpu: this is multicast memory"];
/// An address that a kernel must not use, and, some time behind, the line at which it did.
const ILLEGAL: &str = "ginrs-cpu: illegal address ";
const TOUCHED: &str = "ginrs-cpu:   touched at ";
/// Of a kernel of the library's: whose call it is, some time behind.
const OURS: &str = " of kernel ginrs_";
const CALLED: &str = "ginrs-cpu:   called by host code: ";
/// In front of what a put is refused for whose target has gone on.
const GONE: &str = " has deregistered the window (";
/// In front of the line of a launch.
const LAUNCHED: &str = " (launched at ";
/// In front of what NCCL's lines say.
const WARN: &str = " NCCL WARN ";
/// Warnings of waits that last: of the host's steps, which have who is missing, and of kernels.
const WAITS: [&str; 3] = ["GINRS-W017", "GINRS-W018", "GINRS-W019"];
/// Of a rank of which no kernel waits.
const IDLE: &str = ": no kernel of it is known to wait";
/// What the library says where the CPU device has refused a call of its: why stands in front of it.
const PRINTED: &str = "fix: see what the CPU device printed";
/// How many ranks' waits are kept.
const RANKS: usize = 8;
/// Warnings that are of a mistake all the same: memory is freed under a window; a message is never received; calls of a group touch the same memory.
const MISTAKES: [&str; 3] = ["GINRS-W024", "GINRS-W025", "GINRS-W026"];
/// Behind a place: arithmetic of which the language does not say what comes out.
const UNDEFINED: &str = ": runtime error: ";
/// Lines of a sanitizer's stack that are looked through for one of the user's.
const STACK: usize = 12;

impl Finding {
    /// The report that is nearest to the cause, of those in `output`.
    pub fn of(output: &str) -> Option<Finding> {
        let lines: Vec<&str> = output.lines().collect();
        let kinds = || lines.iter().enumerate().filter_map(|(at, line)| Some((kind(bare(line), under(&lines, at))?, at)));
        let (kind, at) = kinds().min()?;
        let at = match kind {
            Kind::Error if lines[at].contains(PRINTED) => {
                kinds().find(|other| other.0 == Kind::Call).map_or(at, |(_, call)| call)
            }
            _ => at,
        };
        let (first, under) = (bare(lines[at]), under(&lines, at));
        let told = first.split_once(WARN).map_or(first, |(_, told)| told);
        let mut found = if kind == Kind::Hang { clauses(told) } else { vec![told.to_owned()] };
        match kind {
            // What the others wait for, and who does not, is as near.
            Kind::Wait | Kind::Idle => {
                let others =
                    kinds().filter(|other| other.0 >= Kind::Wait).filter_map(|(_, at)| Some(bare(lines[at]).split_once(WARN)?.1));
                let mut others: Vec<_> = others.filter(|other| *other != told).map(str::to_owned).collect();
                others.sort_by_key(|other| other.contains(IDLE));
                others.dedup();
                found.extend(others.into_iter().take(RANKS - 1));
            }
            Kind::Sanitizer => found.extend(under.take(STACK).find(|line| is_users_frame(line)).map(str::to_owned)),
            _ => found.extend(under.take_while(|line| UNDER.iter().any(|begin| line.starts_with(begin))).map(str::to_owned)),
        }
        // To find the line takes another program: ranks that are threads say something meanwhile.
        if !found.iter().any(|line| line.starts_with(TOUCHED)) && told.starts_with(ILLEGAL) {
            found.extend(self::under(&lines, at).find(|line| line.starts_with(TOUCHED)).map(str::to_owned));
        }
        // The kernel's end, which others hear of, may come between.
        if found.iter().any(|line| line.contains(OURS)) && !found.iter().any(|line| line.starts_with(CALLED)) {
            found.extend(self::under(&lines, at).find(|line| line.starts_with(CALLED)).map(str::to_owned));
        }
        Some(Finding { kind, lines: found })
    }

    /// Whether it is one however the run has ended.
    pub fn is_mistake(&self) -> bool {
        !matches!(self.kind, Kind::Launch | Kind::Call | Kind::Blocks | Kind::Wait | Kind::Idle)
    }

    /// The user's lines, `file:line` each, in the order in which they are named; not those of launches.
    pub fn places(&self) -> Vec<&str> {
        places_in(self.lines.iter().map(|line| line.split(LAUNCHED).next().unwrap_or(line)))
    }

    /// Those of the launches that it is of, in the same way.
    pub fn launches(&self) -> Vec<&str> {
        places_in(self.lines.iter().filter_map(|line| Some(line.split_once(LAUNCHED)?.1)))
    }
}

fn places_in<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut places = Vec::new();
    for word in texts.flat_map(|text| text.split([' ', ',', ';', '(', ')', '\'', '|'])) {
        let word = word.trim_end_matches([':', '.']);
        if is_place(word) && !places.contains(&word) {
            places.push(word);
        }
    }
    places
}

/// The lines behind one that are its rank's.
fn under<'a>(lines: &'a [&'a str], at: usize) -> impl Iterator<Item = &'a str> {
    lines[at + 1..].iter().filter(move |line| rank(line) == rank(lines[at])).map(|line| bare(line))
}

/// What a hang's line says of its cause, the root first, then who has left and each that waits, and how to mend it.
fn clauses(told: &str) -> Vec<String> {
    let mut parts = told.split(" | ");
    let cause = parts.next().unwrap_or_default().split("; ");
    cause.chain(parts.filter(|part| part.starts_with("fix: "))).map(str::to_owned).collect()
}

/// `file:12` or `file:12:3`
fn is_place(word: &str) -> bool {
    let mut parts = word.split(':');
    let (name, line) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_ours = name.contains("/include/ginrs/") || name.starts_with("cuda/collectives/");
    let is_source = [".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".inl"].iter().any(|end| name.ends_with(end));
    is_source && !is_ours && line.parse::<u32>().is_ok() && parts.all(|rest| rest.parse::<u32>().is_ok())
}

/// `    #1 0x55.. in name file:12`, of a file that is none of a library's.
fn is_users_frame(line: &str) -> bool {
    let frame = line.trim_start().starts_with('#');
    frame && !line.contains("/include/") && line.split([' ', '\t']).any(is_place)
}

/// Of a line, with those under it.
fn kind<'a>(line: &str, mut under: impl Iterator<Item = &'a str>) -> Option<Kind> {
    if let Some(told) = line.strip_prefix("ginrs-cpu: ") {
        if told.contains(GONE) {
            return Some(Kind::Late);
        }
        if KERNEL.iter().any(|begin| told.starts_with(begin)) || WITHIN.iter().any(|words| told.contains(words)) {
            return Some(Kind::Kernel);
        }
        if told.contains(CANNOT_BEGIN) {
            return Some(Kind::Blocks);
        }
        if told.starts_with([' ']) || line.starts_with(FIX) || HARMLESS.iter().any(|begin| told.starts_with(begin)) {
            return None;
        }
        let next = under.next().unwrap_or_default();
        let is_mended = next.starts_with(FIX);
        let next = if is_mended { under.next().unwrap_or_default() } else { next };
        return if WHOSE.iter().any(|begin| next.starts_with(begin)) {
            Some(Kind::Kernel)
        } else if is_mended && told.starts_with("kernel ") && told.contains(LAUNCHED) {
            Some(Kind::Launch)
        } else {
            (is_mended || told.contains(" fix: ")).then_some(Kind::Call)
        };
    }
    let is_undefined = line.split_once(UNDEFINED).is_some_and(|(place, _)| is_place(place));
    if is_undefined || line.contains("ERROR: AddressSanitizer: ") || line.contains("WARNING: ThreadSanitizer: ") {
        return Some(Kind::Sanitizer);
    }
    match line.split_once(WARN)?.1 {
        told if told.starts_with("GINRS-E140") => Some(Kind::Hang),
        told if told.starts_with("GINRS-E") || MISTAKES.iter().any(|code| told.starts_with(code)) => Some(Kind::Error),
        told if told.contains(IDLE) => Some(Kind::Idle),
        told if WAITS.iter().any(|code| told.starts_with(code)) => Some(Kind::Wait),
        _ => None,
    }
}

/// `[3] ` of a line.
fn rank(line: &str) -> Option<&str> {
    let end = line.strip_prefix('[')?.find("] ")?;
    let rank = &line[1..=end];
    (!rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit())).then_some(rank)
}

/// Without it.
fn bare(line: &str) -> &str {
    rank(line).map_or(line, |rank| &line[rank.len() + 3..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANG: &str = "[1] vm:7:9 [1] NCCL WARN GINRS-E140 no rank can go on: rank 1 block 0 waits for signal 0 >= 2 (has 1) of context 0 at a/hang.cu:57; rank 0 (pid 7) has left | comm 0x1 | for 1 s kernels have only waited | fix: count";

    #[test]
    fn the_report_that_is_nearest_to_the_cause_is_taken_with_its_lines() {
        let output = format!(
            "[0] rank 0: ok\n{HANG}\n[1] ginrs-cpu: race 1: the target of a put is read before its signal\n\
             [0] ginrs-cpu:   not its\n[1] ginrs-cpu:   read at a/race.cu:72 by rank 1\n\
             [1] ginrs-cpu:   the put at a/race.cu:68 writes\n[1] ginrs-cpu: race: 1 found; the status is 66\n"
        );
        let found = Finding::of(&output).unwrap();
        assert!(found.is_mistake() && found.lines.len() == 3, "{found:?}");
        assert_eq!(found.places(), ["a/race.cu:72", "a/race.cu:68"]);
        let told = "[0] ginrs-cpu: refused: signal 4: .. | called at a/c.cu:39\n[0] ginrs-cpu:   thread (0,0,0) of kernel k (launched at a/c.cu:127)";
        assert_eq!(Finding::of(told).unwrap().places(), ["a/c.cu:39"]);
        let found = Finding::of(HANG).unwrap();
        assert!(found.is_mistake() && found.lines[0].starts_with("GINRS-E140"), "{found:?}");
        assert_eq!(found.places(), ["a/hang.cu:57"]);
        assert_eq!(found.lines[1..], ["rank 0 (pid 7) has left", "fix: count"]);
    }

    #[test]
    fn blocks_that_cannot_begin_are_nearer_than_waits_that_follow() {
        let output = "[0] ginrs-cpu: warning: 88 of 600 blocks of kernel k (launched at a/x.cu:7) cannot begin, and none of the others has ended for 10 s\n\
             [0] ginrs-cpu: fix: if they wait for each other, launch fewer blocks\n\
             [0] vm:7:9 [0] NCCL WARN GINRS-W019 rank 0: no kernel of it is known to wait | comm 0x1\n";
        let found = Finding::of(output).unwrap();
        assert!(
            !found.is_mistake() && found.lines[0].starts_with("ginrs-cpu: warning: 88 of 600") && found.lines.len() == 2,
            "{found:?}"
        );
        assert_eq!(found.launches(), ["a/x.cu:7"]);
    }

    #[test]
    fn a_wait_that_has_a_line_is_nearer_than_a_rank_that_has_none() {
        let idle =
            "GINRS-W019 rank 0: no kernel of it is known to wait, its host is or was last in no collective step | comm 0x1";
        let waits = "GINRS-W019 rank 1 block 0 waits for signal 0 >= 1 (has 0) of context 0 for 4 s at a/x.cu:117 | comm 0x1";
        let found = Finding::of(&format!("[0] vm:7:9 [0] NCCL WARN {idle}\n[1] vm:8:9 [0] NCCL WARN {waits}\n")).unwrap();
        assert!(!found.is_mistake() && found.lines == [waits, idle], "{found:?}");
        assert_eq!(found.places(), ["a/x.cu:117"]);
    }

    /// As `error::report` of the CPU device prints them, between those of the library that follow from them.
    #[test]
    fn reports_of_the_cpu_device_have_their_fix_on_a_line_of_its_own() {
        let follows =
            "[0] vm:7:9 [0] NCCL WARN GINRS-E084 a kernel of rank 0 failed | cudaError 719 | fix: look for its assert\n";
        let thread = "[1] ginrs-cpu:   thread (0,0,0) of block (1,0,0) of kernel k (launched at a/x.cu:15)\n";
        for (told, fix, place) in [
            ("grid sync at a/x.cu:9 in a plain launch", "use cudaLaunchCooperativeKernel", "a/x.cu:9"),
            ("bar.sync at a/x.cu:7: it counts to 128 in a block of 64", "count only threads that exist", "a/x.cu:7"),
            ("__shfl_sync at a/x.cu:7: mask 0x0000ffff lacks the calling lane 16", "a lane names itself in the mask", "a/x.cu:7"),
            ("__trap() at a/x.cu:7", "", "a/x.cu:7"),
        ] {
            let fix = if fix.is_empty() { String::new() } else { format!("[1] ginrs-cpu: fix: {fix}\n[0] rank 0: ok\n") };
            let found = Finding::of(&format!("{follows}[1] ginrs-cpu: {told}\n{fix}{thread}")).unwrap();
            assert!(found.is_mistake() && found.lines[0].ends_with(told), "{found:?}");
            assert_eq!((found.lines.len(), found.places()), (if fix.is_empty() { 2 } else { 3 }, vec![place]), "{found:?}");
        }
        let told = "[1] ginrs-cpu: kernel k (launched at a/x.cu:9): a block of (2048,1,1) threads\n[1] ginrs-cpu: fix: at most 1024 in all\n";
        let found = Finding::of(&format!("{follows}{told}")).unwrap();
        assert!(!found.is_mistake() && found.places().is_empty() && found.lines.len() == 2, "{found:?}");
        assert_eq!(found.launches(), ["a/x.cu:9"]);
        let told = "ginrs-cpu: integer division by zero in thread (0,0,0) of kernel k (launched at a/x.cu:9), device 0\n\
                    ginrs-cpu: it goes on as a GPU does, with all bits set\nginrs-cpu: fix: check the divisor\n";
        let found = Finding::of(told).unwrap();
        assert!(found.is_mistake() && found.lines[2] == "ginrs-cpu: fix: check the divisor", "{found:?}");
        let told = "[1] ginrs-cpu: cudaFree(0x5): pinned host memory\n[1] ginrs-cpu: fix: cudaFreeHost\n";
        let found = Finding::of(told).unwrap();
        assert!(!found.is_mistake() && found.lines.len() == 2, "{found:?}");
        assert!(Finding::of(&format!("{told}{follows}")).unwrap().lines[0].starts_with("GINRS-E084"));
    }

    #[test]
    fn the_line_of_an_illegal_address_comes_late_and_a_freed_window_is_a_mistake() {
        let output = "[0] ginrs-cpu: illegal address 0x5 in thread (0,0,0) of kernel k (launched at a/x.cu:9), device 1\n\
                      [0] ginrs-cpu:   ncclGetLsaPointer gave it at a/x.cu:4 for rank 2, ..\n[0] ginrs-cpu: fix: use device memory\n\
                      [0] rank 1: ok\n[1] ginrs-cpu:   touched at a/y.cu:1\n[0] ginrs-cpu:   touched at a/x.cu:5\n";
        let found = Finding::of(output).unwrap();
        assert!(found.is_mistake() && found.lines.len() == 4, "{found:?}");
        assert_eq!(found.places(), ["a/x.cu:4", "a/x.cu:5"]);
        let found =
            Finding::of("vm NCCL WARN GINRS-W024 memory is freed | ncclMemFree(0x5) | called by host code at a/x.cu:7 | fix: ..")
                .unwrap();
        assert!(found.is_mistake() && found.places() == ["a/x.cu:7"], "{found:?}");
        let lost = "vm NCCL WARN GINRS-W025 8 bytes that rank 0 has sent to rank 1 were never received | ncclSend called by host code at a/x.cu:9 | fix: ..";
        let found = Finding::of(lost).unwrap();
        assert!(found.is_mistake() && found.places() == ["a/x.cu:9"], "{found:?}");
    }

    #[test]
    fn why_a_call_of_the_librarys_is_refused_is_nearer_than_that_it_is() {
        let failed = "[0] vm NCCL WARN GINRS-E073 cudaSetDevice failed | cudaError 800 | fix: see what the CPU device printed";
        let alone = Finding::of(failed).unwrap();
        assert!(alone.is_mistake() && alone.lines[0].starts_with("GINRS-E073"), "{alone:?}");
        let why = "[1] ginrs-cpu: cudaSetDevice in a host function, which CUDA forbids | called by host code at a/x.cu:4\n[1] ginrs-cpu: fix: elsewhere";
        let both = Finding::of(&format!("{failed}\n{why}")).unwrap();
        assert!(both.is_mistake() && both.places() == ["a/x.cu:4"] && both.lines[0].contains("host function"), "{both:?}");
    }

    #[test]
    fn a_race_is_nearer_than_a_put_to_a_rank_that_has_gone_on() {
        let late = "[0] ginrs-cpu: refused: ncclGin::put: rank 1 has deregistered the window (the 1st that was registered) | called at a/x.cu:5\n";
        let found =
            Finding::of(&format!("{late}[1] ginrs-cpu: race 1: two ranks\n[1] ginrs-cpu:   read at a/x.cu:7 by\n")).unwrap();
        assert_eq!(found.places(), ["a/x.cu:7"]);
        let found = Finding::of(&format!("{HANG}\n{late}")).unwrap();
        assert!(found.is_mistake() && found.places() == ["a/x.cu:5"], "{found:?}");
    }

    #[test]
    fn a_kernel_of_the_librarys_is_told_by_the_call_that_it_is_of() {
        let output = "[1] ginrs-cpu: ncclRecv: the matching ncclSend has another number of bytes at cuda/collectives/channel.cuh:264\n\
                      [1] ginrs-cpu:   thread (0,0,0) of block (0,1,0) of kernel ginrs_p2p (launched at cuda/collectives/cpu.cu:57)\n\
                      [1] vm NCCL WARN GINRS-E084 a kernel of rank 1 failed | fix: ..\n[0] ginrs-cpu:   called by host code: ncclSend at a/x.cu:1\n\
                      [1] ginrs-cpu:   called by host code: ncclSend and ncclRecv at a/x.cu:9\n";
        let found = Finding::of(output).unwrap();
        assert!(found.is_mistake() && found.places() == ["a/x.cu:9"], "{found:?}");
    }

    #[test]
    fn a_sanitizers_report_has_the_first_line_of_the_users() {
        let output = "==1==ERROR: AddressSanitizer: use-after-poison\nWRITE of size 4\n    #0 0x5 in f /p/include/x.h:3\n    #1 0x6 in operator() a/m.cu:34\n";
        assert_eq!(Finding::of(output).unwrap().places(), ["a/m.cu:34"]);
        let found = Finding::of("[1] a/m.cu:3:54: runtime error: signed integer overflow: 5 * 4\n[1] rank 1: ok\n").unwrap();
        assert!(found.is_mistake() && found.places() == ["a/m.cu:3:54"], "{found:?}");
        assert_eq!(Finding::of("the program's own: runtime error: 5"), None);
    }

    #[test]
    fn what_says_nothing_of_a_mistake_is_none() {
        for line in [
            "",
            "[0] ok",
            "ginrs-cpu: race: nothing is checked: its table is full",
            "ginrs-cpu: warning: 2 of 4 blocks cannot begin\nginrs-cpu: fix: launch fewer",
            "ginrs-cpu: race: nothing is checked: far\nginrs-cpu: fix: one machine",
            "ginrs-cpu: hello\nginrs-cpu: it goes on",
            "ginrs-cpu: GINRS_SCHEDULE=x is ignored: give a number",
            "[0] vm NCCL WARN GINRS-W040 something",
            "[0] vm NCCL INFO GINRS-E140 something",
        ] {
            assert_eq!(Finding::of(line), None, "{line}");
        }
        let lasts = "[0] vm NCCL WARN GINRS-W019 rank 1 block 0 waits for signal 0 at x.cu:4";
        assert!(!Finding::of(lasts).unwrap().is_mistake());
    }
}
