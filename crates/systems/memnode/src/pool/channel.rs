//! [`Channel`]: a process's control channel to a node, for all its threads.

use crate::client::ClientId;
use crate::control::{Connect, Leave, Recovered, Told};
use drover_base::Ns;
use drover_control::{ControlError, ControlStream, DecodeError, Message};
use drover_verbs::Export;

/// Why a channel is unusable.
#[derive(Debug)]
pub(crate) enum ChannelError {
    Control(ControlError),
    Message(DecodeError),
}

impl std::fmt::Display for ChannelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChannelError::Control(error) => error.fmt(f),
            ChannelError::Message(error) => write!(f, "malformed message: {error}"),
        }
    }
}

/// Most answers that wait for threads: they ask one after the other.
const ANSWERS_MAX: usize = 4096;

pub(crate) struct Channel {
    /// `None`: to nobody.
    stream: Option<ControlStream>,
    answers: Vec<Told>,
    next_tag: u32,
}

impl Channel {
    pub(crate) fn new(stream: ControlStream) -> Channel {
        Channel {
            stream: Some(stream),
            answers: Vec::new(),
            next_tag: 1,
        }
    }

    /// A channel that leads nowhere.
    pub(crate) fn absent() -> Channel {
        Channel {
            stream: None,
            answers: Vec::new(),
            next_tag: 1,
        }
    }

    fn stream(&mut self) -> Result<&mut ControlStream, ChannelError> {
        let closed = ChannelError::Control(ControlError::Closed);
        self.stream.as_mut().ok_or(closed)
    }

    /// Receives what has arrived.
    pub(crate) fn poll(&mut self, now: Ns) -> Result<(), ChannelError> {
        while let Some(frame) = self.stream()?.recv(now).map_err(ChannelError::Control)? {
            let told = frame.decode::<Told>().map_err(ChannelError::Message)?;
            if self.answers.len() >= ANSWERS_MAX {
                return Err(ChannelError::Control(ControlError::Closed));
            }
            self.answers.push(told);
        }
        Ok(())
    }

    fn send<M: Message>(&mut self, message: &M) -> Result<(), ChannelError> {
        self.stream()?
            .send_message(message)
            .map_err(ChannelError::Control)
    }

    /// Asks for a connection in place of the one with tag `replaces`, if there is one; returns the tag of the answer.
    pub(crate) fn connect(&mut self, qp: Export, replaces: u32) -> Result<u32, ChannelError> {
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1).max(1);
        self.send(&Connect { tag, replaces, qp })?;
        Ok(tag)
    }

    /// The answer with this tag, if it has arrived.
    pub(crate) fn answer(&mut self, tag: u32) -> Option<Told> {
        let index = self.answers.iter().position(|told| told.tag == tag)?;
        Some(self.answers.swap_remove(index))
    }

    pub(crate) fn recovered(&mut self, client: ClientId) -> Result<(), ChannelError> {
        self.send(&Recovered { client })
    }

    pub(crate) fn leave(&mut self) -> Result<(), ChannelError> {
        self.send(&Leave)
    }
}
