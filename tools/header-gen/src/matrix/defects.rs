//! data/defects.txt: the known defects of NCCL 2.28.9, and what ginrs does instead.

use super::uses::Uses;
use crate::text::{places, read};
use std::path::Path;

const STATES: [&str; 4] = ["fixed", "partly", "same", "n/a"];

struct Defect {
    number: String,
    state: String,
    reference: String,
    ours: String,
    shown: Vec<String>,
}

/// The section of the page. A file or a test that the list names must exist.
pub fn render(root: &Path, uses: &Uses, list: &str) -> Result<String, String> {
    let defects = parse(list)?;
    if defects.is_empty() {
        return Ok(String::new());
    }
    let mut page = String::from(
        "\n## Defects of the reference\n\nNumbers are those of the project's specification: C of the host library, D of the device \
         headers, H of the host library as kernels see it. **fixed**: not here; **partly**: see the words; **same**: kept, the reason is \
         given; **n/a**: ginrs has no such part. `file: name` is the test, or else the code, that shows it; a T number a case of \
         the compile matrix.\n\n",
    );
    let count = |state: &str| defects.iter().filter(|defect| defect.state == state).count();
    let tally: Vec<String> = STATES.iter().map(|state| format!("{} {state}", count(state))).collect();
    page += &format!("{} defects: {}.\n\n", defects.len(), tally.join(", "));
    page += "| # | NCCL 2.28.9 | ginrs | state | shown by |\n|---|---|---|---|---|\n";
    for defect in &defects {
        for shown in &defect.shown {
            check(root, uses, &defect.number, shown)?;
        }
        let Defect { number, state, reference, ours, .. } = defect;
        page += &format!("| {number} | {reference} | {ours} | {state} | {} |\n", defect.shown.join("<br>"));
    }
    Ok(page)
}

fn parse(list: &str) -> Result<Vec<Defect>, String> {
    let mut defects: Vec<Defect> = Vec::new();
    for line in list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let wrong = || format!("defects.txt: {line:?} is not understood");
        let (head, rest) = line.trim().split_once(": ").ok_or_else(wrong)?;
        if !line.starts_with(' ') {
            let (number, state) = head.split_once(' ').ok_or_else(wrong)?;
            if !STATES.contains(&state) {
                return Err(wrong());
            }
            let (number, state, reference) = (number.to_owned(), state.to_owned(), rest.to_owned());
            defects.push(Defect { number, state, reference, ours: String::new(), shown: Vec::new() });
            continue;
        }
        let defect = defects.last_mut().ok_or_else(wrong)?;
        match head {
            "ours" => defect.ours = rest.to_owned(),
            "shown" => defect.shown.push(rest.to_owned()),
            _ => return Err(wrong()),
        }
    }
    Ok(defects)
}

/// `file`, `file: name`, or a case of the compile matrix.
fn check(root: &Path, uses: &Uses, number: &str, shown: &str) -> Result<(), String> {
    if shown.starts_with('T') {
        return if uses.has_case(shown) { Ok(()) } else { Err(format!("defects.txt, {number}: there is no case {shown}")) };
    }
    let (file, name) = shown.split_once(": ").map_or((shown, None), |(file, name)| (file, Some(name)));
    let text = read(&root.join(file)).map_err(|error| format!("defects.txt, {number}: {error}"))?;
    match name {
        Some(name) if places(&text, name).next().is_none() => Err(format!("defects.txt, {number}: {file} has no {name}")),
        _ => Ok(()),
    }
}
