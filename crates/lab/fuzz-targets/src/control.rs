//! What anybody may type as an address, or send to a listening control channel.

use crate::herd::descriptor;
use drover_control::{ControlAddr, Frame, Message, Writer, fuzz_frames};

/// Any text is an address or a clear error; an address prints as it was written.
pub fn address(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    match text.parse::<ControlAddr>() {
        Ok(addr) => assert_eq!(addr.to_string(), text),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A frame with `body` and so many descriptors is a message, or refused; what was decoded, encodes to the same bytes, or with
/// several descriptors to as many. Whether it was understood.
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

/// Any byte stream is cut into frames or refused, however it is chopped.
pub fn frame(input: &[u8]) {
    fuzz_frames(input);
}
