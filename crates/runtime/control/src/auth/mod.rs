//! Challenge and response over the control channel: a listener that is [guarded](Guard) lets in the users of a file, and
//! each end proves to the other that it knows the user's secret, which is never sent.
//!
//! ```text
//! client: AUTH_HELLO      user, nonce of the client ---->
//!         <---------------------- nonce of the server     AUTH_CHALLENGE
//! client: AUTH_PROOF      HMAC of "client" ------------->
//!         <---------------------------- HMAC of "server"  AUTH_ACCEPT
//! ```
//!
//! Both HMACs (SHA-256) are keyed with the secret and cover the name of the protocol, the prover's role, both nonces and
//! the user. A nonce is 32 random bytes that are used once, so a replayed message proves nothing; the role in the HMAC
//! keeps one end from returning the other's proof. Frames of the application wait at each end until the other has
//! proved itself. What follows is neither encrypted nor signed: that is the network's business, or TLS's. Over TLS the
//! HMACs also cover the channel's binding [RFC9266], so somebody who ends the TLS of both ends cannot pass them on.

mod guard;
mod handshake;

pub(crate) use guard::Caller;
pub use guard::{Guard, Users};
pub use handshake::fuzz_handshake;
pub(crate) use handshake::{Gate, Prover, Step};

use std::fmt;

/// Longest name of a user, bytes.
pub const USER_BYTES_MAX: usize = 256;
/// Longest secret, bytes.
pub const SECRET_BYTES_MAX: usize = 64 << 10;

/// A user and its secret. `Debug` does not print the secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    user: Vec<u8>,
    secret: Vec<u8>,
}

/// Errors of parsing [`Credentials`]; none of them shows the secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// There is no colon, or nothing before it.
    #[error("expected user:password")]
    Format,
    /// The name of the user is too long.
    #[error("a user of {bytes} bytes, at most {USER_BYTES_MAX} are allowed")]
    UserTooLong {
        /// Length of the name, bytes.
        bytes: usize,
    },
    /// The secret is empty.
    #[error("the password is empty")]
    Empty,
    /// The secret is too long.
    #[error("a password of {bytes} bytes, at most {SECRET_BYTES_MAX} are allowed")]
    TooLong {
        /// Length of the secret, bytes.
        bytes: usize,
    },
}

impl Credentials {
    /// Creates the credentials of `user`, whose secret is `secret`.
    ///
    /// # Errors
    /// [`CredentialsError`] if one of them is empty or too long.
    pub fn new(user: &[u8], secret: &[u8]) -> Result<Credentials, CredentialsError> {
        match (user.len(), secret.len()) {
            (0, _) => Err(CredentialsError::Format),
            (bytes, _) if bytes > USER_BYTES_MAX => Err(CredentialsError::UserTooLong { bytes }),
            (_, 0) => Err(CredentialsError::Empty),
            (_, bytes) if bytes > SECRET_BYTES_MAX => Err(CredentialsError::TooLong { bytes }),
            _ => Ok(Credentials {
                user: user.to_vec(),
                secret: secret.to_vec(),
            }),
        }
    }

    /// Parses `user:password`. The password may contain colons.
    ///
    /// # Errors
    /// As [`new`](Credentials::new), or there is no colon.
    pub fn parse(text: &[u8]) -> Result<Credentials, CredentialsError> {
        let colon = text.iter().position(|byte| *byte == b':');
        let colon = colon.ok_or(CredentialsError::Format)?;
        Credentials::new(&text[..colon], &text[colon + 1..])
    }

    /// Name of the user.
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// The secret.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.user.escape_ascii())
    }
}

/// A listener for one user.
impl Users for Credentials {
    fn each_secret(&self, user: &[u8], found: &mut dyn FnMut(&[u8])) {
        if user == self.user {
            found(&self.secret);
        }
    }
}

#[cfg(test)]
mod tests;
