//! The control channel: one reliable byte stream per client for everything but the data path (identification, exchange
//! of memory, liveness), and what both ends do with it.
//!
//! - [`ControlAddr`], [`ControlListener`], [`ControlStream`]: addresses, listeners, streams of frames with descriptors.
//! - [`acceptor`]: the event loop of a server's control thread.
//! - [`Link`]: a client's session over a control channel, re-established whenever it is lost; [`Dial`] makes its
//!   connection attempts.
//! - [`service`]: how a client learns what a server is, and selects a shard.
//! - [`exchange`]: connects the two ends of a queue pair.
//! - [`auth`]: how a guarded server and its clients prove to each other who they are.
//!
//! ```text
//! ControlAddr -connect-> ControlStream <== frames, descriptors, heartbeats ==> ControlStream <-accept- ControlListener
//! ```
//!
//! A frame is a 16-byte header and a body of at most 64 KiB:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | magic | `DRVC` |
//! | 4 | 2 | version | [`VERSION`]; another version ends the connection with an error |
//! | 6 | 2 | kind | below [`kind::APPLICATION`]: reserved for the channel itself |
//! | 8 | 4 | body length | bytes, at most [`BODY_BYTES_MAX`] |
//! | 12 | 2 | descriptors | number of descriptors sent with this frame, at most [`FDS_MAX`] |
//! | 14 | 2 | reserved | 0 |
//!
//! All fields are little-endian, written by the sender. Descriptors are sent with the first byte of the frame (Unix
//! sockets and in-memory pairs only) and arrive with the close-on-exec flag set.
//!
//! **TLS.** A TCP listener [may speak TLS](ControlListener::with_tls), and an address [may ask for
//! it](ControlAddr::with_tls). The handshake goes on whenever [`recv`](ControlStream::recv) is called; frames wait for its
//! end. Frames, heartbeats and [`auth`] are the same inside.
//!
//! **Liveness.** An end that has sent nothing for a second sends a ping. An end that receives nothing in three checks,
//! a second apart, declares the other dead. It counts its own checks, not elapsed time, so a process that was stopped
//! for a while does not declare its peer dead when it resumes. The death of a peer process is noticed at once, because
//! the system closes its socket.
//!
//! **Hostile peers.** Received data is not trusted: lengths are checked before memory is allocated, a peer that never
//! reads is disconnected when the queue of frames for it is full, and surplus descriptors are closed.
//!
//! Two ends of a connection, and a WRITE from one to the other:
//! ```
//! use drover_control::exchange::ends;
//! use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
//! use drover_verbs::*;
//!
//! let (mut here, there) = ends::<Loopback>(&LoopbackDevice::new(), QpKind::Rc)?;
//! let memory = there.ctx.alloc(4096, drover_mem::PageWish::Small)?;
//! let mr = there.ctx.register(&memory, Access::REMOTE_WRITE)?;
//! let remote = here.ctx.import_region(&mr.export(&[])?)?;
//! let mut list = SendList::default();
//! let payload = list.inline(b"hello");
//! list.push(SendWr::write(remote.at(0), payload).signaled(WrId(1)));
//! here.qp.post_send(here.ctx.cpu(), &list)?;
//! # let mut bytes = [0; 5];
//! # memory.copy_out(0, &mut bytes);
//! # assert_eq!(&bytes, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod acceptor;
mod access;
mod addr;
pub mod auth;
mod bind;
mod codec;
mod connect;
mod dial;
mod entrance;
mod error;
pub mod exchange;
mod field;
mod frame;
mod heartbeat;
mod keeper;
mod link;
mod local_listener;
mod memory;
mod outbound;
mod peer;
mod peer_name;
mod runtime_dir;
pub mod service;
mod socket;
mod stream;
mod strings;
mod tls;

pub use access::SocketAccess;
pub use addr::{AddrError, ControlAddr, Endpoint, Scheme};
pub use auth::{Credentials, CredentialsError, Guard, Users, fuzz_handshake};
pub use bind::{ControlListener, ListenError};
pub use codec::{DecodeError, EncodeError, Message, Reader, Writer};
pub use dial::{ATTEMPT_MAX, Dial};
pub use drover_tls::{TlsAcceptor, TlsClientOptions, TlsConnector, TlsError, TlsOptions};
pub use error::{ControlError, DialError};
pub use field::Field;
pub use frame::{
    BODY_BYTES_MAX, FDS_MAX, Frame, FrameError, FrameReader, HEADER_BYTES, Header, MAGIC, VERSION,
    fuzz_frames, kind, refusal,
};
pub use heartbeat::{BEAT_EVERY, MISSED_MAX};
pub use keeper::Keeper;
pub use link::{Handshake, Link, LinkEvent, LinkOptions, Loss, Taken};
pub use local_listener::LocalListener;
pub use peer::Peer;
pub use peer_name::PeerName;
pub use runtime_dir::runtime_dir;
pub use socket::PeerCred;
pub(crate) use socket::timespec;
pub use stream::ControlStream;
pub use strings::{Bytes, ShortBytes, ShortText, Text};
