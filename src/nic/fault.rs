//! Faults of a card that somebody asks for (GINRS_NIC_FAULT): which operation fails, when, and with which syndrome.

use super::completion::Syndrome;
use super::element::Element;

/// What the setting looks like, for people.
pub const FORM: &str = "syndrome=0x02, 0x04, 0x13 or 0x15, and, comma-separated, op=nop, write, inline, add or wait, rank=R, at=N (the Nth \
                        such element) or one-in=N with seed=S";

/// Which elements fail, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    syndrome: Syndrome,
    /// None: any.
    op: Option<&'static str>,
    /// The rank that posts them. None: any.
    rank: Option<u32>,
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// The nth that matches, from 1.
    At(u64),
    /// One of so many, by the element's place: the same ones in each run with this seed.
    OneIn(u64, u64),
}

impl Rule {
    /// Reads [`FORM`]; else which part of it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut syndrome, mut op, mut rank, mut at, mut one_in, mut seed) = (None, None, None, None, None, None);
        for part in text.split(',').map(str::trim) {
            let odd = || format!("\"{}\"", crate::text::printable(part, 40));
            let (name, value) = part.split_once('=').ok_or_else(odd)?;
            let number = || match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| odd()),
                None => value.parse().map_err(|_| odd()),
            };
            let counts = || number().and_then(|n: u64| if n > 0 { Ok(n) } else { Err(odd()) });
            let twice = match name {
                "syndrome" => syndrome.replace(to_inject(number()?).ok_or_else(odd)?).is_some(),
                "op" => op.replace(*OPS.iter().find(|op| **op == value).ok_or_else(odd)?).is_some(),
                "rank" => rank.replace(u32::try_from(number()?).map_err(|_| odd())?).is_some(),
                "at" => at.replace(counts()?).is_some(),
                "one-in" => one_in.replace(counts()?).is_some(),
                "seed" => seed.replace(number()?).is_some(),
                _ => return Err(odd()),
            };
            if twice {
                return Err(format!("{} a second time", odd()));
            }
        }
        let when = match (at, one_in, seed) {
            (at, None, None) => When::At(at.unwrap_or(1)),
            (None, Some(n), seed) => When::OneIn(n, seed.unwrap_or(1)),
            (Some(_), ..) => return Err("at beside one-in or seed".into()),
            (None, None, Some(_)) => return Err("seed without one-in".into()),
        };
        Ok(Self { syndrome: syndrome.ok_or("no syndrome")?, op, rank, when })
    }

    /// How this element fails, if it does: element `index` of queue `number`, which `rank` posted. `count` counts those that match.
    pub fn hits(
        &self,
        element: &Element,
        rank: u32,
        (number, index): (u32, u32),
        count: impl FnOnce() -> u64,
    ) -> Option<Syndrome> {
        if self.rank.is_some_and(|of| of != rank) || self.op.is_some_and(|op| op != op_of(element)) {
            return None;
        }
        let hit = match self.when {
            When::At(n) => count() == n,
            When::OneIn(n, seed) => super::mix(seed, u64::from(number) << 32 | u64::from(index)).is_multiple_of(n),
        };
        hit.then_some(self.syndrome)
    }
}

const OPS: [&str; 5] = ["nop", "write", "inline", "add", "wait"];

fn op_of(element: &Element) -> &'static str {
    match element {
        Element::Nop => "nop",
        Element::Write { .. } => "write",
        Element::WriteInline { .. } => "inline",
        Element::FetchAdd { .. } => "add",
        Element::Wait { .. } => "wait",
    }
}

/// Elements are flushed behind another's failure: 0x05 is nobody's own.
fn to_inject(number: u64) -> Option<Syndrome> {
    use Syndrome::{LocalOperation, LocalProtection, RemoteAccess, Retries};
    [LocalOperation, LocalProtection, RemoteAccess, Retries].into_iter().find(|one| *one as u64 == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_which_and_when() {
        let rule = Rule::parse("syndrome=0x13, op=wait,at=3,rank=1").unwrap();
        let wait = Element::Wait { queue: 1, index: 1 };
        let mut seen = 0;
        let mut hits = |element, rank| {
            rule.hits(&element, rank, (1, 1), || {
                seen += 1;
                seen
            })
        };
        assert_eq!([hits(wait, 1), hits(Element::Nop, 1), hits(wait, 0), hits(wait, 1)], [None; 4]);
        assert_eq!((hits(wait, 1), hits(wait, 1)), (Some(Syndrome::RemoteAccess), None));
        assert_eq!(Rule::parse("syndrome=21").unwrap().hits(&wait, 9, (0, 0), || 1), Some(Syndrome::Retries));
    }

    /// The same elements in each run, about one of so many, others with another seed.
    #[test]
    fn a_seed_chooses() {
        let chosen = |seed: u64| {
            let rule = Rule::parse(&format!("syndrome=0x15,one-in=100,seed={seed}")).unwrap();
            (0..100_000).filter(|index| rule.hits(&Element::Nop, 0, (7, *index), || 0).is_some()).collect::<Vec<u32>>()
        };
        assert_eq!(chosen(1), chosen(1));
        assert!((700..1300).contains(&chosen(1).len()) && chosen(1) != chosen(2));
    }

    #[test]
    fn what_is_no_rule_is_named() {
        for (text, why) in [
            ("", "\"\""),
            ("syndrome=0x05", "\"syndrome=0x05\""),
            ("syndrome=remote", "\"syndrome=remote\""),
            ("op=add", "no syndrome"),
            ("syndrome=2,op=read", "\"op=read\""),
            ("syndrome=2,at=0", "\"at=0\""),
            ("syndrome=2,rank=4294967296", "\"rank=4294967296\""),
            ("syndrome=2,one-in=5,at=1", "at beside one-in or seed"),
            ("syndrome=2,seed=1", "seed without one-in"),
            ("syndrome=2,syndrome=4", "\"syndrome=4\" a second time"),
        ] {
            assert_eq!(Rule::parse(text), Err(why.into()), "{text}");
        }
    }
}
