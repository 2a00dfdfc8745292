use super::*;
use proptest::prelude::*;

fn block(what: &str, data: &[u8]) -> Block {
    Block { what: what.into(), data: data.into() }
}

fn samples() -> Vec<Frame> {
    let error = Error::new(Code::RemoteError, 40, "rank 3 died");
    vec![
        Frame::Headcount { joined: 3, n_ranks: 8, missing: vec![4, 9], unauthenticated: 1 },
        Frame::Refused(error.clone()),
        Frame::Table(vec![
            Endpoint {
                address: Address::Abstract([5; 16]),
                pid: 77,
                machine: 3,
                doors: Doors::of(["[fe80::1%2]:4000".parse().unwrap()]),
            },
            Endpoint { address: Address::None, pid: 0, machine: 0, doors: Doors::default() },
        ]),
        Frame::Blocks(Blocks {
            from: 1,
            seq: u32::MAX,
            round: 3,
            blocks: vec![block("a", b"xyz"), block("b", b""), block("a", b"q")],
        }),
        Frame::Poison { from: 1, quiescent: true, cause: error.clone().by(3) },
        Frame::Decline { key: [4; 16], rank: 2, cause: error },
        Frame::Left { rank: 6 },
        Frame::Probe,
        Frame::Status(vec![Standing { rank: 1, seq: 2, inside: true, what: "barrier".into() }]),
        Frame::Fetch { ticket: 1, owner: 2, key: u64::MAX },
        Frame::Handed { ticket: 9, found: false },
        Frame::Beat(Beat {
            from: 4,
            still: 9,
            complaints: vec![
                Complaint { ill: Ill::Silent, rank: 2, lasts: 800, hops: 3 },
                Complaint { ill: Ill::Stopped, rank: 5, lasts: 70, hops: 0 },
            ],
        }),
        Frame::Leaving { rank: 7, ended: true, called: "3\n.".into() },
        Frame::Met { reader: 5 },
        Frame::Here,
    ]
}

#[test]
fn every_frame_comes_back_and_no_cut_or_longer_one_does() {
    for frame in samples() {
        let bytes = frame.encode();
        assert_eq!(u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 4);
        assert_eq!(Frame::decode(&bytes[4..]), Ok(frame));
        for cut in 4..bytes.len() {
            assert_eq!(Frame::decode(&bytes[4..cut]), Err(Malformed));
        }
        assert_eq!(Frame::decode(&[&bytes[4..], &[0]].concat()), Err(Malformed));
    }
}

#[test]
fn counts_that_cannot_be_true_allocate_nothing() {
    for kind in [1, 3, 4, 8, 11] {
        assert_eq!(Frame::decode(&[&[kind][..], &[0xff; 40]].concat()), Err(Malformed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]
    #[test]
    fn no_bytes_break_the_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u8..17) {
        let _ = Frame::decode(&bytes);
        if let Ok(frame) = Frame::decode(&[&[kind][..], &bytes].concat()) {
            prop_assert_eq!(Frame::decode(&frame.encode()[4..]), Ok(frame));
        }
    }

    #[test]
    fn no_changed_byte_breaks_the_decoder(which in 0usize..15, at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = samples()[which].encode();
        let at = 4 + at.index(bytes.len() - 4);
        bytes[at] = to;
        let _ = Frame::decode(&bytes[4..]);
    }
}
