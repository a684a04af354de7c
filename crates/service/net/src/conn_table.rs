//! [`ConnTable`]: state that the cores of a server share: the number of connections, and where new ones go.
//!
//! One core accepts and gives each connection to the core with the fewest *(our choice: with `SO_REUSEPORT` the kernel
//! would choose by a hash of addresses, which leaves cores idle when connections are few, and it does not exist for
//! Unix sockets)*. Handing a connection over costs a lock and a system call, once.

use crate::counters::{Counters, Shown};
use crate::listener::{Address, Origin};
use drover_base::Durations;
use drover_base::sync::{Arc, AtomicU32, AtomicUsize, Ordering};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number, addresses and last activity of a connection, readable by all cores.
#[derive(Debug)]
pub struct Known {
    /// Number of the connection: 1 for the first that the server accepted. Refused connections count too.
    pub number: u64,
    /// Address of the client (an empty path for an unnamed Unix socket); `None` if the system reported none.
    pub peer: Option<Address>,
    /// Address of the listener that accepted it.
    pub listener: Arc<Address>,
    last_s: AtomicU32,
}

/// As log lines name it: its number, which other lines have, too, and both addresses.
impl std::fmt::Display for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "connection {} ", self.number)?;
        match &self.peer {
            Some(Address::Tcp(addr)) => write!(f, "of {addr} ")?,
            Some(Address::Unix(_)) | None => write!(f, "of this machine ")?,
        }
        write!(f, "at {}", self.listener)
    }
}

impl Known {
    pub(crate) fn new(number: u64, peer: Option<Address>, listener: Arc<Address>) -> Known {
        Known {
            number,
            peer,
            listener,
            last_s: AtomicU32::new(0),
        }
    }

    /// Time of the connection's last input, in seconds since the server's start; of its arrival if it has sent nothing
    /// yet. Input in a second in which output was written before does not change it.
    pub fn last_s(&self) -> u32 {
        self.last_s.load(Ordering::Relaxed)
    }

    /// Cost: writes a cache line that other cores read; once a second is enough.
    pub(crate) fn spoke(&self, now_s: u32) {
        self.last_s.store(now_s, Ordering::Relaxed);
    }
}

/// An accepted connection that no core serves yet.
#[derive(Debug)]
pub struct Arrival {
    /// The accepted, non-blocking socket.
    pub socket: OwnedFd,
    /// Tag and kind of the listener that accepted it.
    pub origin: Origin,
    /// Number, addresses and last activity of the connection, readable by all cores.
    pub known: Arc<Known>,
}

/// State that the cores of a server share: how many connections are open and how many may be, the connections on their
/// way to another core, and statistics that any thread may read. A connection that a core serves belongs to that core's
/// [`Sockets`](crate::Sockets).
#[derive(Debug)]
pub struct ConnTable {
    cores: Vec<CoreEntry>,
    /// Maximum number of connections.
    limit: usize,
    /// Number of connections, including those being handed over.
    open: AtomicUsize,
    /// 1: accepting has stopped until a connection closes.
    resume: AtomicUsize,
}

/// State of one core.
#[derive(Debug)]
struct CoreEntry {
    arrivals: Mutex<Vec<Arrival>>,
    /// Event descriptor, written when connections arrive.
    bell: OwnedFd,
    open: AtomicUsize,
    shown: Shown,
    durations: Durations,
    /// Connections of the core, by number.
    known: Mutex<BTreeMap<u64, Arc<Known>>>,
}

impl ConnTable {
    /// Creates a table for `core_count` cores (at least 1), which together serve at most `limit` connections.
    ///
    /// # Errors
    /// No file descriptor or memory is left.
    pub fn new(core_count: usize, limit: usize) -> io::Result<ConnTable> {
        let core = |_| {
            Ok(CoreEntry {
                arrivals: Mutex::default(),
                bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
                open: AtomicUsize::new(0),
                shown: Shown::new(),
                durations: Durations::default(),
                known: Mutex::default(),
            })
        };
        Ok(ConnTable {
            cores: (0..core_count).map(core).collect::<io::Result<_>>()?,
            limit,
            open: AtomicUsize::new(0),
            resume: AtomicUsize::new(0),
        })
    }

    /// Number of open connections on all cores, including those on their way to another core.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Counters of core `core`, as its [`flush`](crate::Sockets::flush) published them last. A flush publishes only if
    /// a connection was opened, had a turn or was closed since the flush before.
    ///
    /// # Panics
    /// If there is no core `core`.
    pub fn counters(&self, core: usize) -> Counters {
        self.cores[core].shown.read()
    }

    /// Sum of the [`counters`](ConnTable::counters) of all cores.
    pub fn all_counters(&self) -> Counters {
        let mut sum = Counters::default();
        for core in &self.cores {
            sum.add(&core.shown.read());
        }
        sum
    }

    /// Distribution of how long requests took on core `core`, one entry per request. Requests of one connection that
    /// overlap get the same duration: from the start of the round (step and flush) in which the first of them began, to
    /// the start of the first round that begins with no reply of the connection missing or unsent.
    ///
    /// # Panics
    /// If there is no core `core`.
    pub fn durations(&self, core: usize) -> &Durations {
        &self.cores[core].durations
    }

    /// Calls `tell` for every connection that a core serves, core by core, each core's oldest first. Holds the core's
    /// lock meanwhile: that core waits before it opens or closes a connection.
    pub fn each_known(&self, mut tell: impl FnMut(&Known)) {
        for core in 0..self.cores.len() {
            self.known(core).values().for_each(|known| tell(known));
        }
    }

    pub(crate) fn meet(&self, core: usize, known: &Arc<Known>) {
        self.known(core).insert(known.number, known.clone());
    }

    pub(crate) fn forget(&self, core: usize, number: u64) {
        self.known(core).remove(&number);
    }

    fn known(&self, core: usize) -> MutexGuard<'_, BTreeMap<u64, Arc<Known>>> {
        self.cores[core]
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn show(&self, core: usize, counters: &Counters) {
        self.cores[core].shown.show(counters);
    }

    /// Whether [`open`](ConnTable::open) has reached the limit given to [`new`](ConnTable::new).
    pub fn is_full(&self) -> bool {
        self.open() >= self.limit
    }

    /// Asks for the accepting core to be woken when a connection closes.
    pub(crate) fn tell_when_one_leaves(&self) {
        self.resume.store(1, Ordering::SeqCst);
        if !self.is_full() {
            // A connection closed before the flag was set.
            self.ring(0);
        }
    }

    /// Counts one more connection, if the limit allows. Only the accepting core calls it, so no other core adds.
    pub(crate) fn enter(&self) -> bool {
        if self.is_full() {
            return false;
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        true
    }

    pub(crate) fn leave(&self, core: usize) {
        self.cores[core].open.fetch_sub(1, Ordering::Relaxed);
        // SeqCst: pairs with `tell_when_one_leaves`: either that core sees the free place, or we see its flag.
        self.open.fetch_sub(1, Ordering::SeqCst);
        if self.resume.load(Ordering::SeqCst) == 1 && self.resume.swap(0, Ordering::SeqCst) == 1 {
            self.ring(0);
        }
    }

    /// Picks the core with the fewest connections and counts one more for it.
    pub(crate) fn choose(&self) -> usize {
        let open = |core: &usize| self.cores[*core].open.load(Ordering::Relaxed);
        let core = (0..self.cores.len()).min_by_key(open).expect("there is a core");
        self.cores[core].open.fetch_add(1, Ordering::Relaxed);
        core
    }

    pub(crate) fn hand_over(&self, core: usize, arrival: Arrival) {
        let mut arrivals = self.arrivals(core);
        arrivals.push(arrival);
        if arrivals.len() == 1 {
            self.ring(core);
        }
    }

    /// Takes the connections handed to this core.
    pub(crate) fn take(&self, core: usize) -> Vec<Arrival> {
        let _ = rustix::io::read(&self.cores[core].bell, &mut [0; 8]);
        std::mem::take(&mut *self.arrivals(core))
    }

    pub(crate) fn bell(&self, core: usize) -> BorrowedFd<'_> {
        self.cores[core].bell.as_fd()
    }

    fn ring(&self, core: usize) {
        // This fails only when the counter is full, and then it is readable already.
        let _ = rustix::io::write(&self.cores[core].bell, &1u64.to_ne_bytes());
    }

    fn arrivals(&self, core: usize) -> MutexGuard<'_, Vec<Arrival>> {
        self.cores[core]
            .arrivals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
