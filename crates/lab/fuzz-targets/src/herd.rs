//! Arbitrary bytes in the slots and on the control channel of a HERD server.

use drover_kv_herd::control::Message;
use drover_kv_herd::layout::{Commit, ReplyImm};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// Checks that the fields of any commit word and any reply immediate can be read and are in range, and that setting the
/// attempt changes no other field. Input: 8-byte words; the rest is ignored.
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

/// Checks that a server executes or refuses any bytes in a client's slots. Input: images of 128 bytes for the slots in
/// the order in which the server visits them. Bits 0 and 1 of the first byte also choose the server's rules: keys as
/// hashes only, checksums required.
pub fn slots(input: &[u8]) {
    let executed = drover_kv_herd::logic::fuzz_slots(input);
    assert!(executed <= input.len() / 128);
}

/// Checks that any frame is decoded or refused, and that a decoded message encodes to bytes which survive another
/// decoding. Input: kind (2 bytes, little-endian), descriptor count (1 byte, modulo 20), body.
pub fn control_message(input: &[u8]) {
    let Some(message) = decode_control_message(input) else {
        return;
    };
    let once = message.encode();
    assert_eq!(once.kind, message.kind());
    let again = Message::decode(once.kind, &once.bytes, once.fds).expect("our own bytes are well-formed");
    assert_eq!(again.encode().bytes, once.bytes);
}

/// Decodes an input of [`control_message`]; `None` if it is shorter than 3 bytes or no valid message.
pub fn decode_control_message(input: &[u8]) -> Option<Message> {
    let [low, high, fd_count, body @ ..] = input else {
        return None;
    };
    let fds = (0..fd_count % 20).map(|_| descriptor()).collect();
    Message::decode(u16::from_le_bytes([*low, *high]), body, fds).ok()
}

/// Returns a descriptor of `/dev/null` to attach to messages.
pub(crate) fn descriptor() -> Arc<OwnedFd> {
    static NULL: OnceLock<Arc<OwnedFd>> = OnceLock::new();
    let open = || {
        Arc::new(OwnedFd::from(
            File::open("/dev/null").expect("every system has one"),
        ))
    };
    NULL.get_or_init(open).clone()
}
