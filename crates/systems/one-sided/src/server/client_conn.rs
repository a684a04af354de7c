//! [`ClientConn`]: one client of a server, from its first word to its last.

use drover_base::Ns;
use drover_rt::control::{ControlStream, Frame, Message};

/// One client.
pub(super) struct ClientConn<W> {
    stream: ControlStream,
    /// Its queues and buffers, once it has greeted.
    pub(super) conn: Option<W>,
    /// The session's name; 0 until then.
    pub(super) session: u64,
    pub(super) broken: bool,
}

impl<W> ClientConn<W> {
    pub(super) fn new(stream: ControlStream) -> ClientConn<W> {
        ClientConn {
            stream,
            conn: None,
            session: 0,
            broken: false,
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.broken || self.stream.is_closed()
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
            tracing::debug!(%error, "a control message was not sent");
            self.close();
        }
    }

    /// The next frame, if there is one.
    pub(super) fn receive(&mut self, now: Ns) -> Option<Frame> {
        if self.is_gone() {
            return None;
        }
        self.stream.recv(now).unwrap_or_else(|error| {
            tracing::debug!(%error, "a control channel has ended");
            None
        })
    }
}
