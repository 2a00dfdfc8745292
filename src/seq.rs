//! An index that wraps. Every index of a queue is one, so that no code compares two of them with `<`.
//!
//! Imports from no other module.

#![forbid(unsafe_code)]

/// A 32-bit index that counts modulo 2^32.
///
/// Two indices are compared by how far one is behind the other, which is right while they are less than 2^31 apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Seq(pub u32);

impl Seq {
    /// The index after this one.
    #[must_use]
    pub fn next(self) -> Self {
        self.advance(1)
    }

    /// The index `by` steps on.
    #[must_use]
    pub fn advance(self, by: u32) -> Self {
        Self(self.0.wrapping_add(by))
    }

    /// Steps from `earlier` to self.
    pub fn distance(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// True when self stands at or before `other`: the rolling compare of the device headers in 32 bits.
    pub fn at_or_before(self, other: Self) -> bool {
        rolling_le(self.0.into(), other.0.into(), 32)
    }
}

/// Rolling `a <= b` in `bits` bits (1 to 64), as device code compares signals and counters: `((b - a) mod 2^bits) <= (2^bits - 1) >> 1`.
pub fn rolling_le(a: u64, b: u64, bits: u32) -> bool {
    debug_assert!((1..=64).contains(&bits), "a width of {bits} bits");
    let mask = u64::MAX >> (64 - bits);
    b.wrapping_sub(a) & mask <= mask >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let before = Seq(u32::MAX - 1);
        let after = before.advance(3);
        assert_eq!(after, Seq(1));
        assert_eq!(after.distance(before), 3);
        assert!(before.at_or_before(after) && !after.at_or_before(before));
        assert!(before.at_or_before(before));
        assert_eq!(Seq(u32::MAX).next(), Seq(0));
    }

    #[test]
    fn rolling_compare_follows_the_formula_at_its_edges() {
        for bits in [1, 8, 16, 31, 32, 62, 63, 64] {
            let mask = u64::MAX >> (64 - bits);
            for a in [0, 1, mask, mask - 1, mask >> 1] {
                let at = |d: u64| a.wrapping_add(d) & mask;
                assert!(rolling_le(a, a, bits));
                assert!(rolling_le(a, at(mask >> 1), bits), "{bits} {a}");
                assert!(!rolling_le(a, at((mask >> 1) + 1), bits), "{bits} {a}");
                assert!(bits == 1 || !rolling_le(a, at(mask), bits), "{bits} {a}");
            }
        }
    }
}
