//! Both ends of the handshake, without I/O: bytes in, bytes out.
//!
//! ```text
//!   client -- hello: versions, names, target, a nonce ----> server
//!   client <- challenge: a refusal, or a nonce and proof -- server
//!   client -- proof --------------------------------------> server
//!   client <- verdict: a refusal, or the link is open ----- server
//! ```
//! A proof is the HMAC-SHA-256, with the service's secret, of a role, the hello and the server's nonce: it is good for one
//! link, one target and one end. The secret has 32 random bytes, so guessing it from proofs is not possible.
//!
//! Hello:
//!
//! | offset | size | field | |
//! |---|---|---|---|
//! | 0 | 8 | magic | `drvrlink` |
//! | 8 | 2 | version | 1, little-endian |
//! | 10 | 2 | target | index of a core, for requests; 0x8000 + index: for copies; 0xffff: the control thread; little-endian |
//! | 12 | 32 | nonce | random |
//! | 44 | 64 | service | name, zero-padded |
//! | 108 | 64 | from | name of the member that connects, zero-padded |
//! | 172 | 64 | to | name of the member that it means to reach, zero-padded |
//!
//! Challenge:
//!
//! | offset | size | field | |
//! |---|---|---|---|
//! | 0 | 1 | refusal | 0: none; else its [number](Refusal::number), and the rest means nothing |
//! | 1 | 32 | nonce | random |
//! | 33 | 32 | proof | the server's |
//!
//! A proof is 32 bytes, a verdict one: as `refusal`.

use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use std::fmt;

/// Maximum length of the names of services and members, bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Length of a service's secret, bytes.
pub const SECRET_BYTES: usize = 32;

const MAGIC: &[u8; 8] = b"drvrlink";
const VERSION: u16 = 1;
const NONCE_BYTES: usize = 32;
pub(crate) const PROOF_BYTES: usize = 32;
const NAMES_AT: usize = 12 + NONCE_BYTES;
pub(crate) const HELLO_BYTES: usize = NAMES_AT + 3 * NAME_BYTES_MAX;
pub(crate) const CHALLENGE_BYTES: usize = 1 + NONCE_BYTES + PROOF_BYTES;
/// Target of links to a control thread.
const CONTROL: u16 = u16::MAX;
/// In the target of links for copies, beside the index of a core.
const COPIES: u16 = 0x8000;
/// What every proof covers first: other protocols with the same secret have other proofs.
const PROTOCOL: &[u8] = b"drover links between members, HMAC-SHA-256, version 1";
const CLIENT: u8 = b'c';
const SERVER: u8 = b's';

/// A member, as it proves itself to others of its service.
#[derive(Clone)]
pub struct MemberIdentity {
    /// Name of the service, at most [`NAME_BYTES_MAX`] bytes.
    pub service: String,
    /// Name of the member, at most [`NAME_BYTES_MAX`] bytes.
    pub member: String,
    /// Secret of the service, which all its members know.
    pub secret: [u8; SECRET_BYTES],
}

impl fmt::Debug for MemberIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberIdentity")
            .field("service", &self.service)
            .field("member", &self.member)
            .finish_non_exhaustive()
    }
}

/// The part of a member that a link reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkTarget {
    /// The core with this index, for requests.
    Core(u16),
    /// The core with this index, for copies of items: what it serves also while its ordinary links wait.
    Copies(u16),
    /// The control thread.
    Control,
}

impl LinkTarget {
    fn to_number(self) -> u16 {
        match self {
            LinkTarget::Core(index) => index,
            LinkTarget::Copies(index) => COPIES | index,
            LinkTarget::Control => CONTROL,
        }
    }

    fn of_number(number: u16) -> LinkTarget {
        match number {
            CONTROL => LinkTarget::Control,
            index if index & COPIES != 0 => LinkTarget::Copies(index & !COPIES),
            index => LinkTarget::Core(index),
        }
    }
}

/// Reason why an end of a handshake does not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The bytes are no handshake of links.
    #[error("the peer does not speak drover's protocol between members")]
    Malformed,
    /// The two ends speak different versions.
    #[error("the peer speaks another version of the protocol between members")]
    Version,
    /// The server belongs to another service.
    #[error("the peer belongs to another service")]
    Service,
    /// The server is not the member that the client means.
    #[error("the peer is another member than the one at this address before")]
    Member,
    /// The server has no such core.
    #[error("the peer has no such core")]
    Target,
    /// The server has as many links from this client as it admits.
    #[error("the peer has too many links from this member")]
    TooMany,
    /// One end does not know the secret.
    #[error("the secrets of the two members differ")]
    Secret,
}

impl Refusal {
    const ALL: [Refusal; 7] = [
        Refusal::Malformed,
        Refusal::Version,
        Refusal::Service,
        Refusal::Member,
        Refusal::Target,
        Refusal::TooMany,
        Refusal::Secret,
    ];

    /// Its number on the wire, from 1.
    pub(crate) fn number(self) -> u8 {
        1 + Refusal::ALL
            .iter()
            .position(|&other| other == self)
            .expect("all are listed") as u8
    }

    /// What a first byte of a challenge or a verdict says.
    fn check(number: u8) -> Result<(), Refusal> {
        match number {
            0 => Ok(()),
            number => Err(*Refusal::ALL
                .get(usize::from(number) - 1)
                .unwrap_or(&Refusal::Malformed)),
        }
    }
}

fn nonce() -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    for part in nonce.chunks_exact_mut(8) {
        part.copy_from_slice(&drover_mem::entropy().to_le_bytes());
    }
    nonce
}

/// What a proof of `role` covers.
fn transcript(role: u8, hello: &[u8], server_nonce: &[u8]) -> Vec<u8> {
    // All parts have fixed lengths, so no two transcripts give the same bytes.
    [PROTOCOL, &[role], hello, server_nonce].concat()
}

/// A name as it stands in a hello. Longer ones are cut: the names do not match then, and the proofs do.
fn padded(name: &str) -> [u8; NAME_BYTES_MAX] {
    let mut padded = [0; NAME_BYTES_MAX];
    let len = name.len().min(NAME_BYTES_MAX);
    padded[..len].copy_from_slice(&name.as_bytes()[..len]);
    padded
}

/// The client's end.
pub(crate) struct Prover {
    key: Key,
    hello: [u8; HELLO_BYTES],
}

impl Prover {
    /// Begins a handshake with the member `to`.
    pub(crate) fn new(identity: &MemberIdentity, to: &str, target: LinkTarget) -> Prover {
        let mut hello = [0; HELLO_BYTES];
        hello[..8].copy_from_slice(MAGIC);
        hello[8..10].copy_from_slice(&VERSION.to_le_bytes());
        hello[10..12].copy_from_slice(&target.to_number().to_le_bytes());
        hello[12..NAMES_AT].copy_from_slice(&nonce());
        let names = hello[NAMES_AT..].chunks_exact_mut(NAME_BYTES_MAX);
        for (place, name) in names.zip([&identity.service, &identity.member, to]) {
            place.copy_from_slice(&padded(name));
        }
        Prover {
            key: Key::new(HMAC_SHA256, &identity.secret),
            hello,
        }
    }

    /// What to send first.
    pub(crate) fn hello(&self) -> &[u8; HELLO_BYTES] {
        &self.hello
    }

    /// Takes the server's challenge and returns the proof to send.
    pub(crate) fn prove(&self, challenge: &[u8; CHALLENGE_BYTES]) -> Result<[u8; PROOF_BYTES], Refusal> {
        Refusal::check(challenge[0])?;
        let (nonce, proof) = challenge[1..].split_at(NONCE_BYTES);
        verify(&self.key, &transcript(SERVER, &self.hello, nonce), proof).map_err(|_| Refusal::Secret)?;
        let own = sign(&self.key, &transcript(CLIENT, &self.hello, nonce));
        Ok(own.as_ref().try_into().expect("HMAC-SHA-256 has 32 bytes"))
    }

    /// Takes the server's verdict.
    pub(crate) fn opened(verdict: u8) -> Result<(), Refusal> {
        Refusal::check(verdict)
    }
}

/// The server's end, after a hello that it does not refuse.
pub(crate) struct Verifier {
    key: Key,
    hello: [u8; HELLO_BYTES],
    nonce: [u8; NONCE_BYTES],
    /// Name of the member that connects, as it says.
    pub(crate) from: String,
    /// What it wants to reach.
    pub(crate) target: LinkTarget,
}

impl Verifier {
    /// Takes a hello to the member `identity`.
    pub(crate) fn new(identity: &MemberIdentity, hello: &[u8; HELLO_BYTES]) -> Result<Verifier, Refusal> {
        let number = |at: usize| u16::from_le_bytes([hello[at], hello[at + 1]]);
        let name = |index: usize| &hello[NAMES_AT + index * NAME_BYTES_MAX..][..NAME_BYTES_MAX];
        let is = |index: usize, expected: &str| name(index) == padded(expected);
        let from = std::str::from_utf8(name(1)).map(|name| name.trim_end_matches('\0'));
        let from = match from {
            Ok(from) if hello.starts_with(MAGIC) && !from.chars().any(char::is_control) => from,
            _ => return Err(Refusal::Malformed),
        };
        if number(8) != VERSION {
            return Err(Refusal::Version);
        }
        if !is(0, &identity.service) {
            return Err(Refusal::Service);
        }
        if !is(2, &identity.member) {
            return Err(Refusal::Member);
        }
        Ok(Verifier {
            key: Key::new(HMAC_SHA256, &identity.secret),
            hello: *hello,
            nonce: nonce(),
            from: from.to_owned(),
            target: LinkTarget::of_number(number(10)),
        })
    }

    /// The challenge to send.
    pub(crate) fn challenge(&self) -> [u8; CHALLENGE_BYTES] {
        let mut challenge = [0; CHALLENGE_BYTES];
        let proof = sign(&self.key, &transcript(SERVER, &self.hello, &self.nonce));
        challenge[1..1 + NONCE_BYTES].copy_from_slice(&self.nonce);
        challenge[1 + NONCE_BYTES..].copy_from_slice(proof.as_ref());
        challenge
    }

    /// Takes the client's proof.
    pub(crate) fn verify(&self, proof: &[u8]) -> Result<(), Refusal> {
        let covered = transcript(CLIENT, &self.hello, &self.nonce);
        verify(&self.key, &covered, proof).map_err(|_| Refusal::Secret)
    }
}

/// The challenge that refuses.
pub(crate) fn refusing(refusal: Refusal) -> [u8; CHALLENGE_BYTES] {
    let mut challenge = [0; CHALLENGE_BYTES];
    challenge[0] = refusal.number();
    challenge
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(service: &str, member: &str, secret: u8) -> MemberIdentity {
        MemberIdentity {
            service: service.into(),
            member: member.into(),
            secret: [secret; SECRET_BYTES],
        }
    }

    /// Plays a handshake whose bytes `spoil` may change: stage 0 is the hello, 1 the challenge, 2 the proof.
    fn played(
        client: &MemberIdentity,
        to: &str,
        server: &MemberIdentity,
        mut spoil: impl FnMut(usize, &mut [u8]),
    ) -> Result<Verifier, Refusal> {
        let prover = Prover::new(client, to, LinkTarget::Core(3));
        let mut hello = *prover.hello();
        spoil(0, &mut hello);
        let verifier = Verifier::new(server, &hello)?;
        let mut challenge = verifier.challenge();
        spoil(1, &mut challenge);
        let mut proof = prover.prove(&challenge)?;
        spoil(2, &mut proof);
        verifier.verify(&proof)?;
        Ok(verifier)
    }

    #[test]
    fn members_with_one_secret_let_each_other_in() {
        let (a, b) = (identity("s", "a", 1), identity("s", "b", 1));
        let verifier = played(&a, "b", &b, |_, _| {}).expect("it is let in");
        assert_eq!(
            (verifier.from.as_str(), verifier.target),
            ("a", LinkTarget::Core(3))
        );
    }

    #[test]
    fn targets_keep_their_numbers() {
        let targets = [
            LinkTarget::Core(0),
            LinkTarget::Core(77),
            LinkTarget::Copies(0),
            LinkTarget::Copies(77),
            LinkTarget::Control,
        ];
        for target in targets {
            assert_eq!(LinkTarget::of_number(target.to_number()), target);
        }
        assert_eq!(LinkTarget::Copies(1).to_number(), 0x8001);
    }

    #[test]
    fn others_are_refused_for_their_reason() {
        let (a, b) = (identity("s", "a", 1), identity("s", "b", 1));
        let refused = |client: &MemberIdentity, to: &str| played(client, to, &b, |_, _| {}).err();
        assert_eq!(refused(&identity("s", "a", 2), "b"), Some(Refusal::Secret));
        assert_eq!(refused(&identity("t", "a", 1), "b"), Some(Refusal::Service));
        assert_eq!(refused(&a, "c"), Some(Refusal::Member));
        assert_eq!(refused(&a, "b\0"), None, "names are compared as padded");
        let version = played(&a, "b", &b, |stage, bytes| {
            if stage == 0 {
                bytes[8] += 1;
            }
        });
        assert_eq!(version.err(), Some(Refusal::Version));
    }

    #[test]
    fn any_changed_bit_is_noticed() {
        let (a, b) = (identity("s", "a", 1), identity("s", "b", 1));
        for (stage, len) in [(0, HELLO_BYTES), (1, CHALLENGE_BYTES), (2, PROOF_BYTES)] {
            for at in 0..len {
                let done = played(&a, "b", &b, |now, bytes| {
                    if now == stage {
                        bytes[at] ^= 1;
                    }
                });
                assert!(done.is_err(), "byte {at} of stage {stage}");
            }
        }
    }

    #[test]
    fn refusals_keep_their_numbers() {
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::check(refusal.number()), Err(refusal));
            let prover = Prover::new(&identity("s", "a", 1), "b", LinkTarget::Control);
            assert_eq!(prover.prove(&refusing(refusal)), Err(refusal));
        }
        assert_eq!(Refusal::check(200), Err(Refusal::Malformed));
    }
}
