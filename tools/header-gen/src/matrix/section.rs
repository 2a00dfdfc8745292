//! One section for each header: its types, its constants, and what kernels call.

use super::headers::Headers;
use super::layouts::Layouts;
use super::names::{Row, Section};
use super::page::{Entry, Tally, table};
use super::uses::{Tested, Uses};
use crate::text::words;
use std::collections::{BTreeMap, BTreeSet};

const NOWHERE: &str = "in no header";

pub fn render(
    headers: &Headers,
    uses: &Uses,
    layouts: &Layouts,
    sections: &[Section],
    tally: &mut Tally,
) -> Result<String, String> {
    let mut parts: BTreeMap<String, [String; 3]> = BTreeMap::new();
    let notes: BTreeMap<&str, &Row> = sections
        .iter()
        .flat_map(|section| &section.rows)
        .filter(|row| row.owner.is_none() && row.shape.is_none())
        .map(|row| (row.name.as_str(), row))
        .collect();
    for (header, text) in types(headers, uses, layouts, &notes, tally) {
        parts.entry(header).or_default()[0] = text;
    }
    for (header, text) in constants(headers, layouts, tally) {
        parts.entry(header).or_default()[1] = text;
    }
    for section in sections {
        let rows: Vec<&Row> = section.rows.iter().filter(|row| !layouts.has(row)).collect();
        if !rows.is_empty() {
            parts.entry(section.header.clone()).or_default()[2] = table(&entries(headers, uses, section, &rows, tally)?);
        }
    }
    // In the order of the list; what it does not have comes behind.
    let mut order: Vec<String> = vec!["nccl.h".into()];
    order.extend(sections.iter().map(|section| section.header.clone()));
    order.extend(parts.keys().cloned());
    let mut shown = BTreeSet::new();
    let mut page = String::from("\n## Types, constants and the device API, by header\n");
    for header in order {
        if let Some(texts) = parts.get(&header)
            && shown.insert(header.clone())
        {
            page += &format!("\n### {header}\n");
            for text in texts.iter().filter(|text| !text.is_empty()) {
                page += &format!("\n{text}");
            }
        }
    }
    Ok(page)
}

impl Layouts {
    /// Is the row the note of a type, which the types' table shows?
    fn has(&self, row: &Row) -> bool {
        row.owner.is_none() && row.shape.is_none() && self.records.iter().any(|record| record.name == row.name)
    }
}

fn types(
    headers: &Headers,
    uses: &Uses,
    layouts: &Layouts,
    notes: &BTreeMap<&str, &Row>,
    tally: &mut Tally,
) -> BTreeMap<String, String> {
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    for record in &layouts.records {
        let plain = record.name.split('<').next().unwrap_or(&record.name);
        let body = headers.body(plain);
        let section = match &body {
            Some((section, _)) => section.clone(),
            None => headers.section_of(plain).unwrap_or(NOWHERE.into()),
        };
        let there = body.map(|(_, body)| words(body)).unwrap_or_default();
        let mut lacking = Vec::new();
        for field in &record.fields {
            let state = if there.contains(field) { "done" } else { "absent" };
            if state == "absent" {
                lacking.push(field.as_str());
            }
            tally.count(&format!("{plain}.{field}"), state, &Tested::default(), &[], true);
        }
        let last = plain.rsplit("::").next().unwrap_or(plain);
        let (mut state, mut note) = (if headers.has(last) { "done" } else { "absent" }, String::new());
        if let Some((known, why)) = notes.get(plain).and_then(|row| row.note.as_ref()) {
            (state, note) = (known, why.clone());
        }
        if !lacking.is_empty() {
            note += &format!(" absent: {}", lacking.join(", "));
        }
        let used = [plain, plain.strip_suffix("_t").unwrap_or(plain)].map(|name| uses.of(name));
        let used = used.into_iter().max_by_key(|tested| (tested.run, tested.places.len())).unwrap_or_default();
        let tested = tally.count(plain, state, &used, &[], true);
        let fields = record.fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" ");
        *rows.entry(section).or_default() +=
            &format!("| `{}` | {fields} | {state} | {tested} | {} |\n", record.name, note.trim());
    }
    let head = "| type | fields | state | tested in | note |\n|---|---|---|---|---|\n";
    rows.into_iter().map(|(header, rows)| (header, format!("{head}{rows}"))).collect()
}

fn constants(headers: &Headers, layouts: &Layouts, tally: &mut Tally) -> BTreeMap<String, String> {
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in &layouts.constants {
        let section = headers.section_of(name);
        let state = if section.is_some() { "done" } else { "absent" };
        tally.count(name, state, &Tested::default(), &[], true);
        lists.entry(section.unwrap_or(NOWHERE.into())).or_default().push(format!("`{name}`"));
    }
    let text = |names: Vec<String>| format!("Macros and enumerators ({}), values compared: {}.\n", names.len(), names.join(" "));
    lists.into_iter().map(|(header, names)| (header, text(names))).collect()
}

fn entries(headers: &Headers, uses: &Uses, section: &Section, rows: &[&Row], tally: &mut Tally) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for row in rows {
        let owner = row.owner.as_deref().map(declared_as);
        let there = match (&row.shape, owner) {
            (Some(shape), _) => headers.shapes(owner, declared_as(&row.name)).contains(shape),
            (None, Some(owner)) => headers.body(owner).is_some_and(|(_, body)| words(body).contains(&row.name)),
            (None, None) => headers.has(&row.name),
        };
        let (state, note) = match &row.note {
            _ if !there => ("absent", String::new()),
            Some((state, note)) => (*state, note.clone()),
            None => ("done", String::new()),
        };
        let user = row.owner.as_deref().map(|owner| owner.strip_suffix("_internal").unwrap_or(owner));
        // A constructor is used by the type's name. Overloads cannot be told apart by name: only their cases can.
        let overloaded = rows.iter().filter(|other| (&other.owner, &other.name) == (&row.owner, &row.name)).count() > 1;
        let tested = match user {
            _ if overloaded || !row.name.starts_with(crate::text::is_word) => Tested::default(),
            Some(owner) if owner == row.name => uses.of(owner),
            Some(owner) => uses.of_member(owner, &row.name),
            None => match &section.namespace {
                Some(namespace) if !row.name.starts_with("NCCL_") => uses.of_both(namespace, &row.name),
                _ => uses.of(&row.name),
            },
        };
        let operator = row.name.strip_prefix("operator");
        let names: Vec<&str> = match operator {
            Some(_) => vec!["ncclSymPtr", "p", "q"],
            None => vec![row.name.as_str()],
        };
        let cases = uses.cases(&row.cases, &names)?;
        let tested = tally.count(&row.shown(), state, &tested, &cases, false);
        entries.push(Entry { names: format!("`{}`", row.shown()), state, tested, note });
    }
    Ok(entries)
}

/// `ncclGin` is an alias.
fn declared_as(name: &str) -> &str {
    if name == "ncclGin" { "ncclGin_BackendMask" } else { name }
}
