//! Which ranks run where: `--hosts a,b` or `--hosts a:4,b:2`, or a file.

use std::path::Path;

/// One machine and its share of the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// As ssh takes it: `node1`, `user@node1`, `fe80::1` without brackets.
    pub name: String,
    /// Its first rank.
    pub first: usize,
    /// How many it has; at least one.
    pub count: usize,
}

impl Host {
    /// Its name for other machines.
    pub fn address(&self) -> &str {
        self.name.rsplit_once('@').map_or(&*self.name, |(_, name)| name)
    }
}

/// Shares `ranks` out in blocks: evenly, or where any host has slots by them, in order; a host without a number has one then.
/// `ranks` 0: as many as there are slots. Hosts that get none are left out.
pub fn share(text: &str, ranks: usize) -> Result<Vec<Host>, String> {
    let mut named = Vec::new();
    for item in text.split(',').map(str::trim) {
        let (name, slots) = match item.rsplit_once(':') {
            Some((name, slots)) if !name.contains(':') || name.ends_with(']') => {
                let slots = slots.parse().ok().filter(|slots| (1..=4096).contains(slots));
                (
                    name,
                    Some(slots.ok_or_else(|| format!("`--hosts {text}`: want HOST:SLOTS with 1 to 4096 slots, not `{item}`"))?),
                )
            }
            _ => (item, None),
        };
        // What begins with a dash would be an option of ssh.
        if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
            return Err(format!("`--hosts {text}`: `{name}` is no host"));
        }
        if named.iter().any(|(other, _)| *other == name) {
            return Err(format!("`--hosts {text}`: `{name}` stands there twice; write {name}:SLOTS"));
        }
        named.push((name, slots));
    }
    let slots = named.iter().any(|(_, slots)| slots.is_some());
    let total: usize = named.iter().map(|(_, slots)| slots.unwrap_or(1)).sum();
    let ranks = if ranks > 0 || !slots { ranks } else { total };
    if slots && ranks > total {
        return Err(format!("-n {ranks} ranks, but the hosts have {total} slots (--hosts {text})"));
    }
    let (mut hosts, mut first, n) = (Vec::new(), 0, named.len());
    for (i, (name, own)) in named.into_iter().enumerate() {
        let even = ranks / n + usize::from(i < ranks % n);
        let count = if slots { own.unwrap_or(1).min(ranks - first) } else { even };
        if count > 0 {
            hosts.push(Host { name: name.replace(['[', ']'], ""), first, count });
        }
        first += count;
    }
    Ok(hosts)
}

/// A hostfile as mpirun reads them, in the words of `--hosts`: a host in a line, with `slots=4` or `:4` behind it where it has any;
/// from `#` on nothing counts.
pub fn from_file(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("--hostfile {}: {e}", path.display()))?;
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(host) = words.next() else { continue };
        let slots = words.next().map(|word| word.strip_prefix("slots=").ok_or(word)).transpose();
        hosts.push(match (slots, words.next()) {
            (Ok(None), _) => host.to_owned(),
            (Ok(Some(slots)), None) if host.contains(':') && !host.contains('[') => format!("[{host}]:{slots}"),
            (Ok(Some(slots)), None) => format!("{host}:{slots}"),
            (Err(word), _) | (_, Some(word)) => {
                return Err(format!("--hostfile {}, line {number}: want HOST or HOST slots=N, not `{word}`", path.display()));
            }
        });
    }
    if hosts.is_empty() { Err(format!("--hostfile {}: no host in it", path.display())) } else { Ok(hosts.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(text: &str, ranks: usize) -> Vec<(String, usize, usize)> {
        share(text, ranks).unwrap().into_iter().map(|host| (host.name, host.first, host.count)).collect()
    }

    #[test]
    fn ranks_go_in_blocks() {
        let of = |list: &[(&str, usize, usize)]| {
            list.iter().map(|&(name, first, count)| (name.to_owned(), first, count)).collect::<Vec<_>>()
        };
        assert_eq!(shares("a,b", 8), of(&[("a", 0, 4), ("b", 4, 4)]));
        assert_eq!(shares("a, u@b ,c", 7), of(&[("a", 0, 3), ("u@b", 3, 2), ("c", 5, 2)]));
        assert_eq!(shares("a,b,c", 2), of(&[("a", 0, 1), ("b", 1, 1)]));
        assert_eq!(shares("a:4,b:2", 0), of(&[("a", 0, 4), ("b", 4, 2)]));
        assert_eq!(shares("a:4,b:2", 5), of(&[("a", 0, 4), ("b", 4, 1)]));
        assert_eq!(shares("a:3,b", 4), of(&[("a", 0, 3), ("b", 3, 1)]));
        assert_eq!(shares("[fe80::1]:2,::2", 3), of(&[("fe80::1", 0, 2), ("::2", 2, 1)]));
        let host = &share("u@[fe80::1]:1", 1).unwrap()[0];
        assert_eq!((&*host.name, host.address()), ("u@fe80::1", "fe80::1"));
    }

    #[test]
    fn what_is_no_list_is_told() {
        for (text, ranks, word) in [
            ("a:0", 0, "`a:0`"),
            ("a:x", 1, "`a:x`"),
            ("a,,b", 2, "`` is no host"),
            ("-oProxyCommand=x", 1, "no host"),
            ("a:1,b:1", 3, "2 slots"),
            ("a,b,a", 3, "`a` stands there twice"),
        ] {
            assert!(share(text, ranks).unwrap_err().contains(word), "{text}");
        }
    }

    #[test]
    fn a_hostfile_is_a_list_of_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            from_file(&path)
        };
        assert_eq!(
            read("# mine\nnode1 slots=4\n\nu@node2:2 # fast\nfe80::1 slots=1\n").unwrap(),
            "node1:4,u@node2:2,[fe80::1]:1"
        );
        assert_eq!(read("a\nb").unwrap(), "a,b");
        assert!(read("a\nb max=2\n").unwrap_err().contains("line 2: want HOST or HOST slots=N, not `max=2`"));
        assert!(read("a slots=2 x\n").unwrap_err().contains("not `x`"));
        assert!(read("#\n").unwrap_err().contains("no host in it"));
        assert!(from_file(Path::new("/no/such")).unwrap_err().contains("--hostfile /no/such: No such file"));
    }
}
