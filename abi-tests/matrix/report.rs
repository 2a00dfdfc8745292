//! Runs builds on all cores, and makes a page of what came of them.

use crate::builds::{Build, Compiler};
use crate::compilers::Headers;
use crate::table::{self, Case};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A build and what came of its cases: the case, whether it was to be refused, and what went wrong, if anything.
pub struct Row {
    pub build: Build,
    pub results: Vec<(Case, bool, Option<String>)>,
}

pub fn run(builds: &[Build], wanted: impl Fn(&Build, &Case) -> bool) -> Vec<Row> {
    let cases = table::read();
    let work: Vec<(usize, Vec<&Case>)> = builds
        .iter()
        .enumerate()
        .map(|(i, build)| (i, cases.iter().filter(|case| case.id.is_some() && build.fits(case) && wanted(build, case)).collect()))
        .filter(|(_, fitting): &(usize, Vec<&Case>)| !fitting.is_empty())
        .collect();
    let (queue, rows) = (Mutex::new(work.iter()), Mutex::new(BTreeMap::new()));
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let folder = tempfile::tempdir().expect("a folder for outputs");
                loop {
                    let Some((i, fitting)) = queue.lock().unwrap().next() else { return };
                    let (build, started) = (builds[*i], std::time::Instant::now());
                    let said = build.run(fitting, &folder.path().join("out"));
                    let results: Vec<_> =
                        fitting.iter().zip(said).map(|(case, said)| ((*case).clone(), build.wants_refusal(case), said)).collect();
                    let good = said_well(&results);
                    println!("{}: {good} of {}, {} s", build.name(), results.len(), started.elapsed().as_secs());
                    rows.lock().unwrap().insert(*i, Row { build, results });
                }
            });
        }
    });
    rows.into_inner().unwrap().into_values().collect()
}

fn said_well(results: &[(Case, bool, Option<String>)]) -> usize {
    results.iter().filter(|(_, _, said)| said.is_none()).count()
}

fn column(build: &Build) -> String {
    let by = match build.compiler {
        Compiler::Nvcc { arch, .. } if build.headers == Headers::Ours => return format!("sm_{arch}"),
        Compiler::Nvcc { .. } => "nvcc",
        Compiler::Cpu(_) => return "CPU device".into(),
        Compiler::Host(_) if build.headers == Headers::Ours => return "host".into(),
        Compiler::Host(_) => "host",
    };
    format!("NVIDIA's, {by}")
}

/// A table of cases by compilers: how many builds did what was expected, of how many. A minus: must not compile, and does not.
pub fn page(rows: &[Row]) -> String {
    let mut columns: Vec<String> = Vec::new();
    let mut cells: BTreeMap<(String, String), (u32, u32, bool)> = BTreeMap::new();
    for row in rows {
        let name = column(&row.build);
        if !columns.contains(&name) {
            columns.push(name.clone());
        }
        for (case, is_refusal, said) in &row.results {
            let cell = cells.entry((case.name(), name.clone())).or_insert((0, 0, *is_refusal));
            cell.0 += u32::from(said.is_none());
            cell.1 += 1;
        }
    }
    let mut text = format!("| test | how | {} |\n|---|---|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    let mut seen = Vec::new();
    for case in table::read() {
        let name = format!("{} {}", case.name(), case.how);
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        text += &format!("| {} | `{}` |", case.name(), case.how);
        for column in &columns {
            let cell = cells.get(&(case.name(), column.clone())).filter(|_| fits(&case, column));
            text += &cell.map_or("  |".to_owned(), |(good, all, is_refusal)| {
                format!(" {}{good}/{all} |", if *is_refusal { "-" } else { "" })
            });
        }
        text += "\n";
    }
    let (builds, checks) = (rows.len(), rows.iter().map(|row| row.results.len()).sum::<usize>());
    text + &format!("\n{builds} builds, {checks} checks.\n")
}

/// A case that is in a host source and in a device source has a line for each.
fn fits(case: &Case, column: &str) -> bool {
    case.id.is_some() && case.how.starts_with("host.c") == column.contains("host")
}
