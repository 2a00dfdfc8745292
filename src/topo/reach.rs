//! Which rank's GPU can load from and store to which rank's memory: what decides who may stand in one LSA team.

use crate::bail;
use crate::error::Result;
use std::sync::Arc;

/// One row for each rank; all ranks hold the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Bit `b` of row `a`: rank `a` reaches rank `b`. None: everyone reaches everyone.
    rows: Option<Arc<[Arc<[u8]>]>>,
}

impl Reach {
    /// Everyone reaches everyone.
    pub fn full() -> Self {
        Self { rows: None }
    }

    /// A rank's row as it travels: one bit for each rank.
    pub fn row(reaches: impl IntoIterator<Item = bool>) -> Arc<[u8]> {
        let mut row: Vec<u8> = Vec::new();
        for (rank, reaches) in reaches.into_iter().enumerate() {
            if rank % 8 == 0 {
                row.push(0);
            }
            row[rank / 8] |= u8::from(reaches) << (rank % 8);
        }
        row.into()
    }

    /// From the rows of all ranks, in order.
    pub fn from_rows(rows: &[Arc<[u8]>]) -> Result<Self> {
        let bytes = rows.len().div_ceil(8);
        if let Some(rank) = rows.iter().position(|row| row.len() != bytes) {
            bail!(
                RemoteError,
                53,
                "rank {rank} sent {} bytes of peer access, {bytes} were expected | fix: load the same libginrs on every rank",
                rows[rank].len()
            );
        }
        Ok(Self { rows: Some(rows.into()) })
    }

    /// True if `from`'s kernels and copies can touch `to`'s memory.
    pub fn reaches(&self, from: u32, to: u32) -> bool {
        let Some(rows) = &self.rows else { return true };
        from == to || rows[from as usize][to as usize / 8] >> (to % 8) & 1 == 1
    }

    /// The largest divisor of `most` for which every team of so many consecutive ranks, of `n`, is mutually reachable; and, if
    /// it is smaller than `most`, two ranks that stood in the way.
    pub fn team(&self, most: u32, n: u32) -> (u32, Option<(u32, u32)>) {
        let mut obstacle = None;
        for size in (1..=most).rev().filter(|size| most.is_multiple_of(*size)) {
            let Some(pair) = self.apart(size, n) else { return (size, obstacle) };
            obstacle.get_or_insert(pair);
        }
        (1, obstacle)
    }

    /// Two ranks of one team of `size` of which one does not reach the other.
    fn apart(&self, size: u32, n: u32) -> Option<(u32, u32)> {
        self.rows.as_ref()?;
        (0..n).find_map(|a| {
            let team = a / size * size..(a / size + 1) * size;
            team.into_iter().find(|&b| !self.reaches(a, b)).map(|b| (a, b))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks with the same letter reach each other.
    fn groups(letters: &str) -> Reach {
        let letters: Vec<char> = letters.chars().collect();
        Reach::from_rows(&letters.iter().map(|a| Reach::row(letters.iter().map(|b| a == b))).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn teams_shrink_until_everyone_reaches_everyone() {
        let cases = [
            ("aaaa", 4, 4, None),
            ("aabb", 4, 2, Some((0, 2))),
            ("abab", 4, 1, Some((0, 1))),
            ("aaabbb", 6, 3, Some((0, 3))),
            ("aaaabb", 6, 2, Some((0, 4))),
            ("aaaabbbbc", 1, 1, None),
            ("aabbaabb", 4, 2, Some((0, 2))),
        ];
        for (letters, most, size, obstacle) in cases {
            assert_eq!(groups(letters).team(most, letters.len() as u32), (size, obstacle), "{letters}");
        }
        assert_eq!(Reach::full().team(8, 16), (8, None));
    }

    #[test]
    fn one_direction_alone_makes_no_team() {
        let rows = [Reach::row([true, true]), Reach::row([false, true])];
        let reach = Reach::from_rows(&rows).unwrap();
        assert!(reach.reaches(0, 1) && !reach.reaches(1, 0));
        assert_eq!(reach.team(2, 2), (1, Some((1, 0))));
        assert!(Reach::from_rows(&[[1].into(), [].into()]).is_err());
        let rows: Vec<_> = (0..20).map(|a| Reach::row((0..20).map(|b| (a * b) % 3 == 0))).collect();
        let wide = Reach::from_rows(&rows).unwrap();
        assert!((0..20).all(|a| (0..20).all(|b| wide.reaches(a, b) == (a == b || (a * b) % 3 == 0))));
    }
}
