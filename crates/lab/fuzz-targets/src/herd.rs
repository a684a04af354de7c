//! Arbitrary bytes on the control channel of a HERD server.

use drover_kv_herd::control::Message;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// Checks that any frame is decoded or refused, and that a decoded message encodes to bytes which survive another
/// decoding. Input: kind (2 bytes, little-endian), descriptor count (1 byte, modulo 20), body.
pub fn control_message(input: &[u8]) {
    let Some(message) = decode_control_message(input) else {
        return;
    };
    let once = message.encode();
    assert_eq!(once.kind, message.kind());
    let again = Message::decode(once.kind, &once.body, once.fds).expect("our own bytes are well-formed");
    assert_eq!(again.encode().body, once.body);
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
