//! What clients write into slots and send over the control channel of HERD.

use drover_kv_herd::control::Message;
use drover_kv_herd::layout::{Commit, ReplyImm};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

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
    let executed = drover_kv_herd::logic::fuzz_slots(input);
    assert!(executed <= input.len() / 128);
}

/// Any frame is decoded or refused; what was decoded, encodes and decodes again to the same bytes.
/// Input: kind (2 bytes), descriptor count (1 byte), body.
pub fn control_message(input: &[u8]) {
    let Some(message) = decode_control_message(input) else {
        return;
    };
    let once = message.encode();
    assert_eq!(once.kind, message.kind());
    let again = Message::decode(once.kind, &once.bytes, once.fds).expect("our own bytes are well-formed");
    assert_eq!(again.encode().bytes, once.bytes);
}

/// The message that an input of [`control_message`] is.
pub fn decode_control_message(input: &[u8]) -> Option<Message> {
    let [low, high, fd_count, body @ ..] = input else {
        return None;
    };
    let fds = (0..fd_count % 20).map(|_| descriptor()).collect();
    Message::decode(u16::from_le_bytes([*low, *high]), body, fds).ok()
}

/// Something to be sent along.
pub(crate) fn descriptor() -> Arc<OwnedFd> {
    static NULL: OnceLock<Arc<OwnedFd>> = OnceLock::new();
    let open = || {
        Arc::new(OwnedFd::from(
            File::open("/dev/null").expect("every system has one"),
        ))
    };
    NULL.get_or_init(open).clone()
}
