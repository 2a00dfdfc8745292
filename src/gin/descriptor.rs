//! The 64-byte descriptor (GFD): eight 64-bit words, bit 0 of each says "written" (spec host 4.4).
//!
//! All bits that no field owns are stack garbage of the kernel: reading masks strictly. Writing checks every width and
//! never masks, so a value that does not fit is an error and not another value.
#![forbid(unsafe_code)]

use std::fmt;

/// Words in a descriptor.
pub const WORDS: usize = 8;
/// Bit 0 of every word: this word has been written.
pub const WRITTEN: u64 = 1;

const OP: Field = Field { word: 0, low: 1, bits: 6 };
const SIZE: Field = Field { word: 0, low: 7, bits: 57 };
const SRC_OFFSET: Field = Field { word: 1, low: 1, bits: 63 };
const SRC_HANDLE: Field = Field { word: 2, low: 1, bits: 63 };
const INLINE_0: Field = Field { word: 1, low: 8, bits: 32 };
const INLINE_32: Field = Field { word: 1, low: 40, bits: 16 };
const INLINE_48: Field = Field { word: 2, low: 8, bits: 16 };
const DST_OFFSET: Field = Field { word: 3, low: 1, bits: 63 };
const DST_HANDLE: Field = Field { word: 4, low: 1, bits: 63 };
const COUNTER: Field = Field { word: 5, low: 8, bits: 16 };
const SIGNAL: Field = Field { word: 5, low: 24, bits: 16 };
const VALUE_0: Field = Field { word: 5, low: 40, bits: 16 };
const VALUE_16: Field = Field { word: 6, low: 8, bits: 16 };
const VALUE_32: Field = Field { word: 6, low: 24, bits: 32 };

const PUT: u64 = 1;
const WITH_INLINE: u64 = 2;
const WITH_COUNTER: u64 = 4;
const WITH_INC: u64 = 8;
const WITH_ADD: u64 = 16;

/// The bits that each field takes of its word, by the name that C gives it in `ncclGinProxyQword_t`; and the operation's bits.
/// abi-tests compares them with the headers.
pub const MASKS: [(&str, u64); 14] = [
    ("header.op", OP.mask()),
    ("header.size", SIZE.mask()),
    ("srcOff.srcOff", SRC_OFFSET.mask()),
    ("srcHandle.srcHandle", SRC_HANDLE.mask()),
    ("inlineLow.inlineValLow", INLINE_0.mask()),
    ("inlineLow.inlineValLow2", INLINE_32.mask()),
    ("inlineHigh.inlineValHigh", INLINE_48.mask()),
    ("dstOff.dstOff", DST_OFFSET.mask()),
    ("dstHandle.dstHandle", DST_HANDLE.mask()),
    ("completion.counterId", COUNTER.mask()),
    ("completion.signalId", SIGNAL.mask()),
    ("completion.signalValLow", VALUE_0.mask()),
    ("signalVal.signalValLow2", VALUE_16.mask()),
    ("signalVal.signalValHigh", VALUE_32.mask()),
];
/// See [`MASKS`].
pub const OPERATIONS: [(&str, u64); 5] = [
    ("ncclGinProxyOpPut", PUT),
    ("ncclGinProxyOpWithInline", WITH_INLINE),
    ("ncclGinProxyOpWithCounter", WITH_COUNTER),
    ("ncclGinProxyOpWithSignalInc", WITH_INC),
    ("ncclGinProxyOpWithSignalAdd", WITH_ADD),
];

/// Where a value lies in the eight words.
#[derive(Clone, Copy)]
struct Field {
    word: usize,
    low: u32,
    bits: u32,
}

impl Field {
    const fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    const fn mask(self) -> u64 {
        self.max() << self.low
    }

    #[inline]
    fn get(self, words: &[u64; WORDS]) -> u64 {
        words[self.word] >> self.low & self.max()
    }

    fn put(self, words: &mut [u64; WORDS], what: &'static str, value: u64) -> Result<(), Misfit> {
        if value > self.max() {
            return Err(Misfit { what, value });
        }
        words[self.word] |= value << self.low;
        Ok(())
    }
}

/// A value that a descriptor cannot carry, or must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The field.
    pub what: &'static str,
    /// Its value.
    pub value: u64,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {:#x}", self.what, self.value)
    }
}

/// Where the bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Registered memory of the posting rank; `offset` in bytes.
    Memory {
        /// The `ginWins` value of the memory.
        handle: u64,
        /// Bytes from the start of the allocation.
        offset: u64,
    },
    /// The value itself; only its low `bytes * 8` bits count.
    Inline(u64),
}

/// What happens to the target's signal word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalOp {
    /// Adds 1, whatever the value field says.
    Inc,
    /// Adds the value.
    Add(u64),
}

/// A descriptor, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Payload length; 0 for a bare signal.
    pub bytes: u64,
    /// Where the payload comes from.
    pub source: Source,
    /// The `ginWins` value of the target window, as the posting rank knows it.
    pub dst_handle: u64,
    /// Bytes from the start of the target allocation.
    pub dst_offset: u64,
    /// Absolute signal id of the target and what to do to it.
    pub signal: Option<(u16, SignalOp)>,
    /// Absolute id of the local counter that rises when the source is reusable.
    pub counter: Option<u16>,
}

impl Descriptor {
    /// Packs it; every word carries the flag.
    pub fn encode(&self) -> Result<[u64; WORDS], Misfit> {
        let mut words = [WRITTEN; WORDS];
        let mut op = PUT;
        match self.source {
            Source::Memory { handle, offset } => {
                SRC_OFFSET.put(&mut words, "source offset", offset)?;
                SRC_HANDLE.put(&mut words, "source handle", handle)?;
            }
            Source::Inline(value) => {
                op |= WITH_INLINE;
                if !(1..=8).contains(&self.bytes) {
                    return Err(Misfit { what: "size of an inline value", value: self.bytes });
                }
                if value & !low_bytes(self.bytes) != 0 {
                    return Err(Misfit { what: "inline value", value });
                }
                INLINE_0.put(&mut words, "inline value", value & INLINE_0.max())?;
                INLINE_32.put(&mut words, "inline value", value >> 32 & INLINE_32.max())?;
                INLINE_48.put(&mut words, "inline value", value >> 48)?;
            }
        }
        if let Some((id, signal)) = self.signal {
            let (bit, value) = match signal {
                SignalOp::Inc => (WITH_INC, 1),
                SignalOp::Add(value) => (WITH_ADD, value),
            };
            op |= bit;
            SIGNAL.put(&mut words, "signal id", id.into())?;
            VALUE_0.put(&mut words, "signal value", value & VALUE_0.max())?;
            VALUE_16.put(&mut words, "signal value", value >> 16 & VALUE_16.max())?;
            VALUE_32.put(&mut words, "signal value", value >> 32)?;
        }
        if let Some(id) = self.counter {
            op |= WITH_COUNTER;
            COUNTER.put(&mut words, "counter id", id.into())?;
        }
        OP.put(&mut words, "op", op)?;
        SIZE.put(&mut words, "size", self.bytes)?;
        DST_OFFSET.put(&mut words, "target offset", self.dst_offset)?;
        DST_HANDLE.put(&mut words, "target handle", self.dst_handle)?;
        Ok(words)
    }

    /// Unpacks it; refuses only what no header can mean: an op without Put, two signal ops, an inline size over 8.
    #[inline]
    pub fn decode(words: &[u64; WORDS]) -> Result<Self, Misfit> {
        let op = OP.get(words);
        let both = WITH_INC | WITH_ADD;
        if op & PUT == 0 || op > PUT | WITH_INLINE | WITH_COUNTER | both || op & both == both {
            return Err(Misfit { what: "op", value: op });
        }
        let bytes = SIZE.get(words);
        let source = if op & WITH_INLINE == 0 {
            Source::Memory { handle: SRC_HANDLE.get(words), offset: SRC_OFFSET.get(words) }
        } else {
            if bytes > 8 {
                return Err(Misfit { what: "size of an inline value", value: bytes });
            }
            // The headers leave the upper parts unwritten for short values, so only the low bytes mean something.
            let value = INLINE_0.get(words) | INLINE_32.get(words) << 32 | INLINE_48.get(words) << 48;
            Source::Inline(value & low_bytes(bytes))
        };
        let signal = match op & both {
            0 => None,
            WITH_INC => Some((SIGNAL.get(words) as u16, SignalOp::Inc)),
            _ => {
                let value = VALUE_0.get(words) | VALUE_16.get(words) << 16 | VALUE_32.get(words) << 32;
                Some((SIGNAL.get(words) as u16, SignalOp::Add(value)))
            }
        };
        let counter = (op & WITH_COUNTER != 0).then(|| COUNTER.get(words) as u16);
        Ok(Self { bytes, source, dst_handle: DST_HANDLE.get(words), dst_offset: DST_OFFSET.get(words), signal, counter })
    }
}

/// Mask of the low `bytes` bytes, 0 to 8.
fn low_bytes(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { u64::MAX >> (64 - 8 * bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(bytes: u64, signal: Option<(u16, SignalOp)>, counter: Option<u16>) -> Descriptor {
        let source = Source::Memory { handle: 0, offset: 0 };
        Descriptor { bytes, source, dst_handle: 0, dst_offset: 0, signal, counter }
    }

    /// The vectors of spec host 4.4 and spec device 11.2.
    #[test]
    fn golden_vectors() {
        assert_eq!(put(0x1000, None, None).encode().unwrap()[0], 0x80003);
        let full = put(0x1000, Some((7, SignalOp::Add(0x1122_3344_5566_7788))), Some(2));
        let words = full.encode().unwrap();
        assert_eq!(words[5], 0x0077_8800_0700_0201);
        assert_eq!(words[6], 0x0011_2233_4455_6601);
        assert_eq!(put(0x1000, None, Some(0)).encode().unwrap()[0], 0x8000b);
        assert_eq!(put(0x1000, Some((0, SignalOp::Add(1))), None).encode().unwrap()[0], 0x80023);
        let signal = put(0, Some((5, SignalOp::Inc)), None).encode().unwrap();
        assert_eq!((signal[0], signal[5]), (0x13, 1 | 5 << 24 | 1 << 40));
        let mut offset = put(8, None, None);
        offset.source = Source::Memory { handle: 0, offset: 0x10 };
        assert_eq!(offset.encode().unwrap()[1], 0x21);
        let sample = put(0x12_3456, Some((0x5051, SignalOp::Add(0xd0d1_d2d3_b0b1_a0a1))), Some(0xc0c1)).encode().unwrap();
        assert_eq!(sample[0], 0x091a_2b2b);
        assert_eq!(sample[5], 0x00a0_a150_51c0_c101);
        assert_eq!(sample[6], 0x00d0_d1d2_d3b0_b101);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(put(1 << 57, None, None).encode().unwrap_err().what, "size");
        let mut wide = put(8, None, None);
        wide.dst_handle = 1 << 63;
        assert_eq!(wide.encode().unwrap_err().what, "target handle");
        wide.dst_handle = 0;
        wide.dst_offset = u64::MAX;
        assert_eq!(wide.encode().unwrap_err().what, "target offset");
        let mut inline = put(2, None, None);
        inline.source = Source::Inline(0x1_0000);
        assert_eq!(inline.encode().unwrap_err().what, "inline value");
        inline.bytes = 9;
        assert_eq!(inline.encode().unwrap_err(), Misfit { what: "size of an inline value", value: 9 });
        for op in [0u64, 2, 8 | 16 | 1, 32 | 1, 63] {
            let words = [op << 1 | 1, 1, 1, 1, 1, 1, 1, 1];
            assert_eq!(Descriptor::decode(&words).unwrap_err(), Misfit { what: "op", value: op });
        }
        let words = [9 << 7 | 3 << 1 | 1, 1, 1, 1, 1, 1, 1, 1];
        assert_eq!(Descriptor::decode(&words).unwrap_err().what, "size of an inline value");
    }

    fn any_descriptor() -> impl Strategy<Value = Descriptor> {
        let memory = (0..1u64 << 63, 0..1u64 << 63, 0..1u64 << 57)
            .prop_map(|(handle, offset, bytes)| (bytes, Source::Memory { handle, offset }));
        let inline = (1..=8u64, any::<u64>()).prop_map(|(bytes, value)| (bytes, Source::Inline(value & low_bytes(bytes))));
        let signal = proptest::option::of((any::<u16>(), prop_oneof![Just(SignalOp::Inc), any::<u64>().prop_map(SignalOp::Add)]));
        (prop_oneof![memory, inline], 0..1u64 << 63, 0..1u64 << 63, signal, proptest::option::of(any::<u16>())).prop_map(
            |((bytes, source), dst_handle, dst_offset, signal, counter)| Descriptor {
                bytes,
                source,
                dst_handle,
                dst_offset,
                signal,
                counter,
            },
        )
    }

    /// The bits of `descriptor` that no field owns, word by word.
    fn garbage_bits(descriptor: &Descriptor) -> [u64; WORDS] {
        let mut owned = [WRITTEN; WORDS];
        let mut own = |field: Field| owned[field.word] |= field.max() << field.low;
        [OP, SIZE, DST_OFFSET, DST_HANDLE].into_iter().for_each(&mut own);
        match descriptor.source {
            Source::Memory { .. } => [SRC_OFFSET, SRC_HANDLE].into_iter().for_each(&mut own),
            Source::Inline(_) => {
                own(INLINE_0);
                if descriptor.bytes > 4 {
                    own(INLINE_32);
                }
                if descriptor.bytes > 6 {
                    own(INLINE_48);
                }
            }
        }
        match descriptor.signal {
            None => {}
            Some((_, SignalOp::Inc)) => own(SIGNAL),
            Some((_, SignalOp::Add(_))) => [SIGNAL, VALUE_0, VALUE_16, VALUE_32].into_iter().for_each(&mut own),
        }
        if descriptor.counter.is_some() {
            own(COUNTER);
        }
        owned.map(|bits| !bits)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn round_trip_through_garbage(descriptor in any_descriptor(), noise in any::<[u64; WORDS]>()) {
            let mut words = descriptor.encode().unwrap();
            prop_assert!(words.iter().all(|word| word & WRITTEN == 1));
            let garbage = garbage_bits(&descriptor);
            for (word, (noise, garbage)) in words.iter_mut().zip(noise.into_iter().zip(garbage)) {
                *word ^= noise & garbage;
            }
            prop_assert_eq!(Descriptor::decode(&words).unwrap(), descriptor);
        }
    }
}
