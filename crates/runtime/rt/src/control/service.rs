//! What every service says of itself, whatever its system: who it is, which of its shards a client wants, what it did.
//!
//! ```text
//! client: Enquiry ----------------------->
//!         <------------- Announcement       which system, how many shards; the client then leaves, or goes on
//! client: Visit{shard} ------------------>  and from the next frame on the channel is that shard's
//! client: Question ---------------------->
//!         <------------------- Figures      lines `name value`
//! ```
//! One address is enough for a service of many shards: whoever listens there reads the one frame before the shard's own
//! protocol begins, and passes the channel on. A service of one listener that needs no such thing answers an
//! [`Enquiry`] with `shard_count` 0.

use super::{
    ControlAddr, ControlError, ControlStream, DecodeError, Dial, DialError, Message, Reader, Writer, kind,
};
use drover_base::{Cpu, Ns};

/// Longest name of a system, bytes.
pub const SYSTEM_BYTES_MAX: usize = 16;

/// Longest [`Figures`], bytes.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// "Who are you?"
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enquiry;

/// Who the service is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// Its system: `herd`, `pilaf`. At most [`SYSTEM_BYTES_MAX`] bytes.
    pub system: String,
    /// Shards behind this address, each of which wants a [`Visit`]; 0: the channel is the server's as it is.
    pub shard_count: u16,
}

/// "I want to speak to this shard."
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visit {
    /// Which.
    pub shard: u16,
}

/// "What have you done?"
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question;

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figures {
    /// Lines `name value`, at most 32 KiB.
    pub text: String,
}

impl Message for Enquiry {
    const KIND: u16 = kind::ENQUIRY;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Result<Enquiry, DecodeError> {
        Ok(Enquiry)
    }
}

impl Message for Announcement {
    const KIND: u16 = kind::ANNOUNCEMENT;

    fn encode(&self, to: &mut Writer) {
        to.bytes(self.system.as_bytes()).u16(self.shard_count);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Announcement, DecodeError> {
        let system = text(from.bytes("length of a system's name", SYSTEM_BYTES_MAX)?);
        let shard_count = from.u16()?;
        Ok(Announcement { system, shard_count })
    }
}

impl Message for Visit {
    const KIND: u16 = kind::VISIT;

    fn encode(&self, to: &mut Writer) {
        to.u16(self.shard);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Visit, DecodeError> {
        Ok(Visit { shard: from.u16()? })
    }
}

impl Message for Question {
    const KIND: u16 = kind::QUESTION;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Result<Question, DecodeError> {
        Ok(Question)
    }
}

impl Message for Figures {
    const KIND: u16 = kind::FIGURES;

    fn encode(&self, to: &mut Writer) {
        to.bytes(self.text.as_bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Figures, DecodeError> {
        let text = text(from.bytes("length of a text", TEXT_BYTES_MAX)?);
        Ok(Figures { text })
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
            let _ = stream.send_message(&Visit { shard });
            Ok(stream)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<M: Message>(message: &M) -> Result<M, DecodeError> {
        let (mut here, mut there) = ControlStream::pair();
        here.send_message(message).expect("room for a frame");
        let frame = there.recv(Ns::ZERO).expect("a whole stream").expect("a frame");
        frame.decode()
    }

    #[test]
    fn what_a_service_says_arrives() {
        let announcement = Announcement {
            system: "pilaf".to_owned(),
            shard_count: 4,
        };
        assert_eq!(there_and_back(&announcement), Ok(announcement));
        assert_eq!(there_and_back(&Visit { shard: 3 }), Ok(Visit { shard: 3 }));
        assert_eq!(there_and_back(&Enquiry), Ok(Enquiry));
        assert_eq!(there_and_back(&Question), Ok(Question));
        let figures = Figures {
            text: "items 3\nbell \u{7}\n".to_owned(),
        };
        let printable = "items 3\nbell ?\n".to_owned();
        assert_eq!(there_and_back(&figures), Ok(Figures { text: printable }));
    }

    #[test]
    fn a_name_that_is_too_long_is_no_announcement() {
        let long = Announcement {
            system: "p".repeat(SYSTEM_BYTES_MAX + 1),
            shard_count: 1,
        };
        assert!(there_and_back(&long).is_err());
    }
}
