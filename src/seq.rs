//! An index that wraps. Every index of a queue is one, so that no code compares two of them with `<`.

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
        other.distance(self) <= u32::MAX >> 1
    }
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
}
