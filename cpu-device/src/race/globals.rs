//! Variables of host code, by the symbol table of the object that they are in: no GPU has them. An object without one (`strip`) says nothing.
//!
//! Not among them: `__device__` variables, whose masters bear a name of ours; those that ginrs-cc leaves as they are (`__managed__`, constants) and names
//! in a section of the object; what is local to a function, as it may be device code's; tables that the loader writes and nobody else.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::Arc;

use parking_lot::Mutex;

use super::lines::module_of;
use super::own;

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its first byte: of the object as it stands in its file, or in memory.
    pub base: usize,
    /// How many.
    pub bytes: usize,
    /// Its symbol.
    pub symbol: String,
}

impl Global {
    /// As the program names it.
    pub fn name(&self) -> String {
        plain(&self.symbol).unwrap_or_else(|| self.symbol.clone())
    }
}

/// Those that have a byte of a page.
pub fn on_page(page: usize) -> Option<Arc<[Global]>> {
    static OBJECTS: Mutex<BTreeMap<OsString, Arc<[Global]>>> = Mutex::new(BTreeMap::new());
    let (object, offset) = module_of(page)
        .or_else(|| module_of(page + super::PAGE - 1).map(|(object, offset)| (object, offset - super::PAGE + 1)))?;
    let all = OBJECTS
        .lock()
        .entry(object)
        .or_insert_with_key(|object| std::fs::read(object).ok().and_then(|file| read(&file)).unwrap_or_default().into())
        .clone();
    let loaded = page.wrapping_sub(offset);
    let found: Arc<[Global]> = all
        .iter()
        .filter(|global| own::meet(&[(global.base, global.base + global.bytes)], offset))
        .map(|global| Global { base: global.base.wrapping_add(loaded), ..global.clone() })
        .collect();
    (!found.is_empty()).then_some(found)
}

fn word<const N: usize>(file: &[u8], at: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(N)?)?;
    let mut word = [0; 8];
    word[..N].copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).unwrap_or_default()
}

struct Section<'a> {
    name: &'a str,
    flags: u64,
    link: usize,
    content: &'a [u8],
}

/// Of an object of 64 bits, as all are here.
fn sections(file: &[u8]) -> Option<Vec<Section<'_>>> {
    let (table, size, count, names) = (
        word::<8>(file, 0x28)? as usize,
        word::<2>(file, 0x3a)? as usize,
        word::<2>(file, 0x3c)? as usize,
        word::<2>(file, 0x3e)? as usize,
    );
    let content = |header: usize| {
        const EMPTY: u64 = 8;
        let (at, bytes) =
            (word::<8>(file, header.checked_add(0x18)?)? as usize, word::<8>(file, header.checked_add(0x20)?)? as usize);
        if word::<4>(file, header.checked_add(4)?)? == EMPTY { Some(&file[..0]) } else { file.get(at..at.checked_add(bytes)?) }
    };
    let names = content(table.wrapping_add(names * size))?;
    (0..count)
        .map(|number| {
            let header = table.wrapping_add(number * size);
            Some(Section {
                name: text(names.get(word::<4>(file, header)? as usize..)?),
                flags: word::<8>(file, header.checked_add(8)?)?,
                link: word::<4>(file, header.checked_add(0x28)?)? as usize,
                content: content(header)?,
            })
        })
        .collect()
}

/// The host's variables in an object's file.
fn read(file: &[u8]) -> Option<Vec<Global>> {
    const WRITE: u64 = 1;
    const THREAD_LOCAL: u64 = 1 << 10;
    const OBJECT: u64 = 1;
    let sections = sections(file)?;
    let plain_ones: HashSet<&str> = sections
        .iter()
        .filter(|section| section.name == "ginrs_plain")
        .flat_map(|section| section.content.split(|&byte| byte == 0).map(text))
        .collect();
    let is_hosts = |symbol: &str| {
        let last = plain(symbol);
        let last = last.as_deref().unwrap_or(symbol).rsplit("::").next().unwrap_or_default();
        let is_made = ["_ZZ", "_ZGV", "_ZT", "_ZSt", "_ZNSt", "__"].iter().any(|begin| symbol.starts_with(begin));
        !is_made && !symbol.contains("ginrs") && !symbol.contains('@') && !symbol.contains('.') && !plain_ones.contains(last)
    };
    let table = sections.iter().find(|section| section.name == ".symtab")?;
    let names = sections.get(table.link)?.content;
    let globals = table.content.chunks_exact(24).filter_map(|entry| {
        let section = sections.get(word::<2>(entry, 6)? as usize)?;
        let is_data = section.flags & (WRITE | THREAD_LOCAL) == WRITE && !section.name.starts_with(".data.rel.ro");
        let symbol = text(names.get(word::<4>(entry, 0)? as usize..)?);
        let (base, bytes) = (word::<8>(entry, 8)? as usize, word::<8>(entry, 16)? as usize);
        (is_data && bytes > 0 && word::<1>(entry, 4)? & 0xf == OBJECT && is_hosts(symbol)).then(|| Global {
            base,
            bytes,
            symbol: symbol.to_owned(),
        })
    });
    Some(globals.collect())
}

/// `N::x` of `_ZN1N1xE`, and of what is as simple.
fn plain(symbol: &str) -> Option<String> {
    let rest = symbol.strip_prefix("_Z")?;
    let (mut rest, is_nested) = rest.strip_prefix('N').map_or((rest, false), |rest| (rest, true));
    let mut names = Vec::new();
    while !rest.is_empty() && rest != "E" {
        let counted = rest.strip_prefix('L').unwrap_or(rest);
        let digits = counted.bytes().take_while(u8::is_ascii_digit).count();
        let (name, behind) = counted[digits..].split_at_checked(counted[..digits].parse().ok()?)?;
        names.push(if name == "_GLOBAL__N_1" { "(anonymous namespace)" } else { name });
        rest = behind;
    }
    (is_nested == (rest == "E")).then(|| names.join("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_named_as_the_program_does() {
        for (symbol, name) in [
            ("_ZL2sv", Some("sv")),
            ("_ZN1N2nvE", Some("N::nv")),
            ("_ZN12_GLOBAL__N_11xE", Some("(anonymous namespace)::x")),
            ("_ZN1SIiE1xE", None),
            ("hv", None),
        ] {
            assert_eq!(plain(symbol).as_deref(), name, "{symbol}");
        }
    }

    #[test]
    fn what_is_no_object_has_none() {
        assert_eq!(read(b""), None);
        assert_eq!(read(&[0xff; 4096]), None);
    }
}
