//! What went wrong: a code, and a message on stderr.

pub use crate::code::Code;
use crate::once::OnceLock;
use parking_lot::Mutex;

/// What the functions behind the C API return.
pub type Result<T = ()> = std::result::Result<T, Code>;

static LAST_REPORT: Mutex<String> = Mutex::new(String::new());

/// Writes one message to stderr, whole, with our name before each line.
pub fn report(text: &str) {
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.lines() {
        out.push_str("ginrs-cpu: ");
        out.push_str(line);
        out.push('\n');
    }
    ginrs_timeline::told(text);
    // A closed stderr is no reason to fail.
    // Not std's: a thread of a forked child's parent may have held its lock, and the other one.
    // SAFETY: out is a live string.
    unsafe { libc::write(2, out.as_ptr().cast(), out.len()) };
    if let Some(mut last) = LAST_REPORT.try_lock() {
        *last = out;
    }
}

/// The last message of [`report`] in this process: for tests, and for a debugger.
pub fn last_report() -> String {
    LAST_REPORT.lock().clone()
}

/// What knows the line from which host code has called, if anything does; set by `entry`, which stands above.
static CALLER: OnceLock<fn() -> Option<String>> = OnceLock::new();

/// From now on `caller` is asked.
pub fn ask_for_caller(caller: fn() -> Option<String>) {
    CALLER.get_or_init(|| caller);
}

/// Says what was wrong, where that is looked for with the line of the call, and returns the code for it.
pub fn refuse<T>(code: Code, text: &str) -> Result<T> {
    match CALLER.get().and_then(|caller| caller()) {
        Some(line) => {
            let (what, fix) = text.split_once('\n').map_or((text, String::new()), |(what, fix)| (what, format!("\n{fix}")));
            report(&format!("{what} | called by host code at {line}{fix}"));
        }
        None => report(text),
    }
    Err(code)
}
