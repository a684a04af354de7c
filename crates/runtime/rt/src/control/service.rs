//! What every service says of itself, whatever its system: who it is, which of its shards a client wants, what it did.
//!
//! ```text
//! client: ServiceQuery ----------------------->
//!         <------------- ServiceInfo       which system, how many shards; the client then leaves, or goes on
//! client: SelectShard{shard} ------------------>  and from the next frame on the channel is that shard's
//! client: StatsQuery ---------------------->
//!         <------------------- StatsReply      lines `name value`
//! ```
//! One address is enough for a service of many shards: whoever listens there reads the one frame before the shard's own
//! protocol begins, and passes the channel on. A service of one listener that needs no such thing answers an
//! [`ServiceQuery`] with `shard_count` 0.

use super::{
    ControlAddr, ControlError, ControlStream, DecodeError, Dial, DialError, Message, Reader, Writer, kind,
};
use drover_base::{Cpu, Ns};

/// Longest name of a system, bytes.
pub const SYSTEM_BYTES_MAX: usize = 16;

/// Longest [`StatsReply`], bytes.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// "Who are you?"
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceQuery;

/// Who the service is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceInfo {
    /// Its system: `herd`, `pilaf`. At most [`SYSTEM_BYTES_MAX`] bytes.
    pub system: String,
    /// Shards behind this address, each of which wants a [`SelectShard`]; 0: the channel is the server's as it is.
    pub shard_count: u16,
}

/// "I want to speak to this shard."
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelectShard {
    /// Which.
    pub shard: u16,
}

/// "What have you done?"
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatsQuery;

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatsReply {
    /// Lines `name value`, at most 32 KiB.
    pub text: String,
}

impl Message for ServiceQuery {
    const KIND: u16 = kind::ENQUIRY;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Result<ServiceQuery, DecodeError> {
        Ok(ServiceQuery)
    }
}

impl Message for ServiceInfo {
    const KIND: u16 = kind::ANNOUNCEMENT;

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
    const KIND: u16 = kind::VISIT;

    fn encode(&self, to: &mut Writer) {
        to.u16(self.shard);
    }

    fn decode(from: &mut Reader<'_>) -> Result<SelectShard, DecodeError> {
        Ok(SelectShard { shard: from.u16()? })
    }
}

impl Message for StatsQuery {
    const KIND: u16 = kind::QUESTION;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Result<StatsQuery, DecodeError> {
        Ok(StatsQuery)
    }
}

impl Message for StatsReply {
    const KIND: u16 = kind::FIGURES;

    fn encode(&self, to: &mut Writer) {
        to.bytes(self.text.as_bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Result<StatsReply, DecodeError> {
        let text = text(from.bytes("length of a text", TEXT_BYTES_MAX)?);
        Ok(StatsReply { text })
    }
}

/// What a peer says, fit to be printed.
fn text(bytes: &[u8]) -> String {
    let printable = |c: char| if c.is_control() && c != '\n' { '?' } else { c };
    String::from_utf8_lossy(bytes).chars().map(printable).collect()
}

/// A service could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nobody there.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The channel ended, or no answer came in time.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Something else came.
    #[error("the server answered something else: {0}")]
    Answer(#[from] DecodeError),
}

/// Says `question` and waits for the answer, at most `timeout`.
///
/// # Errors
/// No answer, or another one.
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
    /// Shard `shard` of the service at `addr`. An attempt blocks for a second at most.
    pub fn to_shard(addr: ControlAddr, shard: u16) -> Dial {
        let mut dial = Dial::to(addr);
        Dial::new(move || {
            let mut stream = dial.attempt()?;
            // A channel that has broken already says so when it is read.
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
