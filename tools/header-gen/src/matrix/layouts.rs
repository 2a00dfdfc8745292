//! The structs, fields and constants that abi-tests/layout compares with NVIDIA's headers. A test there fails when one of those
//! headers is missing from the lists, so this page has them all.

use crate::text::{bracketed, is_word, read};
use std::path::Path;

pub struct Record {
    pub name: String,
    pub fields: Vec<String>,
}

pub struct Layouts {
    pub records: Vec<Record>,
    pub constants: Vec<String>,
}

pub fn load(root: &Path) -> Result<Layouts, String> {
    let folder = root.join("abi-tests/layout");
    let records = records(&read(&folder.join("records.rs"))?);
    let mut constants = constants(&read(&folder.join("values.rs"))?);
    constants.retain(|name| !records.iter().any(|record| record.name.split(['<', ':']).next() == Some(name)));
    if records.len() < 40 || constants.len() < 100 {
        return Err(format!("abi-tests/layout: only {} structs and {} constants found", records.len(), constants.len()));
    }
    Ok(Layouts { records, constants })
}

fn is_nccls(name: &str) -> bool {
    ["nccl", "NCCL", "doca", "DOCA"].iter().any(|start| name.starts_with(start))
}

/// `record!(C, "ncclTeam_t", ncclTeam_t { nRanks, rank, stride })`
fn records(text: &str) -> Vec<Record> {
    let mut found = Vec::new();
    for call in text.split("record!").skip(1).filter_map(bracketed) {
        let mut parts = call.splitn(3, ',').map(str::trim);
        let (Some(within), Some(name), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let name = name.trim_matches('"');
        if !matches!(within, "C" | "Cxx" | "Doca") || !is_nccls(name) {
            continue;
        }
        let fields = rest.find('{').and_then(|at| bracketed(&rest[at..])).unwrap_or("");
        let fields = fields.replace("c:", "");
        let fields = fields.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        found.push(Record { name: name.to_owned(), fields });
    }
    found
}

/// NCCL's words in the expressions of `values![Cxx, ("NCCL_NET_MTU_SIZE", 4096), ...]`.
fn constants(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for list in text.split("values![").skip(1) {
        if !["C,", "Cxx,", "Doca,"].iter().any(|within| list.starts_with(within)) {
            continue;
        }
        let list = list.split("\n    ]").next().unwrap_or(list);
        for expression in list.split("(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            for word in expression.split(|c: char| !is_word(c)) {
                if is_nccls(word) && !word.ends_with("_t") && !found.iter().any(|known| known == word) {
                    found.push(word.to_owned());
                }
            }
        }
    }
    found
}
