//! What anybody may type as an address, or send to a listening control channel.

use drover_rt::control::{ControlAddr, fuzz_frames};

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

/// Any byte stream is cut into frames or refused, however it is chopped.
pub fn frame(input: &[u8]) {
    fuzz_frames(input);
}
