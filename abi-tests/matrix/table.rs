//! tests.txt, and whether it says the same as the sources.

use abi_tests::root;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Compiles,
    OursAlone,
    Refused,
    Host,
    Behaviour,
}

/// A line of tests.txt.
#[derive(Clone, Debug)]
pub struct Case {
    /// "T068", "T118b"
    pub number: String,
    pub kind: Kind,
    /// The number in the source; none where a test of its own says it.
    pub id: Option<u32>,
    /// A source of the matrix, or FILE::test.
    pub how: String,
    /// What a refusal has to say.
    pub words: Option<String>,
    /// NVIDIA's headers take it although it is an X.
    pub is_accepted: bool,
}

impl Case {
    /// Chooses this case alone.
    pub fn define(&self) -> String {
        let kind = match self.kind {
            Kind::Compiles => 'C',
            Kind::OursAlone => 'N',
            Kind::Refused => 'X',
            Kind::Host | Kind::Behaviour => panic!("{} is not compiled by itself", self.number),
        };
        format!("-DRUN_{kind}={}", self.id.expect("compiled cases have one"))
    }

    /// T068 C 68
    pub fn name(&self) -> String {
        let id = self.id.map(|id| format!(" {id}")).unwrap_or_default();
        format!("{} {}{id}", self.number, letter(self.kind))
    }
}

pub fn letter(kind: Kind) -> char {
    match kind {
        Kind::Compiles => 'C',
        Kind::OursAlone => 'N',
        Kind::Refused => 'X',
        Kind::Host => 'H',
        Kind::Behaviour => 'P',
    }
}

pub fn folder() -> PathBuf {
    root().join("abi-tests/matrix")
}

pub fn read() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("tests.txt")).expect("tests.txt");
    text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).map(parse).collect()
}

fn parse(line: &str) -> Case {
    let mut words = line.split_whitespace();
    let mut next = || words.next().unwrap_or_else(|| panic!("tests.txt: too short: {line}"));
    let (number, kind) = (next().to_owned(), next());
    let kind = match kind {
        "C" => Kind::Compiles,
        "N" => Kind::OursAlone,
        "X" => Kind::Refused,
        "H" => Kind::Host,
        "P" => Kind::Behaviour,
        other => panic!("tests.txt: kind {other} in: {line}"),
    };
    let mut how = next();
    let id = how.parse().ok();
    if id.is_some() {
        how = next();
    }
    let words = line.split('"').nth(1).map(str::to_owned);
    Case { number, kind, id, how: how.to_owned(), words, is_accepted: line.ends_with(" accepted") }
}

/// The numbers of the list; those left out it leaves out too.
fn numbers() -> BTreeSet<String> {
    let gaps = [49, 89, 104, 105, 106, 107, 108, 109];
    let mut all: BTreeSet<String> = (1..=120).filter(|n| !gaps.contains(n)).map(|n| format!("T{n:03}")).collect();
    all.insert("T118b".into());
    all
}

/// What tests.txt and the sources disagree on.
pub fn disagreements(cases: &[Case]) -> Vec<String> {
    let mut wrong = Vec::new();
    let listed: BTreeSet<String> = cases.iter().map(|case| case.number.clone()).collect();
    wrong.extend(numbers().symmetric_difference(&listed).map(|number| format!("{number} is missing or unknown")));
    let mut named = BTreeSet::new();
    for case in cases {
        if let Some((file, test)) = case.how.split_once("::") {
            let path = root().join("abi-tests/tests").join(file);
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if !text.contains(&format!("#[test]\nfn {test}(")) {
                wrong.push(format!("{}: no test {test} in {}", case.name(), path.display()));
            }
        } else {
            named.insert((case.how.clone(), letter(case.kind), case.id.unwrap_or(0)));
        }
    }
    let coded = coded();
    wrong.extend(coded.difference(&named).map(|case| format!("{case:?} is not in tests.txt")));
    wrong.extend(named.difference(&coded).map(|case| format!("{case:?} is in tests.txt alone")));
    wrong
}

/// The cases in the sources: file, kind, number.
fn coded() -> BTreeSet<(String, char, u32)> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder()).expect("abi-tests/matrix").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".cu") && !name.starts_with("host.c") {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).expect("a source");
        for piece in text.split("CASE_").skip(1) {
            let (kind, rest) = piece.split_at(1);
            let numbers: Vec<u32> = rest
                .trim_start_matches('(')
                .split(')')
                .next()
                .unwrap_or("")
                .split(',')
                .filter_map(|n| n.trim().parse().ok())
                .collect();
            match numbers[..] {
                [t] => found.insert((name.clone(), kind.chars().next().unwrap_or(' '), t)),
                [t, i] => found.insert((name.clone(), kind.chars().next().unwrap_or(' '), t * 100 + i)),
                _ => continue,
            };
        }
        for (key, kind) in [("RUN_C == ", 'C'), ("RUN_N == ", 'N')] {
            for piece in text.split(key).skip(1) {
                let digits: String = piece.chars().take_while(char::is_ascii_digit).collect();
                if let Ok(id @ 1..) = digits.parse() {
                    found.insert((name.clone(), kind, id));
                }
            }
        }
    }
    found
}
