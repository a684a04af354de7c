//! Arbitrary control addresses, and arbitrary bytes on a control channel.

use crate::herd::descriptor;
use drover_control::{ControlAddr, Frame, Message, Writer, fuzz_frames, fuzz_handshake};

/// Checks that any text is a [`ControlAddr`] or an error with a message, and that an address prints as it was written.
/// Input that is not UTF-8 is ignored.
pub fn address(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    match text.parse::<ControlAddr>() {
        Ok(addr) => assert_eq!(addr.to_string(), text),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Decodes a frame of kind `M::KIND` with `body` and `fd_count % 20` descriptors, and returns whether it is a valid
/// `M`.
///
/// # Panics
/// If the decoded message does not encode to `body` again (with two or more descriptors: to bytes of the same length).
pub fn again<M: Message>(body: &[u8], fd_count: u8) -> bool {
    let frame = Frame {
        kind: M::KIND,
        body: body.to_vec(),
        fds: (0..fd_count % 20).map(|_| descriptor()).collect(),
    };
    let Ok(message) = frame.decode::<M>() else {
        return false;
    };
    let mut writer = Writer::new();
    message.encode(&mut writer);
    let (bytes, _) = writer.finish().expect("no longer than what was read");
    // Of several descriptors the same one may be named by another number.
    match fd_count % 20 {
        0 | 1 => assert_eq!(bytes, body),
        _ => assert_eq!(bytes.len(), body.len()),
    }
    true
}

/// Checks that any byte stream is cut into valid frames or refused, and that no frames made of it pass for a client or
/// server with a secret. Input: the size of the pieces that arrive, minus 1 (1 byte), then the stream.
pub fn frame(input: &[u8]) {
    fuzz_frames(input);
    fuzz_handshake(input);
}
