//! Which tests use a name: found in their text, so a use is shown, not that the use proves much.

use crate::text::{files, members, pasted, places, read, without_comments, words};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// At most so many places are named for a name.
const SHOWN: usize = 3;

struct Source {
    label: String,
    /// The line of data/tests.txt that it belongs to.
    group: usize,
    run: bool,
    code: String,
    words: HashSet<String>,
    members: HashSet<String>,
}

pub struct Uses {
    sources: Vec<Source>,
    /// Words of each case of the compile matrix.
    cases: BTreeMap<String, HashSet<String>>,
}

/// How a name is tested.
#[derive(Default)]
pub struct Tested {
    pub places: Vec<String>,
    pub run: bool,
}

impl Uses {
    /// `list` is data/tests.txt.
    pub fn read(root: &Path, list: &str) -> Result<Self, String> {
        let lines: Vec<(&str, &str)> = list.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once(' ')).collect();
        let mut sources = Vec::new();
        for (group, (kind, folder)) in lines.iter().enumerate() {
            if *kind == "-" {
                continue;
            }
            for path in files(&root.join(folder)) {
                let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                // The most exact line wins.
                let best = lines.iter().map(|(_, other)| other).filter(|other| name.starts_with(*other)).max_by_key(|o| o.len());
                let source = ["c", "cc", "cu", "h", "rs"].iter().any(|end| name.ends_with(&format!(".{end}")));
                if best != Some(folder) || !source {
                    continue;
                }
                let code = without_comments(&read(&path)?);
                let label =
                    name.strip_prefix("abi-tests/").filter(|rest| !rest.starts_with("tests/")).unwrap_or(&name).to_owned();
                let label = label.strip_suffix("/main.cu").map(str::to_owned).unwrap_or(label);
                let (mut words, members) = (words(&code), members(&code));
                words.extend(pasted(&code));
                sources.push(Source { label, group, run: *kind == "run", code, words, members });
            }
        }
        Ok(Self { sources, cases: cases(root)? })
    }

    pub fn of(&self, name: &str) -> Tested {
        self.find(name, |source| source.words.contains(name))
    }

    /// Of a name in a namespace.
    pub fn of_both(&self, namespace: &str, name: &str) -> Tested {
        self.find(name, |source| source.words.contains(namespace) && source.words.contains(name))
    }

    pub fn of_member(&self, owner: &str, name: &str) -> Tested {
        self.find(name, |source| source.words.contains(owner) && source.members.contains(name))
    }

    fn find(&self, name: &str, uses: impl Fn(&Source) -> bool) -> Tested {
        let mut found: Vec<&Source> = self.sources.iter().filter(|source| uses(source)).collect();
        let run = found.iter().any(|source| source.run);
        // Of each group the file that says it most often.
        found.sort_by_key(|source| (source.group, usize::MAX - places(&source.code, name).count()));
        // What is run is listed before what is compiled.
        let mut groups = HashSet::new();
        let one_each = found.iter().filter(|source| (source.run || !run) && groups.insert(source.group));
        Tested { places: one_each.take(SHOWN).map(|source| source.label.clone()).collect(), run }
    }

    /// Those of `cases` that there are. Where a case is source, it must use one of `names`: a number that has nothing to do with
    /// the row is a mistake.
    pub fn cases(&self, cases: &[String], names: &[&str]) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        for case in cases {
            match self.cases.get(case) {
                Some(words) if words.is_empty() || names.iter().any(|name| words.contains(*name)) => found.push(case.clone()),
                Some(_) => return Err(format!("device.txt: {case} does not use {}", names.join(" or "))),
                None => return Err(format!("device.txt: abi-tests/matrix/tests.txt has no {case}")),
            }
        }
        Ok(found)
    }

    pub fn has_case(&self, case: &str) -> bool {
        self.cases.contains_key(case)
    }
}

/// The cases of abi-tests/matrix/tests.txt, each with the words of its blocks `#if CASE_C(61)` ... `#endif`; those that are tests of
/// their own, in Rust, have none.
fn cases(root: &Path) -> Result<BTreeMap<String, HashSet<String>>, String> {
    let folder = root.join("abi-tests/matrix");
    let list = read(&folder.join("tests.txt"))?;
    let numbers = list.lines().filter(|line| line.starts_with('T')).filter_map(|line| line.split_whitespace().next());
    let mut found: BTreeMap<String, HashSet<String>> = numbers.map(|number| (number.to_owned(), HashSet::new())).collect();
    for path in files(&folder) {
        let code = without_comments(&read(&path)?);
        let aliases: Vec<(&str, &str)> = code.lines().filter_map(|line| line.strip_prefix("using ")?.split_once(" = ")).collect();
        let mut open: Vec<Option<String>> = Vec::new();
        for line in code.lines().map(str::trim) {
            if line.starts_with("#if") {
                open.push(number(line));
            } else if line.starts_with("#endif") {
                open.pop();
            } else {
                for case in open.iter().flatten() {
                    if let Some(used) = found.get_mut(case) {
                        let here = words(line);
                        let meant = aliases.iter().filter(|(alias, _)| here.contains(*alias));
                        used.extend(meant.flat_map(|(_, name)| words(name)));
                        used.extend(here);
                    }
                }
            }
        }
    }
    Ok(found)
}

/// `T061` of `#if CASE_C(61)` and `#if CASE_N(61, 1)`; what must not compile is no use.
fn number(line: &str) -> Option<String> {
    let rest = line.split_once("CASE_C(").or_else(|| line.split_once("CASE_N("))?.1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(format!("T{:03}", digits.parse::<u32>().ok()?))
}
