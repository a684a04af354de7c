//! [`RivalTarget`]: a rival behind many connections, as a [`Target`].
//!
//! Each connection carries one batch at a time; batches are sent whole and answered in the order sent (the
//! rivals serve their connections in turn), so the client polls the oldest one and never sleeps.

use super::connection::Connection;
use super::{Kind, Mode, Stream};
use crate::target::{Target, TargetError};
use drover_kv::{Op, Outcome, SubmitError, Token};
use std::collections::VecDeque;
use std::io;

/// A client of a rival.
pub struct RivalTarget {
    kind: Kind,
    connections: Vec<Connection>,
    idle: Vec<usize>,
    /// Has a part of a batch.
    filling: Option<usize>,
    /// Sent and not answered, oldest first.
    busy: VecDeque<usize>,
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
        Ok(RivalTarget {
            kind,
            idle: (0..connections.len()).rev().collect(),
            filling: None,
            busy: VecDeque::with_capacity(connections.len()),
            connections,
            batch: mode.depth,
            broken: None,
        })
    }

    /// Sends the batch being filled.
    fn send(&mut self) {
        let Some(nth) = self.filling.take() else { return };
        if let Err(error) = self.connections[nth].send() {
            self.broken = Some(error);
        }
        self.busy.push_back(nth);
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
        // A part of a batch waits for more, but not if nothing is under way that could bring more.
        if draining || self.busy.is_empty() {
            self.send();
        }
        if let Some(error) = self.broken.take() {
            return Err(self.error(&error));
        }
        while let Some(&nth) = self.busy.front() {
            match self.connections[nth].receive(sink) {
                Ok(true) => {
                    self.busy.pop_front();
                    self.idle.push(nth);
                }
                Ok(false) => break,
                Err(error) => return Err(self.error(&error)),
            }
        }
        Ok(())
    }
}
