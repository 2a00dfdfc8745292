//! Names of types, members and enumerators in an object's debug information, as `readelf` prints it: what a header declares,
//! found without reading the header.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// What an object's debug information declares.
#[derive(Debug, Default)]
pub struct Declared {
    /// Structs, classes and unions with their members in order. Nested types are `Outer::Inner`; the members of an unnamed
    /// type stand in its outer one, as `member.inner` where the member has a name.
    pub records: BTreeMap<String, Vec<String>>,
    /// Enumerators, also those of unnamed enums.
    pub enumerators: BTreeSet<String>,
}

#[derive(Default)]
struct Entry {
    tag: String,
    name: String,
    /// Where DW_AT_type points to.
    of: String,
    within: String,
    record: bool,
    /// (name, type) in order.
    members: Vec<(String, String)>,
}

type Entries = BTreeMap<String, Entry>;

/// Reads an object that was compiled with -g -fno-eliminate-unused-debug-types.
pub fn read(object: &Path) -> Declared {
    let text = super::run(Command::new("readelf").arg("--debug-dump=info").arg(object));
    let (mut entries, mut order, mut parents) = (Entries::new(), Vec::new(), Vec::<String>::new());
    for line in text.lines() {
        if let Some((depth, offset, tag)) = head(line) {
            parents.truncate(depth);
            let within = parents.last().cloned().unwrap_or_default();
            parents.push(offset.clone());
            order.push(offset.clone());
            let record = matches!(tag.as_str(), "structure_type" | "class_type" | "union_type");
            entries.insert(offset, Entry { tag, within, record, ..Entry::default() });
        } else if let (Some((attribute, value)), Some(last)) = (attribute(line), order.last()) {
            let entry = entries.get_mut(last).expect("just inserted");
            match attribute {
                "name" => entry.name = value.to_owned(),
                "type" => entry.of = value.trim_matches(['<', '>']).trim_start_matches("0x").to_owned(),
                _ => (),
            }
        }
    }
    for offset in &order {
        let Entry { tag, name, of, within, .. } = &entries[offset];
        let (tag, name, of, within) = (tag.clone(), name.clone(), of.clone(), within.clone());
        if tag == "member" {
            entries.get_mut(&within).expect("a member lies in a record").members.push((name, of));
        } else if let Some(record) = entries.get_mut(&of).filter(|e| tag == "typedef" && e.record && e.name.is_empty()) {
            record.name = name;
        }
    }
    declared(&entries)
}

fn declared(entries: &Entries) -> Declared {
    let mut out = Declared::default();
    for entry in entries.values() {
        if entry.tag == "enumerator" {
            out.enumerators.insert(entry.name.clone());
        }
        let names = members(entries, entry);
        if entry.record && !entry.name.is_empty() && !names.is_empty() {
            let outer = entries.get(&entry.within).filter(|outer| outer.record && !outer.name.is_empty());
            let name = outer.map_or_else(|| entry.name.clone(), |outer| format!("{}::{}", outer.name, entry.name));
            out.records.insert(name, names);
        }
    }
    out
}

fn members(entries: &Entries, record: &Entry) -> Vec<String> {
    let mut names = Vec::new();
    for (name, of) in &record.members {
        match entries.get(of).filter(|inner| inner.record && inner.name.is_empty()) {
            Some(inner) if name.is_empty() => names.extend(members(entries, inner)),
            Some(inner) => names.extend(members(entries, inner).iter().map(|inner| format!("{name}.{inner}"))),
            None => names.push(name.clone()),
        }
    }
    names
}

/// ` <2><f3b3>: Abbrev Number: 23 (DW_TAG_structure_type)`
fn head(line: &str) -> Option<(usize, String, String)> {
    let (depth, rest) = line.strip_prefix(" <")?.split_once("><")?;
    let (offset, rest) = rest.split_once(">: Abbrev Number: ")?;
    let tag = rest.split_once("(DW_TAG_")?.1.trim_end_matches(')');
    Some((depth.parse().ok()?, offset.to_owned(), tag.to_owned()))
}

/// `    <f3a6>   DW_AT_name        : (indirect string, offset: 0x18583): ncclDevComm`
fn attribute(line: &str) -> Option<(&str, &str)> {
    let (attribute, value) = line.split_once("DW_AT_")?.1.split_once(':')?;
    let value = value.trim();
    let value = if value.starts_with("(indirect") { value.rsplit_once("): ")?.1 } else { value };
    Some((attribute.trim_end(), value.split_once('\t').map_or(value, |(first, _)| first)))
}
