//! [`ClientConn`]: a server's connection to one client, from the first message to the last.

use crate::control::Ticket;
use drover_base::Ns;
use drover_control::{ControlStream, Frame, Message, Peer, PeerCred};

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
    pub(super) fn peer(&self) -> Peer {
        self.stream.peer()
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
            tracing::debug!(
                %error,
                client = %self.stream.peer(),
                session = self.session,
                kind = M::KIND,
                "a control message could not be sent"
            );
            self.close();
        }
    }

    /// The next frame, if there is one.
    pub(super) fn receive(&mut self, now: Ns) -> Option<Frame> {
        if self.is_gone() {
            return None;
        }
        self.stream.recv(now).unwrap_or_else(|error| {
            let (client, session) = (self.stream.peer(), self.session);
            tracing::debug!(%error, %client, session, "a client's control channel ended");
            None
        })
    }
}
