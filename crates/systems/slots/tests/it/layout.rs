//! Fields of the words that travel.

use drover_base::KeyHash;
use drover_slots::layout::{Commit, ReplyImm, SlotMap, SlotOp, Status, request_crc};
#[test]
fn commit_fields_do_not_overlap() {
    let commit = Commit::new(SlotOp::PutTtl, u32::MAX, 250, 700, true).with_attempt(9);
    assert!(commit.is_valid() && commit.has_crc());
    assert_eq!((commit.op(), commit.seq()), (Some(SlotOp::PutTtl), u32::MAX));
    assert_eq!((commit.key_len(), commit.value_len()), (250, 700));
    assert_eq!(commit.body_len(), 4 + 700 + 250 + 4);
    assert_ne!(commit, commit.with_attempt(0));
    assert_eq!(commit.0 >> 42 & 0x1f, 0);
    let conditional = commit.with_condition(true);
    assert_eq!(
        (conditional.is_conditional(), conditional.0 >> 42 & 0x1f),
        (true, 1 << 4)
    );
    assert_eq!(conditional.with_condition(false), commit);
}

#[test]
fn the_checksum_covers_all_but_the_attempt() {
    let hash = KeyHash { low: 1, high: 2 };
    let commit = Commit::new(SlotOp::Put, 7, 3, 5, true);
    let crc = request_crc(b"valuekey", hash, commit);
    assert_eq!(crc, request_crc(b"valuekey", hash, commit.with_attempt(3)));
    let other = Commit::new(SlotOp::Put, 8, 3, 5, true);
    assert_ne!(crc, request_crc(b"valuekey", hash, other));
    assert_ne!(crc, request_crc(b"valuekez", hash, commit));
    assert_ne!(crc, request_crc(b"valuekey", KeyHash { low: 1, high: 3 }, commit));
}

#[test]
fn reply_fields_do_not_overlap() {
    let imm = ReplyImm::new(Status::Bulk, 255, u32::MAX);
    assert_eq!(
        (imm.status(), imm.slot_index(), imm.seq_low()),
        (Some(Status::Bulk), 255, ReplyImm::SEQ_MASK)
    );
}

#[test]
fn slots_follow_the_papers_formula() {
    let map = SlotMap {
        slot_bytes: 1024,
        window: 2,
        partition_count: 16,
    };
    assert!(map.is_valid());
    assert_eq!(map.slot_offset(3, 1), (3 * 2 + 1) * 1024);
    assert_eq!(map.region_bytes() * 200, 6400 << 10);
}
