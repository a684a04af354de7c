//! Both ends of the handshake, without I/O: frames in, frames out.

use super::{Caller, Credentials, Guard, USER_BYTES_MAX};
use crate::{Bytes, Frame, Message, Peer, ShortBytes, Writer, kind};
use drover_base::Ns;
use drover_tls::CHANNEL_BINDING_BYTES;
use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use std::sync::Arc;

/// Bytes of a nonce.
const NONCE_BYTES: usize = 32;
/// Bytes of a proof: HMAC-SHA-256.
const PROOF_BYTES: usize = 32;
/// Name of the protocol, which every proof covers: other protocols with the same secret have other proofs.
const PROTOCOL: &[u8] = b"drover control channel, HMAC-SHA-256, version 1";
/// Its name where the proofs also cover the channel's binding, which follows. Neither name begins the bytes of the other.
const BOUND_PROTOCOL: &[u8] = b"drover control channel, HMAC-SHA-256, version 1, bound to TLS";
/// Time for the whole handshake, at the server.
const PATIENCE: Ns = Ns::from_s(5);

/// Reasons of a server, which a client reads.
const WRONG: &str = "wrong user or password";
const WHO: &str = "this server lets in the users of a file only: --auth-file FILE, or the environment's \
                   DROVER_AUTH=user:password";
const LATE: &str = "the handshake took too long";
const MALFORMED: &str = "malformed message of the handshake";

type Nonce = [u8; NONCE_BYTES];
/// What names a TLS channel to its two ends.
type Binding = [u8; CHANNEL_BINDING_BYTES];

/// Message that begins the handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
struct AuthHello {
    user: Vec<u8>,
    nonce: Vec<u8>,
}

/// The server's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
struct AuthChallenge {
    nonce: Vec<u8>,
}

/// The client's proof.
#[derive(Clone, PartialEq, Eq, Debug)]
struct AuthProof {
    proof: Vec<u8>,
}

/// The server's proof.
#[derive(Clone, PartialEq, Eq, Debug)]
struct AuthAccept {
    proof: Vec<u8>,
}

crate::message!(kind::AUTH_HELLO => AuthHello { user as ShortBytes<USER_BYTES_MAX>, nonce as Bytes<NONCE_BYTES> });
crate::message!(kind::AUTH_CHALLENGE => AuthChallenge { nonce as Bytes<NONCE_BYTES> });
crate::message!(kind::AUTH_PROOF => AuthProof { proof as Bytes<PROOF_BYTES> });
crate::message!(kind::AUTH_ACCEPT => AuthAccept { proof as Bytes<PROOF_BYTES> });

/// What an end does next.
#[derive(Debug)]
pub(crate) enum Step {
    /// It waits.
    Wait,
    /// It sends this frame, and waits.
    Send(Frame),
    /// It sends this frame, if there is one; the handshake is complete.
    Open(Option<Frame>),
    /// It refuses the other end, for this reason.
    Refuse(&'static str),
}

/// A fresh nonce.
pub(super) fn nonce() -> Nonce {
    let mut nonce = [0; NONCE_BYTES];
    for part in nonce.chunks_exact_mut(8) {
        part.copy_from_slice(&drover_mem::entropy().to_le_bytes());
    }
    nonce
}

fn frame<M: Message>(message: &M) -> Frame {
    let mut to = Writer::new();
    message.encode(&mut to);
    let (body, fds) = to.into_parts();
    let kind = M::KIND;
    Frame { kind, body, fds }
}

/// What both ends know of a handshake, except the secret.
#[derive(Debug)]
struct Transcript {
    user: Vec<u8>,
    client: Nonce,
    server: Nonce,
    /// `None` without TLS.
    binding: Option<Binding>,
}

impl Transcript {
    /// The bytes that the proof of this role covers. The parts of variable length stand last, so no two transcripts
    /// give the same bytes.
    fn bytes(&self, role: u8) -> Vec<u8> {
        let (protocol, binding) = match &self.binding {
            None => (PROTOCOL, &[][..]),
            Some(binding) => (BOUND_PROTOCOL, &binding[..]),
        };
        let role = [role];
        [protocol, &role, binding, &self.client, &self.server, &self.user].concat()
    }

    fn proof(&self, role: u8, secret: &[u8]) -> Vec<u8> {
        let key = Key::new(HMAC_SHA256, secret);
        sign(&key, &self.bytes(role)).as_ref().to_vec()
    }

    /// Takes as long wherever the first difference is.
    fn is_proof(&self, role: u8, secret: &[u8], proof: &[u8]) -> bool {
        let key = Key::new(HMAC_SHA256, secret);
        verify(&key, &self.bytes(role), proof).is_ok()
    }
}

const CLIENT: u8 = b'c';
const SERVER: u8 = b's';

/// A client's end.
#[derive(Debug)]
pub(crate) struct Prover {
    credentials: Arc<Credentials>,
    transcript: Transcript,
    is_challenged: bool,
}

impl Prover {
    /// Begins a handshake with a fresh `nonce`; the frame is to be sent first.
    pub(crate) fn new(credentials: Arc<Credentials>) -> (Prover, Frame) {
        let transcript = Transcript {
            user: credentials.user().to_vec(),
            client: nonce(),
            server: [0; NONCE_BYTES],
            binding: None,
        };
        let hello = frame(&AuthHello {
            user: transcript.user.clone(),
            nonce: transcript.client.to_vec(),
        });
        let prover = Prover {
            credentials,
            transcript,
            is_challenged: false,
        };
        (prover, hello)
    }

    /// Makes later proofs good for the channel of this binding only.
    pub(crate) fn bind(&mut self, binding: Option<Binding>) {
        self.transcript.binding = binding;
    }

    /// Takes a frame of the server.
    pub(crate) fn take(&mut self, got: &Frame) -> Step {
        let secret = self.credentials.secret();
        if !self.is_challenged {
            let nonce = got.decode::<AuthChallenge>().map(|challenge| challenge.nonce);
            let Some(Ok(nonce)) = nonce.ok().map(Nonce::try_from) else {
                return Step::Refuse("the server does not ask for a proof");
            };
            (self.transcript.server, self.is_challenged) = (nonce, true);
            let proof = self.transcript.proof(CLIENT, secret);
            return Step::Send(frame(&AuthProof { proof }));
        }
        match got.decode::<AuthAccept>() {
            Ok(accept) if self.transcript.is_proof(SERVER, secret, &accept.proof) => Step::Open(None),
            _ => Step::Refuse("the server does not prove that it knows the password"),
        }
    }
}

/// A server's end: the way in of one connection.
#[derive(Debug)]
pub(crate) struct Gate {
    guard: Arc<Guard>,
    caller: Caller,
    /// `None` without TLS.
    binding: Option<Binding>,
    /// End of its patience; `None` before the first look.
    deadline: Option<Ns>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing has come.
    New,
    /// The challenge was sent.
    Challenged(Transcript),
    /// The proof is judged at `at`.
    Held {
        transcript: Transcript,
        proof: Vec<u8>,
        at: Ns,
    },
    Over,
}

impl Gate {
    /// A gate for a connection of `peer`.
    pub(crate) fn new(guard: Arc<Guard>, peer: Peer) -> Gate {
        Gate {
            guard,
            caller: Caller::of(peer),
            binding: None,
            deadline: None,
            state: State::New,
        }
    }

    /// Takes proofs only that were made for the channel of this binding.
    pub(crate) fn bind(&mut self, binding: Option<Binding>) {
        self.binding = binding;
    }

    /// Takes a frame of the client.
    pub(crate) fn take(&mut self, got: &Frame, now: Ns) -> Step {
        match std::mem::replace(&mut self.state, State::Over) {
            State::New if got.kind != kind::AUTH_HELLO => Step::Refuse(WHO),
            State::New => {
                let Ok(hello) = got.decode::<AuthHello>() else {
                    return Step::Refuse(MALFORMED);
                };
                let Ok(client) = Nonce::try_from(hello.nonce) else {
                    return Step::Refuse(MALFORMED);
                };
                let transcript = Transcript {
                    user: hello.user,
                    client,
                    server: nonce(),
                    binding: self.binding,
                };
                let challenge = frame(&AuthChallenge {
                    nonce: transcript.server.to_vec(),
                });
                self.state = State::Challenged(transcript);
                Step::Send(challenge)
            }
            State::Challenged(transcript) => {
                let Ok(AuthProof { proof }) = got.decode() else {
                    return Step::Refuse(MALFORMED);
                };
                let at = self.guard.may_try_at(self.caller, now);
                self.state = State::Held {
                    transcript,
                    proof,
                    at,
                };
                self.pass(now)
            }
            State::Held { .. } | State::Over => Step::Refuse(MALFORMED),
        }
    }

    /// Does what is due at `now`.
    pub(crate) fn pass(&mut self, now: Ns) -> Step {
        let deadline = *self.deadline.get_or_insert(now + PATIENCE);
        match &self.state {
            State::Held {
                transcript,
                proof,
                at,
            } if now >= *at => {
                let step = self.judge(transcript, proof, now);
                self.state = State::Over;
                step
            }
            State::Held { .. } => Step::Wait,
            _ if now >= deadline => Step::Refuse(LATE),
            _ => Step::Wait,
        }
    }

    fn judge(&self, transcript: &Transcript, proof: &[u8], now: Ns) -> Step {
        let (mut answer, mut is_user) = (None, false);
        self.guard.each_secret(&transcript.user, &mut |secret| {
            is_user = true;
            if transcript.is_proof(CLIENT, secret, proof) {
                let proof = transcript.proof(SERVER, secret);
                answer = Some(frame(&AuthAccept { proof }));
            }
        });
        if !is_user {
            // The time does not reveal who is a user.
            let _ = transcript.is_proof(CLIENT, b"nobody", proof);
        }
        if answer.is_none() {
            self.guard.failed(self.caller, now);
            return Step::Refuse(WRONG);
        }
        Step::Open(answer)
    }

    /// Time at which [`pass`](Gate::pass) has something to do.
    pub(crate) fn next_look(&self) -> Ns {
        match &self.state {
            State::Held { at, .. } => *at,
            _ => self.deadline.unwrap_or(Ns::ZERO),
        }
    }
}

/// Fuzzing entry: both ends take frames made of `input`; neither may panic, and none may be let in. Input: pieces of 64
/// bytes, each the kind of a frame (1 byte, added to [`kind::AUTH_HELLO`] - 1, modulo 6) and its body.
///
/// # Panics
/// If somebody is let in.
pub fn fuzz_handshake(input: &[u8]) {
    let credentials = Arc::new(Credentials {
        user: b"u".to_vec(),
        secret: b"s".to_vec(),
    });
    let guard = Guard::new(credentials.clone());
    let mut gate = Gate::new(guard, Peer::Unknown);
    let (mut prover, _) = Prover::new(credentials);
    for (index, piece) in input.chunks(64).enumerate() {
        let frame = Frame {
            kind: kind::AUTH_HELLO - 1 + u16::from(piece[0] % 6),
            body: piece[1..].to_vec(),
            fds: Vec::new(),
        };
        let now = Ns::from_s(index as u64);
        for step in [gate.take(&frame, now), gate.pass(now), prover.take(&frame)] {
            assert!(!matches!(step, Step::Open(_)), "let in without the secret");
        }
    }
}
