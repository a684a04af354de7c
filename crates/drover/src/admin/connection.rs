//! One monitor's connection: read a request, write an answer, close.

use super::http::{self, Asked, REQUEST_BYTES_MAX};
use drover_base::Ns;
use drover_control::Credentials;
use rustix::event::{PollFd, PollFlags};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};

/// Who asks.
pub struct Caller {
    /// Address of the monitor.
    pub ip: IpAddr,
    /// Whom it says it is, with the password.
    pub login: Option<Credentials>,
    /// When its request was complete.
    pub asked_at: Ns,
}

/// The answer to a request.
pub enum Reply {
    /// A complete response, headers included.
    Now(Vec<u8>),
    /// Ask again at this time: the caller has guessed wrong before.
    At(Ns),
}

/// A non-blocking connection of a monitor (a client of the admin port, such as Prometheus) for one request.
pub struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// The response; empty until the request is complete.
    answer: Vec<u8>,
    written: usize,
    deadline: Ns,
    ip: IpAddr,
    /// When the request was complete, and when it is answered.
    held: Option<(Ns, Ns)>,
}

impl Connection {
    /// Takes over an accepted connection; from `deadline` on, [`step`](Connection::step) ends it, finished or not.
    /// `None` if the socket cannot be made non-blocking.
    pub fn new(stream: TcpStream, ip: IpAddr, deadline: Ns) -> Option<Connection> {
        stream.set_nonblocking(true).ok()?;
        Some(Connection {
            stream,
            input: Vec::new(),
            answer: Vec::new(),
            written: 0,
            deadline,
            ip,
            held: None,
        })
    }

    /// Time from which on [`step`](Connection::step) ends the connection, finished or not, or has an answer to give.
    pub fn deadline(&self) -> Ns {
        self.held.map_or(self.deadline, |(_, at)| at.min(self.deadline))
    }

    /// Descriptor and event that the connection waits for, for `poll`.
    pub fn interest(&self) -> PollFd<'_> {
        let flags = match (self.answer.is_empty(), self.held) {
            (true, None) => PollFlags::IN,
            (true, Some(_)) => PollFlags::empty(),
            (false, _) => PollFlags::OUT,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Reads the request or writes the response, as far as that goes without waiting; returns `false` when the
    /// connection is over. `answer` makes the reply to a GET of a path.
    pub fn step(&mut self, now: Ns, answer: impl FnOnce(&str, &Caller) -> Reply) -> bool {
        if now >= self.deadline {
            return false;
        }
        if self.answer.is_empty() {
            match self.held {
                Some((_, at)) if now < at => return true,
                Some(_) => {}
                None => {
                    if !self.read() {
                        return false;
                    }
                }
            }
            match http::parse(&self.input) {
                Asked::More => return true,
                Asked::Get(path) => {
                    let (asked_at, _) = *self.held.get_or_insert((now, now));
                    let caller = Caller {
                        ip: self.ip,
                        login: http::login(&self.input),
                        asked_at,
                    };
                    match answer(path, &caller) {
                        Reply::Now(response) => self.answer = response,
                        Reply::At(at) => {
                            self.held = Some((asked_at, at));
                            return true;
                        }
                    }
                }
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
