//! The user's line of an address in compiled code, by binutils' addr2line.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};

use parking_lot::Mutex;

use super::{foreign, job};

/// A place in compiled code.
#[derive(Clone)]
pub struct Line {
    /// The user's, and of a function that was inlined where it is called, too, in the function that was not.
    pub text: String,
    /// It stands in code that the compiler has made and inlined, or in a part of the user's that it has cut in pieces.
    pub is_nameless: bool,
}

/// The user's line of an address behind a call in compiled code; its module and offset where there is no better. Nothing: the compiler
/// made it, for thread-local references of its OS thread (file-scope dynamic shared memory, `__constant__`), which all CUDA threads may make.
pub fn line_of(place: u64) -> Option<String> {
    line_and_caller(place).map(|line| line.text.split(CALLED).next().unwrap_or(&line.text).to_owned())
}

const CALLED: &str = ", called at ";

/// The same, with its caller.
pub fn line_and_caller(place: u64) -> Option<Line> {
    static LINES: Lines<Line> = Lines::new();
    LINES.get_or_ask(place, |place| {
        let unknown =
            || Line { text: format!("code at {place:#x} (no addr2line, no -g, or unloaded since)"), is_nameless: false };
        ask(place).unwrap_or_else(|| Some(unknown()))
    })
}

/// Answers, as to ask takes another process. As long as so many objects have been unloaded: then others may come to their addresses.
struct Lines<T>(Mutex<(u64, BTreeMap<u64, Option<T>>)>);

impl<T: Clone> Lines<T> {
    const fn new() -> Lines<T> {
        Lines(Mutex::new((0, BTreeMap::new())))
    }

    fn get_or_ask(&self, place: u64, ask: impl FnOnce(u64) -> Option<T>) -> Option<T> {
        let unloaded = unloaded();
        {
            let mut lines = self.0.lock();
            if lines.0 != unloaded {
                *lines = (unloaded, BTreeMap::new());
            }
            if let Some(line) = lines.1.get(&place) {
                return line.clone();
            }
        }
        let line = ask(place);
        self.0.lock().1.insert(place, line.clone());
        line
    }
}

/// How many objects the loader has unloaded.
fn unloaded() -> u64 {
    unsafe extern "C" fn see(object: *mut libc::dl_phdr_info, _: usize, out: *mut libc::c_void) -> i32 {
        // SAFETY: the loader's record, and our number.
        unsafe { *out.cast::<u64>() = (*object).dlpi_subs };
        1
    }
    let mut subs = 0u64;
    // SAFETY: `see` gets the number, for the time of the call.
    unsafe { libc::dl_iterate_phdr(Some(see), (&raw mut subs).cast()) };
    subs
}

/// Folders of headers that are not the user's.
const HEADERS: [&str; 6] = ["/nccl_device/", "/ginrs_device/", "/ginrs_cpu/", "/lib/ginrs/", "/usr/include/", "/usr/lib/"];

fn ask(place: u64) -> Option<Option<Line>> {
    let (module, offset) = match job::is_foreign(place) {
        true => foreign::site(place).map(|(module, offset)| (module.into(), offset))?,
        false => module_of(place as usize)?,
    };
    let found = Found::at(&module, offset)?;
    if found.functions.iter().any(|function| function == "__tls_init") {
        return Some(None);
    }
    let line = found.users(0).or_else(|| found.lines.iter().find(|line| !line.starts_with("??")))?;
    let caller = found.lines.iter().rfind(is_users).filter(|caller| *caller != line);
    let text = from_here(line) + &caller.map_or_else(String::new, |caller| format!("{CALLED}{}", from_here(caller)));
    Some(Some(Line { text, is_nameless: found.is_nameless() }))
}

/// The user's line of the code behind a call, or of what a signal has interrupted; none where there is no source file of the user's, and of 0,
/// a place that is not known.
pub fn users_line(behind: usize) -> Option<String> {
    if behind == 0 {
        return None;
    }
    static LINES: Lines<String> = Lines::new();
    LINES.get_or_ask(behind as u64, |_| {
        let (module, offset) = module_of(behind)?;
        let found = Found::at(&module, offset)?;
        // What has no name stands for a part of the function around it.
        found.users(usize::from(found.is_nameless())).map(|line| from_here(line))
    })
}

/// As the program was compiled, mostly from here.
pub fn from_here(line: &str) -> String {
    let here = std::env::current_dir().ok().map(|folder| format!("{}/", folder.display()));
    here.and_then(|here| line.strip_prefix(&here)).unwrap_or(line).to_owned()
}

/// From the innermost function that was inlined to the one that it stands in.
struct Found {
    functions: Vec<String>,
    lines: Vec<String>,
}

impl Found {
    fn at(module: &OsString, offset: usize) -> Option<Found> {
        let output = Command::new("addr2line")
            .args(["-f", "-i", "-e"])
            .arg(module)
            // The call, not what comes after it.
            .arg(format!("{:#x}", offset - 1))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        // Each with a line of its name before it.
        let (mut functions, mut lines) = (Vec::new(), Vec::new());
        let mut words = text.lines();
        while let (Some(function), Some(line)) = (words.next(), words.next()) {
            functions.push(function.to_owned());
            lines.push(line.split(" (").next().unwrap_or(line).to_owned());
        }
        Some(Found { functions, lines })
    }

    fn is_nameless(&self) -> bool {
        is_nameless(&self.functions.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The innermost of the user's, but for the first `skipped`.
    fn users(&self, skipped: usize) -> Option<&String> {
        self.lines.iter().skip(skipped).find(is_users)
    }
}

fn is_users(line: &&String) -> bool {
    !line.starts_with("??") && !line.ends_with(":?") && !HEADERS.iter().any(|folder| line.contains(folder))
}

/// How the symbol of a kernel's body ends.
const KERNEL: &str = "ENUlvE_clEv";

/// Whether the innermost function has no name, as what the compiler makes and inlines: then it is given that of the code it stands in,
/// which comes last. A kernel's is a lambda's without parameters that may change what it holds, by its symbol alone.
fn is_nameless(functions: &[&str]) -> bool {
    let &[first, .., last] = functions else { return false };
    first == last && first.starts_with("_Z")
        || last == "operator()" && first.starts_with("_ZZ") && !first.starts_with("_ZZZ") && first.ends_with(KERNEL)
}

/// The file that an address was loaded from, and its offset in there.
pub fn module_of(at: usize) -> Option<(OsString, usize)> {
    struct Query {
        at: usize,
        found: Option<(OsString, usize)>,
    }
    unsafe extern "C" fn see(object: *mut libc::dl_phdr_info, _: usize, query: *mut libc::c_void) -> i32 {
        // SAFETY: the loader's record, and our query.
        unsafe {
            let (object, query) = (&*object, &mut *query.cast::<Query>());
            for i in 0..usize::from(object.dlpi_phnum) {
                let header = &*object.dlpi_phdr.add(i);
                let begin = object.dlpi_addr as usize + header.p_vaddr as usize;
                if header.p_type == libc::PT_LOAD && query.at.wrapping_sub(begin) < header.p_memsz as usize {
                    let name = CStr::from_ptr(object.dlpi_name).to_bytes();
                    let name = if name.is_empty() { b"/proc/self/exe".as_slice() } else { name };
                    query.found = Some((OsString::from_vec(name.to_vec()), query.at - object.dlpi_addr as usize));
                    return 1;
                }
            }
        }
        0
    }
    let mut query = Query { at, found: None };
    // SAFETY: `see` gets the query, for the time of the call.
    unsafe { libc::dl_iterate_phdr(Some(see), (&raw mut query).cast()) };
    let (name, offset) = query.found?;
    let name = if name == "/proc/self/exe" { std::fs::read_link(&name).ok()?.into_os_string() } else { name };
    Some((name, offset))
}

#[cfg(test)]
mod tests {
    use super::is_nameless;

    #[test]
    fn what_the_compiler_inlines_has_no_name() {
        let lambda = "_ZZ15quantiseAndSend11ncclDevCommENUlvE_clEv";
        assert!(is_nameless(&[lambda, "operator()"]) && is_nameless(&["_Z3devv", "_Z3devv"]));
        // Lambdas of the program's have names, in a kernel and in a function.
        for users in
            ["_ZZZ5shift3JobENUlvE_clEvENKUliE0_clEi", "_ZZZ5shift3JobENUlvE_clEvENUlvE_clEv", "_ZZ4eachR3JobENKUliE_clEi"]
        {
            assert!(!is_nameless(&[users, "operator()"]), "{users}");
        }
        assert!(!is_nameless(&["operator()"]) && !is_nameless(&["_Z3sumPVii", "operator()"]) && !is_nameless(&["_Z3devv"]));
    }
}
