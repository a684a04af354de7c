//! [`RivalTarget`]: a rival behind many connections, as a [`Target`].
//!
//! Each connection carries one batch at a time; batches are sent whole. With many connections the client polls epoll
//! for answered ones, and never sleeps; with one it polls that one. This holds for every server: the client assumes no
//! order of answers.

use super::connection::Connection;
use super::{Kind, Mode, Stream};
use crate::target::{Target, TargetError};
use drover_kv::{Op, Outcome, SubmitError, Token};
use rustix::event::epoll;
use rustix::fs::Timespec;
use std::io;
use std::os::fd::OwnedFd;

/// Maximum number of answered connections handled together.
const EVENTS: usize = 64;

/// A client of a rival (a server to compare with): owns its connections. Only for workloads without DELETEs, as it
/// sends a GET instead of a DELETE. It ignores a PUT's time to live: items never expire.
pub struct RivalTarget {
    kind: Kind,
    connections: Vec<Connection>,
    idle: Vec<usize>,
    /// Connection with an incomplete batch.
    filling: Option<usize>,
    /// Number of connections with sent, unanswered batches.
    busy: usize,
    /// Connections whose sockets did not take the whole batch.
    unsent: Vec<usize>,
    /// Epoll descriptor for answered connections; `None` with one connection.
    ready: Option<OwnedFd>,
    events: Vec<epoll::Event>,
    batch: usize,
    broken: Option<io::Error>,
}

impl RivalTarget {
    /// Opens the connections of `mode` with `connect`.
    pub(super) fn open(
        kind: Kind,
        mode: &Mode,
        mut connect: impl FnMut() -> io::Result<Stream>,
    ) -> io::Result<RivalTarget> {
        let connections = (0..mode.connections)
            .map(|_| Ok(Connection::new(kind, connect()?, mode.group)))
            .collect::<io::Result<Vec<_>>>()?;
        let ready = match connections.len() {
            0 | 1 => None,
            _ => Some(watch(&connections)?),
        };
        Ok(RivalTarget {
            kind,
            idle: (0..connections.len()).rev().collect(),
            filling: None,
            busy: 0,
            unsent: Vec::with_capacity(connections.len()),
            ready,
            events: Vec::with_capacity(EVENTS),
            connections,
            batch: mode.depth,
            broken: None,
        })
    }

    /// Sends the batch of the connection being filled.
    fn send(&mut self) {
        let Some(nth) = self.filling.take() else { return };
        if let Err(error) = self.connections[nth].send() {
            self.broken = Some(error);
        }
        self.busy += 1;
        if self.connections[nth].has_unsent() {
            self.unsent.push(nth);
        }
    }

    /// Sends the remainders that sockets did not take.
    fn push_out(&mut self) {
        let connections = &mut self.connections;
        let broken = &mut self.broken;
        self.unsent.retain(|&nth| {
            if let Err(error) = connections[nth].push_out() {
                *broken = Some(error);
            }
            connections[nth].has_unsent()
        });
    }

    /// Handles replies on connection `nth`.
    fn receive(&mut self, nth: usize, sink: &mut impl FnMut(Token, Outcome<'_>)) -> io::Result<()> {
        if self.connections[nth].receive(sink)? {
            self.busy -= 1;
            self.idle.push(nth);
        }
        Ok(())
    }

    /// Handles all received replies.
    fn receive_all(&mut self, sink: &mut impl FnMut(Token, Outcome<'_>)) -> io::Result<()> {
        const NOW: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let Some(ready) = &self.ready else {
            return match self.busy {
                0 => Ok(()),
                _ => self.receive(0, sink),
            };
        };
        self.events.clear();
        match epoll::wait(
            ready,
            rustix::buffer::spare_capacity(&mut self.events),
            Some(&NOW),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for at in 0..self.events.len() {
            let data = self.events[at].data;
            self.receive(data.u64() as usize, sink)?;
        }
        Ok(())
    }

    fn error(&self, error: &io::Error) -> Box<TargetError> {
        TargetError::new(format!("{}: {error}", self.kind))
    }
}

impl Target for RivalTarget {
    #[inline]
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let Some(nth) = self.filling.or_else(|| self.idle.pop()) else {
            return Err(SubmitError::WindowFull);
        };
        self.filling = Some(nth);
        self.connections[nth].stage(op, token);
        if self.connections[nth].staged() == self.batch {
            self.send();
        }
        Ok(())
    }

    fn poll(
        &mut self,
        draining: bool,
        sink: &mut impl FnMut(Token, Outcome<'_>),
    ) -> Result<(), Box<TargetError>> {
        // An incomplete batch waits for more operations, unless no completion can bring them.
        if draining || self.busy == 0 {
            self.send();
        }
        if !self.unsent.is_empty() {
            self.push_out();
        }
        if let Some(error) = self.broken.take() {
            return Err(self.error(&error));
        }
        self.receive_all(sink).map_err(|error| self.error(&error))
    }
}

/// Creates an epoll descriptor that watches all connections for input.
fn watch(connections: &[Connection]) -> io::Result<OwnedFd> {
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (nth, connection) in connections.iter().enumerate() {
        let data = epoll::EventData::new_u64(nth as u64);
        epoll::add(&ready, connection.socket(), data, epoll::EventFlags::IN)?;
    }
    Ok(ready)
}
