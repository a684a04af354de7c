//! Test bed: a core with sockets and a line protocol. One thread steps the core and plays its clients, whose sockets do
//! not block, so that timing does not matter.
#![allow(dead_code, reason = "each test file uses its part")]

use drover_base::{Ns, Progress};
use drover_net::{
    ConnTable, Consumed, Listener, Need, Output, PendingReply, Protocol, SocketOptions, Sockets,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// Steps before a test gives up.
const STEPS_MAX: usize = 200_000;

/// Line protocol: `big N` is answered by N bytes and a newline, `put N` takes N bytes and answers their sum, `later`
/// leaves a pending reply, `route` takes some of the space on the way to another core, `sleep` waits for the next second until
/// somebody wakes it, `quit` ends, `panic` panics; any other line is echoed.
#[derive(Default)]
pub struct Lines;

/// State of the core for the line protocol.
#[derive(Default)]
pub struct Executor {
    pub pending_replies: Vec<PendingReply>,
    pub requests: usize,
    /// Number of `route`s that the way to another core has space for.
    pub route_space: usize,
    /// Whether a `sleep` goes on.
    pub is_asleep: bool,
    /// Requests per turn; 0: any number.
    pub per_turn: usize,
}

impl Protocol for Lines {
    type Executor<'d> = Executor;

    fn advance(&mut self, executor: &mut Executor, input: &[u8], output: &mut Output) -> Consumed {
        let (mut used, mut served) = (0, 0);
        loop {
            let rest = &input[used..];
            let advance = |need| Consumed { used, need };
            if output.is_full() && !rest.is_empty() {
                return advance(Need::OutputSpace);
            }
            let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
                return advance(Need::Input {
                    at_least: rest.len() + 1,
                });
            };
            if executor.per_turn > 0 && served == executor.per_turn {
                return advance(Need::Turn);
            }
            let line = std::str::from_utf8(&rest[..end]).expect("tests send text");
            let mut taken = end + 1;
            match line.split_once(' ') {
                Some(("big", count)) => {
                    let count = count.parse().expect("a number");
                    output.space(count).fill(b'x');
                    output.push(b"\n");
                }
                Some(("put", count)) => {
                    let count: usize = count.parse().expect("a number");
                    if rest.len() < taken + count {
                        let at_least = taken + count;
                        return advance(Need::Input { at_least });
                    }
                    let sum: u64 = rest[taken..taken + count]
                        .iter()
                        .map(|&byte| u64::from(byte))
                        .sum();
                    output.push(format!("{sum}\n").as_bytes());
                    taken += count;
                }
                _ if line == "route" => {
                    let Some(left) = executor.route_space.checked_sub(1) else {
                        return advance(Need::Route);
                    };
                    executor.route_space = left;
                    output.push(b"routed\n");
                }
                _ if line == "sleep" && executor.is_asleep => return advance(Need::Tick),
                _ if line == "later" => executor.pending_replies.push(output.pending_reply()),
                _ if line == "quit" => return advance(Need::Close),
                _ if line == "panic" => std::panic::resume_unwind(Box::new("on purpose")),
                _ => output.push(&rest[..taken]),
            }
            used += taken;
            served += 1;
            executor.requests += 1;
        }
    }
}

/// A core and its clients.
pub struct Bed {
    pub sockets: Sockets<Lines>,
    pub executor: Executor,
    pub conn_table: Arc<ConnTable>,
    pub addr: SocketAddr,
    pub now: Ns,
}

impl Bed {
    pub fn new(options: SocketOptions, limit: usize) -> Bed {
        let conn_table = Arc::new(ConnTable::new(1, limit).expect("a conn_table"));
        let mut sockets = Sockets::new(options, conn_table.clone(), |_, _, _| Lines).expect("sockets");
        let listener = Listener::tcp("127.0.0.1:0".parse().expect("an address"), 1024).expect("a listener");
        let drover_net::Address::Tcp(addr) = *listener.address() else {
            unreachable!("it is TCP")
        };
        sockets.listen(listener).expect("listening");
        Bed {
            sockets,
            executor: Executor::default(),
            conn_table,
            addr,
            now: Ns::from_s(1),
        }
    }

    /// One round of the core: step and flush.
    pub fn round(&mut self) -> Progress {
        let now_s = self.now.as_s() as u32;
        let progress = self.sockets.step(&mut self.executor, self.now, now_s);
        self.sockets.flush();
        progress
    }

    /// Runs rounds until `done`; panics after too many.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Bed) -> bool) {
        for _ in 0..STEPS_MAX {
            self.round();
            if done(self) {
                return;
            }
            std::thread::yield_now();
        }
        panic!("{what}: not after {STEPS_MAX} steps");
    }

    /// Runs rounds until there is no more work for a while.
    pub fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 20 {
            quiet = match self.round() {
                Progress::Busy => 0,
                Progress::Idle { .. } => quiet + 1,
            };
        }
    }

    pub fn connect(&mut self) -> Client {
        let stream = TcpStream::connect(self.addr).expect("connect");
        stream.set_nonblocking(true).expect("nonblocking");
        Client {
            stream,
            got: Vec::new(),
            ended: false,
        }
    }

    /// Sends all `bytes`, over as many rounds as needed.
    pub fn say(&mut self, client: &mut Client, bytes: &[u8]) {
        let mut rest = bytes;
        self.until("said", |_| {
            rest = &rest[client.offer(rest)..];
            rest.is_empty()
        });
    }

    /// Receives `count` bytes.
    pub fn hear(&mut self, client: &mut Client, count: usize) -> Vec<u8> {
        self.until("heard", |_| {
            client.listen();
            client.got.len() >= count
        });
        client.got.drain(..count).collect()
    }

    /// Receives until the connection ends.
    pub fn hear_all(&mut self, client: &mut Client) -> Vec<u8> {
        self.until("the end", |_| {
            client.listen();
            client.ended
        });
        std::mem::take(&mut client.got)
    }

    /// Sends `line` and returns the answer.
    pub fn ask(&mut self, client: &mut Client, line: &str) -> String {
        self.say(client, line.as_bytes());
        self.until("an answer", |_| {
            client.listen();
            client.got.ends_with(b"\n")
        });
        String::from_utf8(std::mem::take(&mut client.got)).expect("text")
    }
}

/// A client whose socket does not block.
pub struct Client {
    pub stream: TcpStream,
    pub got: Vec<u8>,
    pub ended: bool,
}

impl Client {
    /// Writes as much as the socket takes.
    pub fn offer(&mut self, bytes: &[u8]) -> usize {
        match self.stream.write(bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads the available bytes.
    pub fn listen(&mut self) {
        let mut buffer = vec![0; 256 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.ended = true;
                    return;
                }
                Ok(count) => self.got.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.ended = true;
                    return;
                }
            }
        }
    }
}
