//! [`ControlLink`]: the blocking server of one link to the control thread.

use crate::blocking::BlockingFrames;
use crate::inbox::Arrival;
use drover_base::Ns;
use std::io;
use std::sync::Arc;

/// Time without progress after which a reply has failed.
const REPLY_TIMEOUT: Ns = Ns::from_s(5);

/// A link to the control thread that has passed the handshake: the other end is a [`LinkCaller`](crate::LinkCaller).
#[derive(Debug)]
pub struct ControlLink {
    frames: BlockingFrames,
    member: Box<str>,
    _place: Arc<()>,
}

impl ControlLink {
    pub(crate) fn new(arrival: Arrival, message_bytes_max: usize) -> io::Result<ControlLink> {
        Ok(ControlLink {
            frames: BlockingFrames::new(arrival.socket, message_bytes_max)?,
            member: arrival.member,
            _place: arrival._place,
        })
    }

    /// Name of the member that made the link.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// Waits up to `timeout` for a message to begin. `None`: none has.
    ///
    /// # Errors
    /// The link has ended: the peer closed it, it broke, or a message has begun and does not go on.
    pub fn receive(&mut self, timeout: Ns) -> io::Result<Option<&[u8]>> {
        self.frames.set_timeout(timeout)?;
        self.frames.receive()
    }

    /// Replies to the oldest message without a reply.
    ///
    /// # Errors
    /// The link has ended.
    pub fn reply(&mut self, reply: &[u8]) -> io::Result<()> {
        self.frames.set_timeout(REPLY_TIMEOUT)?;
        self.frames.send(reply)
    }
}
