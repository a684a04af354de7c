//! What clients write into request slots.

use drover_slots::layout::{Commit, ReplyImm};
use drover_slots::server::fuzz_slots;

/// Any commit word and any immediate can be looked at, and lengths stay what their fields can hold.
pub fn commit_word(input: &[u8]) {
    for word in input.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
        let commit = Commit(word);
        assert!(commit.value_len() < 1 << 10 && commit.key_len() < 1 << 8);
        assert!(commit.body_len() <= commit.value_len() + commit.key_len() + 8);
        let again = commit.with_attempt(3).with_attempt(word as u32);
        assert_eq!(
            (again.seq(), again.op()),
            (commit.seq(), commit.op()),
            "an attempt changes nothing else"
        );
        let imm = ReplyImm(word as u32);
        assert!(imm.slot_index() < 256 && imm.seq_low() <= ReplyImm::SEQ_MASK);
        let _ = imm.status();
    }
}

/// Any bytes in the slots of a client are taken or refused as a server would. Input: images of 128-byte slots, in
/// turn; the two lowest bits of the first byte choose what the server insists on.
pub fn slots(input: &[u8]) {
    let executed = fuzz_slots(input);
    assert!(executed <= input.len() / 128);
}
