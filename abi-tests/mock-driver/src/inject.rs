//! Failures on demand: GINRS_MOCK_FAIL is `function:nth call:CUresult`, several between commas; `copy` stands for each copy that a
//! stream carries out. `hang` in place of a result: the call, or the copy, never ends.

use crate::error::Code;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

struct Planned {
    name: String,
    nth: u64,
    code: Code,
    seen: AtomicU64,
}

const HANG: Code = Code(c_int::MAX);

/// # Panics
/// On a plan that cannot be read: a test that means to fail a call must not pass because of a typing error.
fn planned() -> &'static [Planned] {
    static PLANNED: OnceLock<Vec<Planned>> = OnceLock::new();
    PLANNED.get_or_init(|| read(&std::env::var("GINRS_MOCK_FAIL").unwrap_or_default()))
}

fn read(plan: &str) -> Vec<Planned> {
    let one = |word: &str| {
        let [name, nth, code] = word.split(':').collect::<Vec<_>>()[..] else { return None };
        let code = if code == "hang" { HANG } else { Code(code.parse().ok()?) };
        let nth = nth.parse().ok()?;
        (nth > 0 && code.0 > 0).then(|| Planned { name: name.into(), nth, code, seen: AtomicU64::new(0) })
    };
    let words = plan.split(',').filter(|word| !word.is_empty());
    words.map(|word| one(word).unwrap_or_else(|| panic!("GINRS_MOCK_FAIL: {word:?} is not FUNCTION:NTH:CURESULT"))).collect()
}

/// Calls and copies that hang.
static HANGS: AtomicU64 = AtomicU64::new(0);

/// Returns how many calls and copies hang: a test waits for one.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_mock_hangs() -> u64 {
    HANGS.load(Ordering::Acquire)
}

/// Whether this call is the one to fail, and how.
pub fn due(name: &str) -> Option<Code> {
    let code = due_in(planned(), name);
    HANGS.fetch_add((code == Some(HANG)).into(), Ordering::AcqRel);
    while code == Some(HANG) {
        std::thread::park();
    }
    code
}

fn due_in(planned: &[Planned], name: &str) -> Option<Code> {
    // Every plan for the name counts every call.
    let mut found = None;
    for plan in planned.iter().filter(|plan| plan.name == name) {
        if plan.seen.fetch_add(1, Ordering::Relaxed) + 1 == plan.nth {
            found = Some(plan.code);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_fails_once() {
        let plan = read("a:2:700,b:1:2,a:4:1");
        let answers: Vec<_> = (0..5).map(|_| due_in(&plan, "a").map(|code| code.0)).collect();
        assert_eq!(answers, [None, Some(700), None, Some(1), None]);
        assert_eq!(due_in(&plan, "b"), Some(Code::OUT_OF_MEMORY));
        assert_eq!(due_in(&plan, "c"), None);
    }

    #[test]
    #[should_panic = "not FUNCTION:NTH:CURESULT"]
    fn a_plan_with_a_slip_is_loud() {
        read("cuMemCreate:x:2");
    }
}
