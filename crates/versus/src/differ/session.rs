//! Two connections that are told the same.

use super::canary::Canary;
use super::command::{Element, Names};
use super::compare::{CasPairs, Mismatch, compare};
use super::reply;
use drover_base::Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

/// Who is compared.
#[derive(Clone, Debug)]
pub struct Sides {
    /// One server.
    pub left: SocketAddr,
    /// The other.
    pub right: SocketAddr,
    /// A mistake to make in what the right one says.
    pub canary: Option<Canary>,
}

/// A connection to each of two servers.
pub struct Pair {
    sides: Sides,
    left: Side,
    right: Side,
    pairs: CasPairs,
    rng: Rng,
    bytes: u64,
}

struct Side {
    stream: TcpStream,
    names: Names,
    out: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    closed: bool,
}

/// A server that says nothing for so long has left something unanswered.
const SILENCE_SECONDS: i64 = 5;
/// So many `mn` end a batch: more than a body that lacks bytes can swallow.
const SYNCS: usize = 4;

/// Plays of this process; no two share keys.
static PLAYS: AtomicU64 = AtomicU64::new(0);

impl Pair {
    /// Connects to both.
    pub fn connect(sides: &Sides) -> io::Result<Pair> {
        let nth = PLAYS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{:04x}{nth:06x}", std::process::id() & 0xffff);
        Ok(Pair {
            sides: sides.clone(),
            left: Side::connect(sides.left, &prefix)?,
            right: Side::connect(sides.right, &prefix)?,
            pairs: CasPairs::default(),
            rng: Rng::new(nth, 0, 0x5917),
            bytes: 0,
        })
    }

    /// Bytes of answers compared so far, of one side.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sends everything, batch by batch; the first difference.
    pub fn play(&mut self, elements: &[Element]) -> io::Result<Option<Mismatch>> {
        for batch in elements.split_inclusive(|element| !matches!(element, Element::Command(_))) {
            let quits = batch.last() == Some(&Element::Quit);
            let end = format!("NF Oend{}\r\n", self.bytes);
            for side in [&mut self.left, &mut self.right] {
                side.fill(batch, quits, self.bytes);
            }
            self.exchange(end.as_bytes())?;
            if let Some(canary) = &self.sides.canary {
                canary.sing(&mut self.right.received);
            }
            if let Some(mismatch) = self.judge() {
                return Ok(Some(mismatch));
            }
            self.bytes += 1 + self.left.received.len() as u64;
            if self.left.closed {
                self.left.again(self.sides.left)?;
                self.right.again(self.sides.right)?;
            }
        }
        Ok(None)
    }

    fn judge(&mut self) -> Option<Mismatch> {
        if let Some(mismatch) = compare(&self.left.received, &self.right.received, &mut self.pairs) {
            return Some(mismatch);
        }
        let word = |closed| if closed { &b"(closed)"[..] } else { b"(open)" };
        if self.left.closed != self.right.closed {
            return Some(Mismatch::new(word(self.left.closed), word(self.right.closed)));
        }
        self.left.learn();
        self.right.learn();
        None
    }

    /// Sends and receives on both until both have said `end`, have closed, or stay silent.
    fn exchange(&mut self, end: &[u8]) -> io::Result<()> {
        // Some batches go in pieces, cut anywhere, so that servers see halves of lines.
        let piece = match self.rng.below(4) {
            0 => 1 + self.rng.below(60) as usize,
            _ => usize::MAX,
        };
        loop {
            let mut moved = false;
            for side in [&mut self.left, &mut self.right] {
                moved |= side.push(piece)?;
                moved |= side.pull()?;
            }
            if self.left.is_done(end) && self.right.is_done(end) {
                return Ok(());
            }
            if !moved && !wait(&[&self.left, &self.right], end)? {
                return Ok(());
            }
        }
    }
}

/// Waits for whichever side has something left to do; false if nothing came of it.
fn wait(sides: &[&Side], end: &[u8]) -> io::Result<bool> {
    let open = sides.iter().filter(|side| !side.is_done(end));
    let mut fds: Vec<PollFd<'_>> = open
        .map(|side| {
            let mut events = PollFlags::IN;
            events.set(PollFlags::OUT, side.sent < side.out.len());
            PollFd::new(&side.stream, events)
        })
        .collect();
    let time = Timespec {
        tv_sec: SILENCE_SECONDS,
        tv_nsec: 0,
    };
    Ok(poll(&mut fds, Some(&time))? > 0)
}

impl Side {
    fn connect(address: SocketAddr, prefix: &str) -> io::Result<Side> {
        Ok(Side {
            stream: open(address)?,
            names: Names {
                prefix: prefix.to_string(),
                ..Names::default()
            },
            out: Vec::new(),
            sent: 0,
            received: Vec::new(),
            closed: false,
        })
    }

    fn again(&mut self, address: SocketAddr) -> io::Result<()> {
        self.stream = open(address)?;
        self.closed = false;
        Ok(())
    }

    fn fill(&mut self, batch: &[Element], quits: bool, nonce: u64) {
        self.out.clear();
        self.received.clear();
        self.sent = 0;
        for element in batch {
            if let Element::Command(command) = element {
                self.names.render(command, &mut self.out);
            }
        }
        for _ in 0..SYNCS {
            self.out.extend_from_slice(b"mn\r\n");
        }
        match quits {
            true => self.out.extend_from_slice(b"quit\r\n"),
            false => self
                .out
                .extend_from_slice(format!("md {}none Oend{nonce}\r\n", self.names.prefix).as_bytes()),
        }
    }

    fn push(&mut self, piece: usize) -> io::Result<bool> {
        let before = self.sent;
        while self.sent < self.out.len() && !self.closed {
            let end = self.sent + piece.min(self.out.len() - self.sent);
            match self.stream.write(&self.out[self.sent..end]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if is_end(&e) => self.closed = true,
                Err(e) => return Err(e),
            }
        }
        Ok(self.sent > before)
    }

    fn pull(&mut self) -> io::Result<bool> {
        let before = (self.received.len(), self.closed);
        let mut room = [0; 16 << 10];
        while !self.closed {
            match self.stream.read(&mut room) {
                Ok(0) => self.closed = true,
                Ok(n) => self.received.extend_from_slice(&room[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if is_end(&e) => self.closed = true,
                Err(e) => return Err(e),
            }
        }
        Ok((self.received.len(), self.closed) != before)
    }

    fn is_done(&self, end: &[u8]) -> bool {
        self.closed || self.sent == self.out.len() && self.received.ends_with(end)
    }

    /// Remembers the versions that were told.
    fn learn(&mut self) {
        let mut bytes = &self.received[..];
        while let Some(reply) = reply::next(&mut bytes) {
            if let (Some(key), Some(cas)) = (reply.key, reply.cas()) {
                self.names.cas.insert(key.to_vec(), cas);
            }
        }
    }
}

fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
