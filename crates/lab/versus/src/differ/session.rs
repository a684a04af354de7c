//! Two servers that receive the same commands, each over several connections.

use super::canary::Canary;
use super::command::{CONNECTIONS, Element, End, Names};
use super::compare::{Mismatch, Relation, compare};
use super::cut::Cuts;
use super::gateway::{Refusal, stand_in};
use super::reply;
use super::unread::Unread;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Addresses of the two servers to compare, the mistake to plant in the answers of one, and the allowed difference of
/// their clocks.
#[derive(Clone, Debug)]
pub struct Sides {
    /// Address of the left server, memcached.
    pub left: SocketAddr,
    /// Address of the right server.
    pub right: SocketAddr,
    /// Mistake to plant on purpose in the right server's answers, which the comparison must notice; `None` to plant
    /// none.
    pub canary: Option<Canary>,
    /// Seconds that the left server's answers may show more than the right server's for the time left until a fixed
    /// moment, because memcached's clock starts late: see [`DIFFERENCES`](super::DIFFERENCES). [`run`](super::run)
    /// measures it.
    pub late_s: i64,
    /// What the right server refuses, if it is a gateway: see [`REFUSALS`](super::REFUSALS). [`run`](super::run) asks for it.
    pub refused: Vec<Refusal>,
}

/// Three connections to each of two servers, to send one stream of commands and compare the answers; also holds the
/// versions (CAS) that have been found to correspond.
pub struct Pair {
    sides: Sides,
    left: Side,
    right: Side,
    relation: Relation,
    /// `None`: this kernel does not report unread bytes.
    unread: Option<Unread>,
    bytes: u64,
    silence: Timespec,
}

struct Side {
    address: SocketAddr,
    streams: Vec<TcpStream>,
    /// Index of the connection in use.
    on: usize,
    names: Names,
    out: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    closed: bool,
}

/// Time without answer after which a server counts as silent, seconds. Long, because on a busy machine a server may get
/// no processor time for many seconds.
const SILENCE_SECONDS: i64 = 60;
/// The same time while a stream is shrunk, which waits for a thousand such silences.
const SILENCE_SECONDS_SHRINKING: i64 = 5;
/// Number of `mn` that end a batch: more than a body that lacks bytes can swallow.
const SYNCS: usize = 4;
/// Checks for unread bytes before the core is yielded.
const LOOKS: usize = 4;
/// Checks between two looks at the clock.
const LOOKS_PER_TIME: usize = 4096;

/// Number of streams sent by this process; no two share keys.
static PLAYS: AtomicU64 = AtomicU64::new(0);

impl Pair {
    /// As [`connect`](Pair::connect), but the pair waits only 5 s instead of 60 s for a silent server: for shrinking a
    /// stream that is known to cause a difference.
    ///
    /// # Errors
    ///
    /// If a server cannot be reached.
    pub fn connect_to_shrink(sides: &Sides) -> io::Result<Pair> {
        let mut pair = Pair::connect(sides)?;
        pair.silence.tv_sec = SILENCE_SECONDS_SHRINKING;
        Ok(pair)
    }

    /// Opens the connections to both servers and chooses a prefix for the keys that no other stream uses.
    ///
    /// # Errors
    ///
    /// If a server cannot be reached.
    pub fn connect(sides: &Sides) -> io::Result<Pair> {
        let nth = PLAYS.fetch_add(1, Ordering::Relaxed);
        // No flag begins with `z`, so a key in place of a flag means the same in every process.
        let prefix = format!("z{:03x}{nth:06x}", std::process::id() & 0xfff);
        let left = Side::connect(sides.left, &prefix)?;
        let unread = Unread::new()
            .ok()
            .filter(|unread| unread.bytes(&left.streams[0]).is_ok());
        Ok(Pair {
            right: Side::connect(sides.right, &prefix)?,
            sides: sides.clone(),
            left,
            relation: Relation::new(sides.late_s),
            unread,
            bytes: 0,
            silence: Timespec {
                tv_sec: SILENCE_SECONDS,
                tv_nsec: 0,
            },
        })
    }

    /// Bytes of the left server's answers so far in all batches without a difference, plus one per batch.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether each piece of a batch is sent only after both servers have read the piece before it. False if the kernel
    /// does not report unread bytes.
    pub fn is_exact(&self) -> bool {
        self.unread.is_some()
    }

    /// Sends `elements` to both servers, batch by batch, and compares the answers to each batch. Returns the first
    /// difference, and sends nothing after its batch; `None` if there is no difference. A server that is silent for 60
    /// s (5 s after [`connect_to_shrink`](Pair::connect_to_shrink)) is taken to have no more answers.
    ///
    /// # Errors
    ///
    /// If a connection fails or cannot be opened again.
    pub fn play(&mut self, elements: &[Element]) -> io::Result<Option<Mismatch>> {
        for batch in elements.split_inclusive(|element| matches!(element, Element::End(_))) {
            let how = match batch.last() {
                Some(Element::End(end)) => *end,
                _ => End::default(),
            };
            self.left.fill(batch, how, self.bytes, &self.sides.refused);
            self.right.fill(batch, how, self.bytes, &[]);
            let end = format!("NF Oend{}\r\n", self.bytes);
            self.exchange(Cuts::new(how.cut, self.left.out.len()), end.as_bytes())?;
            if let Some(canary) = &self.sides.canary {
                canary.sing(&mut self.right.received);
            }
            if let Some(mismatch) = self.judge() {
                return Ok(Some(mismatch));
            }
            self.bytes += 1 + self.left.received.len() as u64;
            if self.left.closed {
                self.left.again()?;
                self.right.again()?;
            }
        }
        Ok(None)
    }

    fn judge(&mut self) -> Option<Mismatch> {
        if let Some(mismatch) = compare(&self.left.received, &self.right.received, &mut self.relation) {
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

    /// Sends and receives on both until both have answered `end`, have closed, or stay silent.
    fn exchange(&mut self, mut cuts: Cuts, end: &[u8]) -> io::Result<()> {
        while self.left.has_unsent() || self.right.has_unsent() {
            let piece = cuts.next();
            let (left, right) = (&mut self.left, &mut self.right);
            // Both servers work at the same time.
            if !(left.push(piece, &self.silence)? && right.push(piece, &self.silence)?) {
                return Ok(());
            }
            let more = left.has_unsent() || right.has_unsent();
            if let Some(unread) = self.unread.as_ref().filter(|_| more)
                && !(left.is_read(unread, &self.silence)? && right.is_read(unread, &self.silence)?)
            {
                return Ok(());
            }
        }
        loop {
            let moved = self.left.pull()? | self.right.pull()?;
            if self.left.is_done(end) && self.right.is_done(end) {
                return Ok(());
            }
            if !moved && !wait(&[&self.left, &self.right], end, &self.silence)? {
                return Ok(());
            }
        }
    }
}

/// Waits until some side can make progress; returns false if none does in time.
fn wait(sides: &[&Side], end: &[u8], silence: &Timespec) -> io::Result<bool> {
    let open = sides.iter().filter(|side| !side.is_done(end));
    let mut fds: Vec<PollFd<'_>> = open.map(|side| side.poll_fd()).collect();
    Ok(poll(&mut fds, Some(silence))? > 0)
}

impl Side {
    fn connect(address: SocketAddr, prefix: &str) -> io::Result<Side> {
        let streams: io::Result<Vec<TcpStream>> = (0..CONNECTIONS).map(|_| open(address)).collect();
        Ok(Side {
            address,
            streams: streams?,
            on: 0,
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

    fn again(&mut self) -> io::Result<()> {
        self.streams[self.on] = open(self.address)?;
        self.closed = false;
        Ok(())
    }

    /// Takes the commands of a batch, with stand-ins for those that the other side refuses.
    fn fill(&mut self, batch: &[Element], how: End, nonce: u64, refused: &[Refusal]) {
        self.on = usize::from(how.connection) % CONNECTIONS;
        self.out.clear();
        self.received.clear();
        self.sent = 0;
        for element in batch {
            if let Element::Command(command) = element {
                let instead = stand_in(command, refused);
                self.names
                    .render(instead.as_ref().unwrap_or(command), &mut self.out);
            }
        }
        for _ in 0..SYNCS {
            self.out.extend_from_slice(b"mn\r\n");
        }
        match how.quits {
            true => self.out.extend_from_slice(b"quit\r\n"),
            false => self
                .out
                .extend_from_slice(format!("md {}none Oend{nonce}\r\n", self.names.prefix).as_bytes()),
        }
    }

    fn has_unsent(&self) -> bool {
        !self.closed && self.sent < self.out.len()
    }

    fn poll_fd(&self) -> PollFd<'_> {
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, self.has_unsent());
        PollFd::new(&self.streams[self.on], events)
    }

    /// Sends the next `piece` bytes and receives meanwhile. Returns false if the server neither reads nor answers.
    fn push(&mut self, piece: usize, silence: &Timespec) -> io::Result<bool> {
        let end = self.out.len().min(self.sent + piece);
        while self.sent < end && !self.closed {
            match self.streams[self.on].write(&self.out[self.sent..end]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if !self.pull()? && !wait(&[&*self], b"", silence)? {
                        return Ok(false);
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if is_end(&e) => self.closed = true,
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Waits until the server has read all sent bytes. Returns false if it neither does so nor answers for as long as
    /// `silence`: on a busy machine it may get no processor time for seconds.
    #[allow(
        clippy::disallowed_methods,
        reason = "an upper bound for waiting for another process"
    )]
    fn is_read(&mut self, unread: &Unread, silence: &Timespec) -> io::Result<bool> {
        let longest = Duration::from_secs(silence.tv_sec.unsigned_abs());
        let (mut looks, mut since) = (0, None);
        loop {
            match unread.bytes(&self.streams[self.on])? {
                Some(1..) if !self.closed => {}
                _ => return Ok(true),
            }
            looks += 1;
            if looks < LOOKS {
                continue;
            }
            if self.pull()? {
                (looks, since) = (0, None);
            } else if looks % LOOKS_PER_TIME == 0
                && since.get_or_insert_with(Instant::now).elapsed() >= longest
            {
                return Ok(false);
            }
            std::thread::yield_now();
        }
    }

    fn pull(&mut self) -> io::Result<bool> {
        let before = (self.received.len(), self.closed);
        let mut space = [0; 16 << 10];
        while !self.closed {
            match self.streams[self.on].read(&mut space) {
                Ok(0) => self.closed = true,
                Ok(n) => self.received.extend_from_slice(&space[..n]),
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

    /// Records the versions in the answers.
    fn learn(&mut self) {
        let mut bytes = &self.received[..];
        while let Some(reply) = reply::next(&mut bytes) {
            let cas = reply.cas();
            if let (Some(key), Some(cas)) = (reply.key, cas) {
                self.names.cas.insert(key, cas);
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
