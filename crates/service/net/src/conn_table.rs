//! [`ConnTable`]: what the cores of a server share: how many connections there are, and where new ones go.
//!
//! One core accepts and gives each connection to the core that has the fewest *(our choice: `SO_REUSEPORT` would let the
//! kernel choose by a hash of addresses, which leaves cores without work when connections are few, and does not exist
//! for Unix sockets)*. Handing one over costs a lock and a system call, once in the life of a connection.

use crate::counters::{Counters, Shown};
use crate::listener::{Address, Origin};
use drover_base::Durations;
use drover_base::sync::{Arc, AtomicU32, AtomicUsize, Ordering};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A connection as anybody may see it.
#[derive(Debug)]
pub struct Known {
    /// Counts up from 1 for each server.
    pub number: u64,
    /// The other end; `None` if it was gone before it could be asked.
    pub peer: Option<Address>,
    /// Where it came.
    pub listener: Arc<Address>,
    last_s: AtomicU32,
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

    /// When it last said something, in seconds since the server's start.
    pub fn last_s(&self) -> u32 {
        self.last_s.load(Ordering::Relaxed)
    }

    /// Costs a line that others read: once a second is enough.
    pub(crate) fn spoke(&self, now_s: u32) {
        self.last_s.store(now_s, Ordering::Relaxed);
    }
}

/// A connection that nobody has begun to serve.
#[derive(Debug)]
pub struct Arrival {
    /// The accepted socket; does not block.
    pub socket: OwnedFd,
    /// Whose listener took it.
    pub origin: Origin,
    /// What others see of it.
    pub known: Arc<Known>,
}

/// What the cores of a server share.
#[derive(Debug)]
pub struct ConnTable {
    cores: Vec<CoreEntry>,
    /// Most connections at a time.
    limit: usize,
    /// Connections there are, those on their way to their core included.
    open: AtomicUsize,
    /// 1: accepting has stopped until one closes.
    resume: AtomicUsize,
}

/// A core's place.
#[derive(Debug)]
struct CoreEntry {
    arrivals: Mutex<Vec<Arrival>>,
    /// Written to when there are some.
    bell: OwnedFd,
    open: AtomicUsize,
    shown: Shown,
    durations: Durations,
    /// Its connections, by number.
    known: Mutex<BTreeMap<u64, Arc<Known>>>,
}

impl ConnTable {
    /// For `core_count` cores, which together serve at most `limit` connections. Errors: no descriptors left.
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

    /// Connections there are.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// What a core did, as of its last step.
    pub fn counters(&self, core: usize) -> Counters {
        self.cores[core].shown.read()
    }

    /// What all cores did.
    pub fn all_counters(&self) -> Counters {
        let mut sum = Counters::default();
        for core in &self.cores {
            sum.add(&core.shown.read());
        }
        sum
    }

    /// How long requests took that came to a core: from the start of the round in which they were read to the end of the
    /// round in which the last of their replies was written.
    pub fn durations(&self, core: usize) -> &Durations {
        &self.cores[core].durations
    }

    /// Tells of every connection, core by core, oldest first. New ones wait at the door meanwhile.
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

    /// As many connections as there may be.
    pub fn is_full(&self) -> bool {
        self.open() >= self.limit
    }

    /// The core that accepts is woken when a connection is closed.
    pub(crate) fn tell_when_one_leaves(&self) {
        self.resume.store(1, Ordering::SeqCst);
        if !self.is_full() {
            // It left before we said so.
            self.ring(0);
        }
    }

    /// Counts one more, if there may be one. Only the core that accepts calls it, so that nobody else adds.
    pub(crate) fn enter(&self) -> bool {
        if self.is_full() {
            return false;
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        true
    }

    pub(crate) fn leave(&self, core: usize) {
        self.cores[core].open.fetch_sub(1, Ordering::Relaxed);
        // SeqCst: pairs with `tell_when_one_leaves`; either it sees the place, or we see that it waits for one.
        self.open.fetch_sub(1, Ordering::SeqCst);
        if self.resume.load(Ordering::SeqCst) == 1 && self.resume.swap(0, Ordering::SeqCst) == 1 {
            self.ring(0);
        }
    }

    /// The core with the fewest connections, which has one more from now on.
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

    /// What came for this core.
    pub(crate) fn take(&self, core: usize) -> Vec<Arrival> {
        let _ = rustix::io::read(&self.cores[core].bell, &mut [0; 8]);
        std::mem::take(&mut *self.arrivals(core))
    }

    pub(crate) fn bell(&self, core: usize) -> BorrowedFd<'_> {
        self.cores[core].bell.as_fd()
    }

    fn ring(&self, core: usize) {
        // Fails only when the counter is full: then it is readable already.
        let _ = rustix::io::write(&self.cores[core].bell, &1u64.to_ne_bytes());
    }

    fn arrivals(&self, core: usize) -> MutexGuard<'_, Vec<Arrival>> {
        self.cores[core]
            .arrivals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
