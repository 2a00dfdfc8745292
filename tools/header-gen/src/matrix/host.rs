//! The functions: exports.map, each with its twin.

use super::page::{Entry, Tally, table};
use super::uses::Uses;
use crate::text::{read, words};
use std::collections::BTreeMap;
use std::path::Path;

/// `notes` is data/host.txt.
pub fn render(root: &Path, exports: &[String], uses: &Uses, notes: &str, tally: &mut Tally) -> Result<String, String> {
    let stubs = words(&read(&root.join("src/abi/stub.rs")).unwrap_or_default());
    let lines = notes.lines().filter(|line| !line.starts_with('#'));
    let notes: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(": ")).collect();
    let names: Vec<&str> = exports.iter().filter_map(|name| name.strip_prefix("nccl")).collect();
    if let Some(unknown) = notes.keys().find(|name| !names.contains(name)) {
        return Err(format!("host.txt has a note on nccl{unknown}, which exports.map does not list"));
    }
    if let Some(lonely) = names.iter().find(|name| !exports.contains(&format!("pnccl{name}"))) {
        return Err(format!("exports.map lists nccl{lonely} without pnccl{lonely}"));
    }
    let mut entries = Vec::new();
    for name in &names {
        let (state, note) = match notes.get(name) {
            _ if stubs.contains(&format!("pnccl{name}")) => ("stub", ""),
            Some(note) => ("differs", *note),
            None => ("done", ""),
        };
        let full = format!("nccl{name}");
        let tested = tally.count(&full, state, &uses.of(&full), &[], false);
        entries.push(Entry { names: format!("`{full}`"), state, tested, note: note.to_owned() });
    }
    let ours: Vec<String> = exports.iter().filter(|name| name.starts_with("ginrs")).map(|name| format!("`{name}`")).collect();
    Ok(format!(
        "\n## Host functions\n\n{} functions, each also as `pnccl*`; prototypes are compared with NVIDIA's headers and library. Our own, in \
         `ginrs.h` and `nccl_device/core.h`: {}.\n\nFor all: NULL where it cannot be, handles of nothing, of what was destroyed and of another process, and values \
         out of range are ncclInvalidArgument or ncclInvalidUsage with a message, also where NVIDIA's library does not look and crashes.\n\n{}",
        names.len(),
        ours.join(", "),
        table(&entries)
    ))
}
