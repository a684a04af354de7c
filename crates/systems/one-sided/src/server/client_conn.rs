//! [`ClientConn`]: a server's connection to one client, from the first message to the last.

use crate::control::Ticket;
use drover_base::Ns;
use drover_control::{ControlStream, Frame, Message, PeerCred, PeerName};

/// The connection to one client.
pub(super) struct ClientConn<W> {
    stream: ControlStream,
    /// Queues and buffers, once the client has sent `Hello`.
    pub(super) conn: Option<W>,
    /// Session id; 0 before `Hello`.
    pub(super) session: u64,
    /// Of this session and of those that it goes on from.
    pub(super) ticket: Ticket,
    pub(super) broken: bool,
}

impl<W> ClientConn<W> {
    pub(super) fn new(stream: ControlStream) -> ClientConn<W> {
        ClientConn {
            stream,
            conn: None,
            session: 0,
            ticket: Ticket::NONE,
            broken: false,
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.broken || self.stream.is_closed()
    }

    /// The client, for log lines.
    pub(super) fn name(&self) -> &PeerName {
        self.stream.name()
    }

    /// Gives the client an id, for log lines.
    pub(super) fn identify(&mut self, id: &str) {
        self.stream.identify(id);
        tracing::debug!("{} is served, session {}", self.name(), self.session);
    }

    /// The process at the other end, if that is one of this machine.
    pub(super) fn process(&self) -> Option<PeerCred> {
        self.stream.peer_cred()
    }

    pub(super) fn close(&mut self) {
        self.broken = true;
        self.stream.close();
    }

    pub(super) fn refuse(&mut self, code: u16, text: &str) {
        let (stream, _) = ControlStream::pair();
        std::mem::replace(&mut self.stream, stream).refuse(code, text);
        self.close();
    }

    pub(super) fn send<M: Message>(&mut self, message: &M) {
        if let Err(error) = self.stream.send_message(message) {
            tracing::info!("{} dropped: {error}", self.name());
            self.close();
        }
    }

    /// The next frame, if there is one.
    pub(super) fn receive(&mut self, now: Ns) -> Option<Frame> {
        if self.is_gone() {
            return None;
        }
        // The stream logs why it ended.
        let frame = self.stream.recv(now).unwrap_or_default();
        if let Some(frame) = &frame {
            let (kind, bytes) = (frame.kind, frame.body.len());
            tracing::trace!("{}: message of kind {kind}, {bytes} bytes", self.name());
        }
        frame
    }
}
