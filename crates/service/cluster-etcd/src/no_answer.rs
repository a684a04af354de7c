//! [`NoAnswer`]: why there is none.

use std::fmt;

/// etcd has not answered, or cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NoAnswer {
    /// Who has to do something about it.
    pub kind: NoAnswerKind,
    /// What the client of etcd says of the last failure; whom etcd refuses, and why; or the endpoint, and what is wrong with TLS there.
    pub why: String,
}

/// Kinds of [`NoAnswer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NoAnswerKind {
    /// It may answer later.
    #[default]
    Silent,
    /// It refuses this client: wrong user or password, or no right to the keys.
    User,
    /// No TLS with it: one end does not speak it, or does not accept the other's certificate.
    Tls,
}

impl NoAnswer {
    /// Whether it is of no use to wait: somebody has to change a password, a right, a certificate or the URL.
    pub fn is_final(&self) -> bool {
        self.kind != NoAnswerKind::Silent
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_happened = match self.kind {
            NoAnswerKind::Silent => "does not answer:",
            NoAnswerKind::User => "refuses",
            NoAnswerKind::Tls => "at",
        };
        write!(f, "etcd {has_happened} {}", self.why)
    }
}

impl std::error::Error for NoAnswer {}
