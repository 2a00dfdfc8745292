//! Which ranks run where: `--hosts a,b` or `--hosts a:4,b:2`.

/// One machine and its share of the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// As rsh takes it: `node1`, `user@node1`, `[fe80::1]`.
    pub name: String,
    /// Its first rank.
    pub first: usize,
    /// How many it has; at least one.
    pub count: usize,
}

impl Host {
    /// Its name for other machines.
    pub fn address(&self) -> &str {
        let name = self.name.rsplit_once('@').map_or(&*self.name, |(_, name)| name);
        name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
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
            hosts.push(Host { name: name.into(), first, count });
        }
        first += count;
    }
    Ok(hosts)
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
        assert_eq!(shares("[fe80::1]:2,::2", 3), of(&[("[fe80::1]", 0, 2), ("::2", 2, 1)]));
        assert_eq!(share("u@[fe80::1]", 1).unwrap()[0].address(), "fe80::1");
    }

    #[test]
    fn what_is_no_list_is_told() {
        for (text, ranks, word) in [
            ("a:0", 0, "`a:0`"),
            ("a:x", 1, "`a:x`"),
            ("a,,b", 2, "`` is no host"),
            ("-oProxyCommand=x", 1, "no host"),
            ("a:1,b:1", 3, "2 slots"),
        ] {
            assert!(share(text, ranks).unwrap_err().contains(word), "{text}");
        }
    }
}
