//! [`Greeting`]: the first two messages between a process and a node: who we are, and what the node is.

use super::PoolError;
use crate::clients::decode_infos;
use crate::control::{Hello, PROTOCOL_VERSION, Welcome};
use crate::header::{Header, PoolMembership};
use crate::status::NodeStatus;
use drover_base::Ns;
use drover_control::{ControlError, ControlStream, Dial, Frame, Message, refusal};
use drover_kv::refused::{WRONG_SECRET, WRONG_VERSION};
use drover_one_sided::Ticket;

/// A channel to a node, from dialling on.
pub(super) struct Greeting {
    pub(super) server: String,
    dial: Dial,
    pub(super) stream: Option<ControlStream>,
    pub(super) welcome: Option<(Welcome, Header)>,
}

impl Greeting {
    pub(super) fn new(dial: Dial) -> Greeting {
        Greeting {
            server: dial.server().to_owned(),
            dial,
            stream: None,
            welcome: None,
        }
    }

    /// Gives the channel up, to dial again.
    pub(super) fn begin_anew(&mut self) {
        (self.stream, self.welcome) = (None, None);
    }

    /// Dials, says hello, and takes the answer. True once that is there.
    pub(super) fn greet(&mut self, secret: &[u8], now: Ns, is_late: bool) -> Result<bool, PoolError> {
        if self.stream.is_none() {
            match self.dial.attempt() {
                Ok(stream) => self.stream = Some(stream),
                Err(error) if is_late => {
                    let server = self.server.clone();
                    return Err(PoolError::Dial { server, error });
                }
                Err(_) => return Ok(false),
            }
            self.send(&Hello {
                version: PROTOCOL_VERSION,
                slots: 1,
                shard: 0,
                shard_count: 1,
                previous: Ticket::NONE,
                secret: secret.to_vec(),
                params: (),
            })?;
        }
        // Later frames are for later steps.
        if self.welcome.is_none()
            && let Some(frame) = self.receive(now, is_late)?
        {
            self.welcome = Some(self.welcomed(&frame)?);
        }
        Ok(self.welcome.is_some())
    }

    fn welcomed(&self, frame: &Frame) -> Result<(Welcome, Header), PoolError> {
        let welcome: Welcome = self.decode(frame)?;
        // How long the memory is shows when it is imported.
        match Header::decode(&welcome.header, u64::MAX) {
            Ok(header) => Ok((welcome, header)),
            Err(error) => {
                let server = self.server.clone();
                Err(PoolError::Header { server, error })
            }
        }
    }

    /// What the node shows, once it has answered.
    pub(super) fn into_status(self) -> Option<NodeStatus> {
        let (welcome, header) = self.welcome?;
        Some(NodeStatus {
            server: self.server,
            header,
            clients: decode_infos(&welcome.clients).unwrap_or_default(),
        })
    }

    /// The node's place in its pool.
    pub(super) fn place(&self) -> Result<PoolMembership, PoolError> {
        let (_, header) = self.welcome.as_ref().expect("the node has answered");
        header.place.ok_or_else(|| PoolError::NoPool {
            server: self.server.clone(),
        })
    }

    fn stream(&mut self) -> &mut ControlStream {
        self.stream.as_mut().expect("an open channel")
    }

    pub(super) fn send<M: Message>(&mut self, message: &M) -> Result<(), PoolError> {
        let sent = self.stream().send_message(message);
        sent.map_err(|error| self.control_error(error))
    }

    pub(super) fn receive(&mut self, now: Ns, is_late: bool) -> Result<Option<Frame>, PoolError> {
        let received = self.stream().recv(now);
        match received.map_err(|error| self.control_error(error))? {
            None if is_late => Err(PoolError::Timeout {
                server: self.server.clone(),
            }),
            frame => Ok(frame),
        }
    }

    pub(super) fn decode<M: Message>(&self, frame: &Frame) -> Result<M, PoolError> {
        frame.decode().map_err(|error| PoolError::Message {
            server: self.server.clone(),
            error,
        })
    }

    fn control_error(&self, error: ControlError) -> PoolError {
        let server = self.server.clone();
        match error {
            ControlError::Refused { code, .. } if code == WRONG_SECRET || code == refusal::AUTH => {
                PoolError::WrongSecret { server }
            }
            ControlError::Refused { code, reason } if code == WRONG_VERSION => {
                PoolError::WrongVersion { server, reason }
            }
            error => PoolError::Control { server, error },
        }
    }
}
