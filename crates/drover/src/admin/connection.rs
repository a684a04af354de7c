//! One monitor's connection: read a request, write an answer, close.

use super::http::{self, Asked, REQUEST_BYTES_MAX};
use drover_base::Ns;
use rustix::event::{PollFd, PollFlags};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// A non-blocking connection of a monitor (a client of the admin port, such as Prometheus) for one request.
pub struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// The response; empty until the request is complete.
    answer: Vec<u8>,
    written: usize,
    deadline: Ns,
}

impl Connection {
    /// Takes over an accepted connection; from `deadline` on, [`step`](Connection::step) ends it, finished or not.
    /// `None` if the socket cannot be made non-blocking.
    pub fn new(stream: TcpStream, deadline: Ns) -> Option<Connection> {
        stream.set_nonblocking(true).ok()?;
        Some(Connection {
            stream,
            input: Vec::new(),
            answer: Vec::new(),
            written: 0,
            deadline,
        })
    }

    /// Time from which on [`step`](Connection::step) ends the connection, finished or not.
    pub fn deadline(&self) -> Ns {
        self.deadline
    }

    /// Descriptor and event that the connection waits for, for `poll`.
    pub fn interest(&self) -> PollFd<'_> {
        let flags = match self.answer.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::OUT,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Reads the request or writes the response, as far as that goes without waiting; returns `false` when the
    /// connection is over. `answer` makes the complete response to a GET of a path, headers included.
    pub fn step(&mut self, now: Ns, answer: impl FnOnce(&str) -> Vec<u8>) -> bool {
        if now >= self.deadline {
            return false;
        }
        if self.answer.is_empty() {
            if !self.read() {
                return false;
            }
            match http::parse(&self.input) {
                Asked::More => return true,
                Asked::Get(path) => self.answer = answer(path),
                Asked::Refused(status, why) => {
                    self.answer = http::response(status, "text/plain; charset=utf-8", why)
                }
            }
        }
        self.write()
    }

    /// Reads; returns `false` at the end of the stream.
    fn read(&mut self) -> bool {
        let mut bytes = [0; REQUEST_BYTES_MAX];
        let space = REQUEST_BYTES_MAX - self.input.len();
        match self.stream.read(&mut bytes[..space]) {
            Ok(0) => false,
            Ok(count) => {
                self.input.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) => is_transient(&error),
        }
    }

    /// Writes; returns `false` when all is written or the connection broke.
    fn write(&mut self) -> bool {
        while self.written < self.answer.len() {
            match self.stream.write(&self.answer[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) => return is_transient(&error),
            }
        }
        let _ = self.stream.shutdown(Shutdown::Write); // the peer may be gone
        false
    }
}

fn is_transient(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
