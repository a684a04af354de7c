//! Arbitrary bytes in the slots of a HERD server.

use drover_kv::EXTENSION_BYTES;
use drover_slots::layout::{Commit, ReplyImm};
use drover_slots::server::fuzz_slots;

/// Checks that the fields of any commit word and any reply immediate can be read and are in range, and that setting the
/// attempt changes neither sequence number nor operation. Input: 8-byte words; a shorter rest is ignored.
pub fn commit_word(input: &[u8]) {
    for word in input.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
        let commit = Commit(word);
        assert!(commit.value_len() < 1 << 10 && commit.key_len() < 1 << 8);
        // Besides both, a body has an extension, a time to live and a checksum at most.
        assert!(commit.body_len() <= commit.value_len() + commit.key_len() + EXTENSION_BYTES + 8);
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

/// Checks that a server executes or refuses any bytes in a client's slots. Input: images of 128 bytes for the slots in
/// the order in which the server visits them. Bits 0 and 1 of the first byte also choose the server's rules: keys as
/// hashes only, checksums required.
pub fn slots(input: &[u8]) {
    let executed = fuzz_slots(input);
    assert!(executed <= input.len() / 128);
}
