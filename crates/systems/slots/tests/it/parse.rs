//! Commit words that make sense, and those that do not.

use drover_slots::layout::{Commit, SlotOp};
use drover_slots::server::{KeyRule, Parsed, Plain, Refused, fuzz_slots};
use proptest::prelude::*;

const RULE: KeyRule = KeyRule {
    hash_only: false,
    crc_required: false,
};

fn parsed(commit: Commit) -> Result<Parsed, Refused> {
    Parsed::new(commit, RULE, 1000)
}

#[test]
fn pieces_stand_where_the_layout_says() {
    let put = parsed(Commit::new(SlotOp::PutTtl, 1, 5, 7, true)).expect("sane");
    assert_eq!(put.body_len, 4 + 7 + 5 + 4);
    let at = put.body_at(10);
    assert_eq!((at.start, at.value, at.key, at.crc), (10, 14, 21, 26));
}

#[test]
fn nonsense_is_refused() {
    let get = |key_len, value_len| Commit::new(SlotOp::Get, 1, key_len, value_len, false);
    assert!(parsed(get(1, 0)).is_ok() && parsed(get(250, 0)).is_ok());
    assert!(parsed(get(0, 0)).is_err(), "no key");
    assert!(parsed(get(251, 0)).is_err(), "key too long");
    assert!(parsed(get(1, 1)).is_err(), "a GET with a value");
    assert!(parsed(Commit(get(1, 0).0 | 1 << 42)).is_err(), "reserved bits");
    assert!(parsed(get(1, 0).with_condition(true)).is_ok());
    assert!(Plain::new(get(1, 0).with_condition(true), 100).is_none());
    assert!(parsed(Commit(get(1, 0).0 & !(0xf << 56))).is_err(), "op 0");
    assert!(parsed(Commit(get(1, 0).0 | 0xf << 56)).is_err(), "op 15");
    assert!(
        parsed(Commit::new(SlotOp::Put, 1, 250, 751, false)).is_err(),
        "longer than the slot"
    );
    assert!(parsed(Commit::new(SlotOp::PutBulk, 1, 1, 11, false)).is_err());
    let hash_only = KeyRule {
        hash_only: true,
        ..RULE
    };
    assert!(Parsed::new(get(0, 0), hash_only, 1000).is_ok());
    let crc = KeyRule {
        crc_required: true,
        ..RULE
    };
    assert!(Parsed::new(get(1, 0), crc, 1000).is_err(), "checksum missing");
}

proptest! {
    #[test]
    fn any_word_parses_or_is_refused(word in any::<u64>(), body_bytes_max in 40usize..=1000) {
        if let Ok(p) = Parsed::new(Commit(word), RULE, body_bytes_max) {
            prop_assert!(p.body_len <= body_bytes_max && p.key_len <= 250);
            let at = p.body_at(0);
            prop_assert!(at.value <= at.key && at.key <= at.crc && at.crc <= p.body_len);
        }
    }

    /// The short way and the long way agree.
    #[test]
    fn plain_words_are_parsed_alike(op in 0u64..16, key_len in 0usize..256, value_len in 0usize..1000, junk in any::<u64>(), mess in any::<bool>()) {
        let word = Commit::new(SlotOp::Get, 1, key_len, value_len, false).0 & !(0xf << 56) | op << 56;
        let commit = Commit(if mess { word ^ (junk & 0xf << 42) } else { word });
        let long = Parsed::new(commit, RULE, 500).ok();
        let plain = Plain::new(commit, 500);
        if let Some(plain) = plain {
            let long = long.expect("what is plain is sane");
            prop_assert_eq!((plain.op, plain.key_len, plain.value_len), (long.op, long.key_len, long.value_len));
            prop_assert_eq!(plain.body_len(), long.body_len);
        } else {
            prop_assert!(long.is_none_or(|long| !matches!(long.op, SlotOp::Get | SlotOp::Put)));
        }
        prop_assert_eq!(Plain::new(commit, 0), None);
        for attempt in 1..8 {
            prop_assert_eq!(Plain::new(commit.with_attempt(attempt), 500), None);
        }
        prop_assert_eq!(Plain::new(Commit(commit.0 & !(1 << 63)), 500), None);
    }

    #[test]
    fn any_slots_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..1400)) {
        fuzz_slots(&bytes);
    }

    #[test]
    fn nearly_good_slots_are_survived(words in prop::collection::vec((0u32..9, 0u64..16, 0usize..64, 0usize..64, any::<bool>()), 1..20)) {
        let mut bytes = Vec::new();
        for (seq, op, key_len, value_len, crc) in words {
            bytes.extend_from_slice(&[1; 120]);
            let commit = Commit::new(SlotOp::Put, seq, key_len, value_len, crc);
            bytes.extend_from_slice(&(commit.0 & !(0xf << 56) | op << 56).to_le_bytes());
        }
        fuzz_slots(&bytes);
    }
}
