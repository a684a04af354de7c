//! Messages that every service understands, whatever its system: identification, selection of a shard, statistics.
//!
//! ```text
//! client: ServiceQuery ----------------------->
//!         <------------- ServiceInfo       system and number of shards; the client then closes, or continues
//! client: SelectShard{shard} ------------------>  from the next frame on, the channel belongs to that shard
//! client: StatsQuery ---------------------->
//!         <------------------- StatsReply      lines `name value`
//! ```
//! One address is enough for a service of many shards: its listener reads one frame before the shard's own protocol
//! begins, and passes the channel on. A service of one listener, which does not need this, answers a [`ServiceQuery`]
//! with `shard_count` 0.

use super::{ControlAddr, ControlError, ControlStream, DecodeError, Dial, DialError, Message, Text, kind};
use drover_base::{Cpu, Ns};

/// Longest name of a system in a [`ServiceInfo`], bytes; a longer one is cut off when it is sent.
pub const SYSTEM_BYTES_MAX: usize = 32;

/// Longest text of a [`StatsReply`], bytes.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// Message by which a client asks a service for its [`ServiceInfo`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceQuery;

/// Message with system and number of shards of a service: the answer to a [`ServiceQuery`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceInfo {
    /// Name of the service's system, such as `herd`. At most [`SYSTEM_BYTES_MAX`] bytes.
    pub system: String,
    /// Number of shards behind the address, one of which the client selects with [`SelectShard`]. 0 if there is nothing
    /// to select: the channel then belongs to the only server from its first frame.
    pub shard_count: u16,
}

/// Message by which a client selects the shard that the channel belongs to from the next frame on. The service refuses
/// the channel if it has no such shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelectShard {
    /// Index of the shard, from 0.
    pub shard: u16,
}

/// Message by which a client asks a service for its [`StatsReply`]; allowed before a shard is selected. A service of
/// HERD that requires a secret answers only in a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatsQuery;

/// Message with statistics of a service: the answer to a [`StatsQuery`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatsReply {
    /// Lines `name value`; cut off after 32 KiB when it is sent.
    pub text: String,
}

crate::message!(kind::SERVICE_QUERY => ServiceQuery {});
crate::message!(kind::SERVICE_INFO => ServiceInfo { system as Text<SYSTEM_BYTES_MAX>, shard_count });
crate::message!(kind::SELECT_SHARD => SelectShard { shard });
crate::message!(kind::STATS_QUERY => StatsQuery {});
crate::message!(kind::STATS_REPLY => StatsReply { text as Text<TEXT_BYTES_MAX> });

/// Errors of connecting to a service and of asking it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The server cannot be reached. [`ask`] does not return this: its caller has connected before.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The question could not be sent, the channel ended, the server refused it, or no answer came in time.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The answer is malformed or of another kind.
    #[error("malformed answer from the server: {0}")]
    Answer(#[from] DecodeError),
}

/// Sends `question` and blocks until the next frame arrives, for at most `timeout`; that frame must be the answer.
///
/// # Errors
/// [`AskError`] if the channel ends, no frame arrives in time, or the frame is malformed or not an `A`.
pub fn ask<A: Message>(
    stream: &mut ControlStream,
    cpu: &impl Cpu,
    question: &impl Message,
    timeout: Ns,
) -> Result<A, AskError> {
    stream.send_message(question)?;
    let frame = stream.recv_until(cpu, cpu.refresh() + timeout)?;
    Ok(frame.decode::<A>()?)
}

impl Dial {
    /// Creates a dialer for shard `shard`, counted from 0, of the service at `addr`: each attempt connects like one of
    /// [`Dial::to`] and sends [`SelectShard`]. An attempt succeeds even if there is no such shard; the service then
    /// refuses the channel.
    pub fn to_shard(addr: ControlAddr, shard: u16) -> Dial {
        let server = format!("{addr}, shard {shard}");
        let mut dial = Dial::to(addr);
        Dial::new(server, move || {
            let mut stream = dial.attempt()?;
            // Reading reports a channel that has already failed.
            let _ = stream.send_message(&SelectShard { shard });
            Ok(stream)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecodeError, Frame, Writer};

    fn there_and_back<M: Message>(message: &M) -> Result<M, DecodeError> {
        let (mut here, mut there) = ControlStream::pair();
        here.send_message(message).expect("space for a frame");
        let frame = there.recv(Ns::ZERO).expect("a whole stream").expect("a frame");
        frame.decode()
    }

    #[test]
    fn what_a_service_says_arrives() {
        let announcement = ServiceInfo {
            system: "pilaf".to_owned(),
            shard_count: 4,
        };
        assert_eq!(there_and_back(&announcement), Ok(announcement));
        assert_eq!(
            there_and_back(&SelectShard { shard: 3 }),
            Ok(SelectShard { shard: 3 })
        );
        assert_eq!(there_and_back(&ServiceQuery), Ok(ServiceQuery));
        assert_eq!(there_and_back(&StatsQuery), Ok(StatsQuery));
        let figures = StatsReply {
            text: "items 3\nbell \u{7}\n".to_owned(),
        };
        let printable = "items 3\nbell ?\n".to_owned();
        assert_eq!(there_and_back(&figures), Ok(StatsReply { text: printable }));
    }

    #[test]
    fn a_name_that_is_too_long_is_no_announcement() {
        let info = |bytes: usize| {
            let mut body = Writer::new();
            body.bytes(&vec![b'p'; bytes]).u16(1);
            let (body, fds) = body.into_parts();
            let kind = ServiceInfo::KIND;
            Frame { kind, body, fds }.decode::<ServiceInfo>()
        };
        assert!(info(SYSTEM_BYTES_MAX).is_ok());
        let error = info(SYSTEM_BYTES_MAX + 1).expect_err("too long");
        assert_eq!(error.to_string(), "length of system cannot be 33");
    }
}
