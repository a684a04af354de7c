//! Secrets that a server's operator requires of clients.

/// Longest secret, bytes.
pub const SECRET_BYTES_MAX: usize = 256;

/// Whether a client that sends `given` is let in by a server that requires `required`; if `required` is empty, every
/// client is. The time that the comparison takes does not depend on where the two differ.
pub fn is_let_in(required: &[u8], given: &[u8]) -> bool {
    let differs = |diff: u8, (x, y): (&u8, &u8)| diff | (x ^ y);
    required.is_empty() || (required.len() == given.len() && required.iter().zip(given).fold(0, differs) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_are_let_in() {
        assert!(is_let_in(b"secret", b"secret"));
        for wrong in [&b""[..], b"secre", b"secret!", b"Secret", b"secreT"] {
            assert!(!is_let_in(b"secret", wrong), "{wrong:?}");
        }
        assert!(is_let_in(b"", b"") && is_let_in(b"", b"anything"));
    }
}
