//! [`Peers`]: the connections of a control server, by id.

use crate::peer_name::PeerName;
use crate::{ControlError, ControlStream, Frame, Message, Peer};
use drover_base::Ns;
use rustix::event::{PollFd, PollFlags};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Id of a connection. Not reused while the server runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId {
    index: u32,
    generation: u32,
}

/// All connections of a [`ControlServer`](super::ControlServer), which it owns. Sending to one that has ended does
/// nothing: its end is reported by [`on_close`](super::ControlHandler::on_close).
#[derive(Debug, Default)]
pub struct Peers {
    slots: Vec<PeerSlot>,
    free: Vec<u32>,
    /// Connections that ended and are not yet reported.
    ended: VecDeque<(ConnId, ControlError)>,
    live: usize,
    /// Number of connections so far.
    arrivals: u64,
}

#[derive(Debug)]
struct PeerSlot {
    generation: u32,
    /// Number of the connection, in the order of arrival.
    arrival: u64,
    stream: Option<ControlStream>,
}

impl Peers {
    /// Sends a frame. If the peer does not read and its queue is full, the connection is closed; that is no error here.
    ///
    /// # Errors
    /// [`ControlError`] for misuse (too long, too many descriptors, descriptors over TCP); then nothing was sent.
    pub fn send(
        &mut self,
        conn: ConnId,
        kind: u16,
        body: &[u8],
        fds: &[Arc<OwnedFd>],
    ) -> Result<(), ControlError> {
        self.sending(conn, |stream| stream.send(kind, body, fds))
    }

    /// Encodes and sends a message.
    ///
    /// # Errors
    /// As [`send`](Peers::send).
    pub fn send_message<M: Message>(&mut self, conn: ConnId, message: &M) -> Result<(), ControlError> {
        self.sending(conn, |stream| stream.send_message(message))
    }

    fn sending(
        &mut self,
        conn: ConnId,
        send: impl FnOnce(&mut ControlStream) -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        let Some(stream) = self.stream(conn) else {
            return Ok(());
        };
        match send(stream) {
            Err(why @ ControlError::Stalled { .. }) => {
                self.end(conn, why);
                Ok(())
            }
            other => other,
        }
    }

    /// Sends the peer `code` (see [`refusal`](crate::refusal)) and up to 256 bytes of `reason`, as far as the socket
    /// takes them at once, and closes the connection.
    pub fn refuse(&mut self, conn: ConnId, code: u16, reason: &str) {
        if let Some(stream) = self.stream(conn) {
            stream.turn_away(code, reason);
            self.end(conn, ControlError::ByUs);
        }
    }

    /// Closes the connection without telling the peer a reason.
    pub fn close(&mut self, conn: ConnId) {
        self.end(conn, ControlError::ByUs);
    }

    /// Removes a connection and returns its stream, to be served elsewhere; its end is not reported here. `None` if it
    /// has ended.
    pub fn take(&mut self, conn: ConnId) -> Option<ControlStream> {
        self.slot(conn)?;
        self.free.push(conn.index);
        self.live -= 1;
        self.slots[conn.index as usize].stream.take()
    }

    /// The other end, for log lines; unknown if the connection has ended.
    pub fn name(&self, conn: ConnId) -> PeerName {
        let ended = || PeerName::new(Peer::Unknown);
        self.slot(conn).map_or_else(ended, |stream| stream.name().clone())
    }

    /// Adds the id of the client at the other end to its [`name`](Peers::name): "client 5".
    pub fn identify(&mut self, conn: ConnId, id: &str) {
        if let Some(stream) = self.stream(conn) {
            stream.identify(id);
        }
    }

    /// Whether the connection is open, as far as this end knows.
    pub fn is_open(&self, conn: ConnId) -> bool {
        self.slot(conn).is_some()
    }

    /// Number of open connections.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are no open connections.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Ids of all open connections.
    pub fn ids(&self) -> Vec<ConnId> {
        let id = |(index, slot): (usize, &PeerSlot)| {
            let generation = slot.generation;
            slot.stream.as_ref().map(|_| ConnId {
                index: index as u32,
                generation,
            })
        };
        self.slots.iter().enumerate().filter_map(id).collect()
    }

    pub(super) fn insert(&mut self, stream: ControlStream) -> ConnId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(PeerSlot {
                generation: 0,
                arrival: 0,
                stream: None,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.arrival = self.arrivals;
        slot.stream = Some(stream);
        self.arrivals += 1;
        self.live += 1;
        ConnId {
            index,
            generation: slot.generation,
        }
    }

    /// The next frame of `conn`; an error ends the connection.
    pub(super) fn recv(&mut self, conn: ConnId, now: Ns) -> Option<Frame> {
        match self.stream(conn)?.recv(now) {
            Ok(frame) => frame,
            Err(why) => {
                self.end(conn, why);
                None
            }
        }
    }

    pub(super) fn take_ended(&mut self) -> Option<(ConnId, ControlError)> {
        self.ended.pop_front()
    }

    /// The connection that has longest not proved who it is.
    pub(super) fn longest_unproven(&self) -> Option<ConnId> {
        let unproven = |(index, slot): (usize, &PeerSlot)| {
            slot.stream.as_ref().filter(|stream| stream.is_unproven())?;
            let generation = slot.generation;
            let index = index as u32;
            Some((slot.arrival, ConnId { index, generation }))
        };
        let all = self.slots.iter().enumerate().filter_map(unproven);
        all.min().map(|(_, conn)| conn)
    }

    /// Time when the first heartbeat is due, or a connection that has not proved who it is.
    pub(super) fn next_look(&self) -> Ns {
        self.streams()
            .map(|stream| stream.next_look().min(stream.guard_look()))
            .min()
            .unwrap_or(Ns::MAX)
    }

    /// Whether a turn has work without waiting: frames left from a turn, or ends to report.
    pub(super) fn has_work(&self) -> bool {
        !self.ended.is_empty() || self.streams().any(ControlStream::has_more)
    }

    /// Whether there are connections that `poll` cannot wait for.
    pub(super) fn are_blind(&self) -> bool {
        self.streams().any(|stream| stream.fd().is_none())
    }

    pub(super) fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        for stream in self.streams() {
            let Some(fd) = stream.fd() else { continue };
            let out = if stream.wants_write() {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN | out));
        }
    }

    /// Connections to check at `now`: ready according to `fds`, the result of [`poll_fds`](Peers::poll_fds), with
    /// frames left, without a descriptor, or due for a heartbeat.
    pub(super) fn ready(&self, fds: &[PollFd<'_>], now: Ns) -> Vec<ConnId> {
        let mut polled = fds.iter();
        let mut ready = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            let Some(stream) = &slot.stream else { continue };
            let called = match stream.fd() {
                Some(_) => polled.next().is_some_and(|fd| !fd.revents().is_empty()),
                None => true,
            };
            if called || stream.has_more() || stream.is_due(now) || stream.guard_look() <= now {
                ready.push(ConnId {
                    index: index as u32,
                    generation: slot.generation,
                });
            }
        }
        ready
    }

    fn streams(&self) -> impl Iterator<Item = &ControlStream> {
        self.slots.iter().filter_map(|slot| slot.stream.as_ref())
    }

    fn slot(&self, conn: ConnId) -> Option<&ControlStream> {
        let slot = self.slots.get(conn.index as usize)?;
        slot.stream
            .as_ref()
            .filter(|_| slot.generation == conn.generation)
    }

    fn stream(&mut self, conn: ConnId) -> Option<&mut ControlStream> {
        let slot = self.slots.get_mut(conn.index as usize)?;
        slot.stream
            .as_mut()
            .filter(|_| slot.generation == conn.generation)
    }

    fn end(&mut self, conn: ConnId, why: ControlError) {
        if self.take(conn).is_some() {
            self.ended.push_back((conn, why));
        }
    }
}
