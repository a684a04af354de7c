//! The control channel: one reliable byte stream per client, for everything that is not the data path (who am
//! I, where is your memory, are you alive).
//!
//! ```text
//!   ControlAddr --connect--> ControlStream <== frames, descriptors, heartbeats ==> ControlStream <--accept-- ControlListener
//! ```
//!
//! A frame is a 16-byte header and a body of at most 64 KiB:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | magic | `DRVC` |
//! | 4 | 2 | version | [`VERSION`]; another one ends the connection with a clear error |
//! | 6 | 2 | kind | below [`kind::APPLICATION`]: the channel's own |
//! | 8 | 4 | body length | bytes, at most [`BODY_BYTES_MAX`] |
//! | 12 | 2 | descriptors | how many came with this frame, at most [`FDS_MAX`] |
//! | 14 | 2 | reserved | 0 |
//!
//! All fields are little-endian, written by the sender. Descriptors travel beside the first byte of the
//! frame (Unix sockets and in-memory pairs only) and arrive with the close-on-exec flag set.
//!
//! **Liveness.** An end that has sent nothing for a second sends a ping. One that has looked three times, a
//! second apart, and heard nothing declares the other dead. We count our own looks, not elapsed time, so a
//! process that was stopped for a while does not condemn its peer when it wakes up. A peer that dies is
//! noticed at once: its socket is closed by the system.
//!
//! **Hostile peers.** Nothing that arrives is trusted: lengths are checked before memory is taken, a peer
//! that never reads is cut off when its queue is full, and surplus descriptors are closed.

mod addr;
mod bind;
mod codec;
mod dial;
mod error;
mod frame;
mod heartbeat;
mod keeper;
mod local_listener;
mod memory;
mod outbound;
mod runtime_dir;
pub mod service;
mod socket;
mod stream;

pub use addr::{AddrError, ControlAddr, Endpoint, Scheme};
pub use bind::{ControlListener, ListenError};
pub use codec::{DecodeError, EncodeError, Message, Reader, Writer};
pub use dial::{ATTEMPT_MAX, Dial};
pub use error::{ControlError, DialError};
pub use frame::{
    BODY_BYTES_MAX, FDS_MAX, Frame, FrameError, FrameReader, HEADER_BYTES, Header, MAGIC, VERSION,
    fuzz_frames, kind, refusal,
};
pub use heartbeat::{BEAT_EVERY, Heartbeat, MISSED_MAX};
pub use keeper::Keeper;
pub use local_listener::LocalListener;
pub use runtime_dir::runtime_dir;
pub use socket::PeerCred;
pub(crate) use socket::timespec;
pub use stream::ControlStream;
