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

use super::{
    ControlAddr, ControlError, ControlStream, DecodeError, Dial, DialError, Message, Reader, Writer, kind,
};
use drover_base::{Cpu, Ns};

/// Longest name of a system in a [`ServiceInfo`], bytes.
pub const SYSTEM_BYTES_MAX: usize = 16;

/// Longest [`StatsReply`], bytes.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// Asks a service for its [`ServiceInfo`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceQuery;

/// System and number of shards of a service: the answer to a [`ServiceQuery`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceInfo {
    /// Name of the service's system, such as `herd`. At most [`SYSTEM_BYTES_MAX`] bytes.
    pub system: String,
    /// Number of shards behind the address, one of which the client selects with [`SelectShard`]. 0 if there is nothing
    /// to select: the channel then belongs to the only server from its first frame.
    pub shard_count: u16,
}

/// Selects the shard that the channel is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelectShard {
    /// Index of the shard, from 0.
    pub shard: u16,
}

/// Asks a service for its [`StatsReply`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatsQuery;

/// Statistics of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatsReply {
    /// Lines `name value`, at most 32 KiB.
    pub text: String,
}

impl Message for ServiceQuery {
    const KIND: u16 = kind::SERVICE_QUERY;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Result<ServiceQuery, DecodeError> {
        Ok(ServiceQuery)
    }
}

impl Message for ServiceInfo {
    const KIND: u16 = kind::SERVICE_INFO;

    fn encode(&self, to: &mut Writer) {
        to.bytes(self.system.as_bytes()).u16(self.shard_count);
    }

    fn decode(from: &mut Reader<'_>) -> Result<ServiceInfo, DecodeError> {
        let system = text(from.bytes("length of a system's name", SYSTEM_BYTES_MAX)?);
        let shard_count = from.u16()?;
        Ok(ServiceInfo { system, shard_count })
    }
}

impl Message for SelectShard {
    const KIND: u16 = kind::SELECT_SHARD;

    fn encode(&self, to: &mut Writer) {
        to.u16(self.shard);
    }

    fn decode(from: &mut Reader<'_>) -> Result<SelectShard, DecodeError> {
        Ok(SelectShard { shard: from.u16()? })
    }
}

impl Message for StatsQuery {
    const KIND: u16 = kind::STATS_QUERY;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Result<StatsQuery, DecodeError> {
        Ok(StatsQuery)
    }
}

impl Message for StatsReply {
    const KIND: u16 = kind::STATS_REPLY;

    fn encode(&self, to: &mut Writer) {
        to.bytes(self.text.as_bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Result<StatsReply, DecodeError> {
        let text = text(from.bytes("length of a text", TEXT_BYTES_MAX)?);
        Ok(StatsReply { text })
    }
}

/// A printable form of a peer's text.
fn text(bytes: &[u8]) -> String {
    let printable = |c: char| if c.is_control() && c != '\n' { '?' } else { c };
    String::from_utf8_lossy(bytes).chars().map(printable).collect()
}

/// Errors of asking a service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The server cannot be reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The channel ended, or no answer came in time.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The answer is malformed or of another kind.
    #[error("malformed answer from the server: {0}")]
    Answer(#[from] DecodeError),
}

/// Sends `question` and blocks until the answer arrives, at most `timeout`.
///
/// # Errors
/// [`AskError`] if the channel ends, no answer arrives in time, or the answer is malformed or of another kind.
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
    /// Creates a dialer for shard `shard` of the service at `addr`: like [`Dial::to`], and selects the shard. It
    /// succeeds even if there is no such shard; the service then refuses the channel.
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
        let long = ServiceInfo {
            system: "p".repeat(SYSTEM_BYTES_MAX + 1),
            shard_count: 1,
        };
        assert!(there_and_back(&long).is_err());
    }
}
