//! [`Watchers`]: `watch`, connections that are notified of events. Without watchers it costs a core one test per
//! request of a word that it loads when a step begins.
//!
//! ```text
//! any core:        an event -> a line -> the queue of each watcher that asked for its kind -> its core is woken
//! watcher's core:  queue -> output of its connection, as far as that has space
//! ```
//! A full queue takes no more lines: skipped lines are counted, and reported in a line of their own when there is
//! space.

use crate::line::{self, LineBuffer};
use drover_base::sync::{AtomicU32, AtomicU64, Ordering};
use drover_net::{Address, Output};
use drover_verbs::Waker;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Event kinds, as bits.
pub(crate) mod kind {
    /// Keys requested.
    pub(crate) const FETCHERS: u32 = 1;
    /// Values stored or refused.
    pub(crate) const MUTATIONS: u32 = 2;
    /// Items evicted.
    pub(crate) const EVICTIONS: u32 = 4;
    /// Connections opened and closed.
    pub(crate) const CONNEVENTS: u32 = 8;
    /// Items deleted.
    pub(crate) const DELETIONS: u32 = 16;
}

/// The bits of an event's name. `None`: unknown name. Names of events that never happen here have no bits.
pub(crate) fn kind_of(name: &[u8]) -> Option<u32> {
    Some(match name {
        b"fetchers" => kind::FETCHERS,
        b"mutations" => kind::MUTATIONS,
        b"evictions" => kind::EVICTIONS,
        b"connevents" => kind::CONNEVENTS,
        b"deletions" => kind::DELETIONS,
        b"rawcmds" | b"sysevents" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => 0,
        _ => return None,
    })
}

/// Registry of the connections of a server that have sent `watch`, with the lines queued for each. It does not own the
/// connections.
#[derive(Debug)]
pub struct Watchers {
    /// Bits of all kinds that any connection watches.
    kinds: AtomicU32,
    list: Mutex<Vec<Arc<Watcher>>>,
    /// Wakers by core, set once the core has provided one.
    wakers: Vec<OnceLock<Waker>>,
    /// Maximum bytes queued per watcher.
    queue_bytes: usize,
    /// Start of the latest step with an event, in microseconds since 1970.
    now_us: AtomicU64,
    /// Number of the next line.
    lines: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
}

/// Numbers about watchers for `stats`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Watched {
    pub(crate) watchers: usize,
    pub(crate) lines: u64,
    pub(crate) sent: u64,
    pub(crate) skipped: u64,
}

/// One connection that watches.
#[derive(Debug)]
struct Watcher {
    kinds: u32,
    core: usize,
    token: u64,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Number of lines skipped for lack of space.
    skipped: u64,
}

impl Watcher {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watchers {
    /// No watchers. `queue_bytes`: maximum bytes queued per watcher.
    pub(crate) fn new(core_count: usize, queue_bytes: usize) -> Watchers {
        Watchers {
            kinds: AtomicU32::new(0),
            list: Mutex::default(),
            wakers: (0..core_count).map(|_| OnceLock::new()).collect(),
            queue_bytes,
            now_us: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }
    }

    /// Sets the waker that ends the sleep of core `core` when there is a line for one of its watchers. Only the first
    /// call per core counts; a core beyond the number of cores is ignored.
    pub fn set_waker(&self, core: usize, waker: Waker) {
        if let Some(place) = self.wakers.get(core) {
            let _ = place.set(waker);
        }
    }

    /// Bits of all watched event kinds.
    #[inline(always)]
    pub(crate) fn kinds(&self) -> u32 {
        // Relaxed: an event concurrent with the command may or may not be reported.
        self.kinds.load(Ordering::Relaxed)
    }

    /// Calls `tell` with the token of each connection of `core` that has lines waiting and should get a turn
    /// ([`Need::Notification`](drover_net::Need::Notification)). Cost without watchers: one load.
    pub fn each_waiting(&self, core: usize, mut tell: impl FnMut(u64)) {
        if self.kinds() == 0 {
            return;
        }
        for watcher in self.list().iter().filter(|watcher| watcher.core == core) {
            if !watcher.queue().bytes.is_empty() {
                tell(watcher.token);
            }
        }
    }

    /// Sets the time of further lines.
    pub(crate) fn set_time(&self, now_us: u64) {
        self.now_us.store(now_us, Ordering::Relaxed);
    }

    pub(crate) fn watched(&self) -> Watched {
        Watched {
            watchers: self.list().len(),
            lines: self.lines.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
        }
    }

    /// Queues a line for every watcher of `kind`; `rest` is the line after its time and number.
    #[cold]
    pub(crate) fn notify(&self, kind: u32, rest: std::fmt::Arguments<'_>) {
        let (number, us) = (
            self.lines.fetch_add(1, Ordering::Relaxed),
            self.now_us.load(Ordering::Relaxed),
        );
        let mut line = String::new();
        let (seconds, micros) = (us / 1_000_000, us % 1_000_000);
        let _ = writeln!(line, "ts={seconds}.{micros:06} gid={number} {rest}");
        for watcher in self.list().iter().filter(|watcher| watcher.kinds & kind != 0) {
            self.enqueue(watcher, &line);
        }
    }

    fn enqueue(&self, watcher: &Watcher, line: &str) {
        let mut queue = watcher.queue();
        let was_empty = queue.bytes.is_empty();
        let skipped = match queue.skipped {
            0 => String::new(),
            count => format!("skipped={count}\n"),
        };
        if queue.bytes.len() + skipped.len() + line.len() > self.queue_bytes {
            queue.skipped += 1;
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.bytes.extend_from_slice(skipped.as_bytes());
        queue.bytes.extend_from_slice(line.as_bytes());
        queue.skipped = 0;
        self.sent.fetch_add(1, Ordering::Relaxed);
        drop(queue);
        if was_empty && let Some(waker) = self.wakers.get(watcher.core).and_then(OnceLock::get) {
            waker.wake();
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Watcher>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, list: &[Arc<Watcher>]) {
        let kinds = list.iter().fold(0, |kinds, watcher| kinds | watcher.kinds);
        self.kinds.store(kinds, Ordering::Relaxed);
    }
}

/// Registration of a watching connection, removed when dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    watchers: Arc<Watchers>,
    watcher: Arc<Watcher>,
}

impl Watching {
    /// Registers the connection `token` of `core` for `kinds`.
    pub(crate) fn new(watchers: Arc<Watchers>, kinds: u32, core: usize, token: u64) -> Watching {
        let watcher = Arc::new(Watcher {
            kinds,
            core,
            token,
            queue: Mutex::default(),
        });
        let mut list = watchers.list();
        list.push(watcher.clone());
        watchers.update(&list);
        drop(list);
        Watching { watchers, watcher }
    }

    /// Moves the queued lines to `output`.
    pub(crate) fn drain(&self, output: &mut Output) {
        let mut queue = self.watcher.queue();
        output.push(&queue.bytes);
        queue.bytes.clear();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut list = self.watchers.list();
        list.retain(|watcher| !Arc::ptr_eq(watcher, &self.watcher));
        self.watchers.update(&list);
    }
}

/// Reason why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Reason {
    /// The client quit or hung up.
    #[default]
    Normal,
    /// The client sent invalid input.
    Error,
}

/// Identity of a connection, as reported to watchers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guest {
    /// Token of the connection on its core, a [`drover_net::Token`].
    pub token: u64,
    /// Number of the connection in the server, as in `stats conns`.
    pub number: u64,
    /// TCP address of the client; `None` for a Unix socket or if it is unknown.
    pub peer: Option<SocketAddr>,
    /// Address of the listener that accepted it.
    pub listener: Arc<Address>,
}

impl Guest {
    /// As the server's log names a connection.
    pub(crate) fn named(&self) -> impl std::fmt::Display {
        std::fmt::from_fn(|f| {
            match self.peer {
                Some(peer) => write!(f, "connection {} of {peer}", self.number)?,
                None => write!(f, "connection {} of this machine", self.number)?,
            }
            write!(f, " at {}", self.listener)
        })
    }
}

/// As watchers are told.
impl std::fmt::Display for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.peer {
            Some(peer) => write!(f, "rip={} rport={} transport=tcp", peer.ip(), peer.port()),
            None => f.write_str("rip=unix rport=0 transport=local"),
        }
    }
}

/// Reports a connection to watchers: its start, and its end when dropped.
#[derive(Debug)]
pub(crate) struct Presence {
    watchers: Arc<Watchers>,
    pub(crate) guest: Guest,
    pub(crate) reason: Reason,
}

impl Presence {
    pub(crate) fn new(watchers: Arc<Watchers>, guest: Guest) -> Presence {
        if watchers.kinds() & kind::CONNEVENTS != 0 {
            let cfd = guest.number;
            watchers.notify(kind::CONNEVENTS, format_args!("type=conn_new {guest} cfd={cfd}"));
        }
        Presence {
            watchers,
            guest,
            reason: Reason::Normal,
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.watchers.kinds() & kind::CONNEVENTS != 0 {
            let (guest, cfd) = (&self.guest, self.guest.number);
            let reason = match self.reason {
                Reason::Normal => "normal",
                Reason::Error => "error",
            };
            self.watchers.notify(
                kind::CONNEVENTS,
                format_args!("type=conn_close {guest} reason={reason} cfd={cfd}"),
            );
        }
    }
}

/// Formats a key as in log lines.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut line = LineBuffer::default();
        line::push_escaped(&mut line, self.0);
        f.write_str(std::str::from_utf8(line.bytes()).expect("escaped bytes are ASCII"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(watching: &Watching) -> String {
        let mut output = Output::new(1, 1 << 20);
        watching.drain(&mut output);
        let bytes = output.only_piece().unwrap_or_default().to_vec();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_slow_watcher_misses_lines_and_is_told_how_many() {
        let watchers = Arc::new(Watchers::new(1, 60));
        let watching = Watching::new(watchers.clone(), kind::FETCHERS, 0, 7);
        watchers.set_time(5_000_001);
        for _ in 0..4 {
            watchers.notify(kind::FETCHERS, format_args!("type=item_get"));
        }
        let line = |number| format!("ts=5.000001 gid={number} type=item_get\n");
        assert_eq!(received(&watching), line(0));
        watchers.notify(kind::FETCHERS, format_args!("type=item_get"));
        assert_eq!(received(&watching), format!("skipped=3\n{}", line(4)));
        let want = Watched {
            watchers: 1,
            lines: 5,
            sent: 2,
            skipped: 3,
        };
        assert_eq!(watchers.watched(), want);
    }

    #[test]
    fn each_is_told_what_it_asked_for_until_it_goes() {
        let watchers = Arc::new(Watchers::new(2, 1 << 10));
        let fetches = Watching::new(watchers.clone(), kind::FETCHERS, 0, 7);
        let stores = Watching::new(watchers.clone(), kind::MUTATIONS, 1, 8);
        assert_eq!(watchers.kinds(), kind::FETCHERS | kind::MUTATIONS);
        watchers.notify(kind::MUTATIONS, format_args!("type=item_store"));
        let mut waiting = Vec::new();
        for core in 0..2 {
            watchers.each_waiting(core, |token| waiting.push((core, token)));
        }
        assert_eq!(waiting, [(1, 8)]);
        assert_eq!(
            (received(&fetches), received(&stores).lines().count()),
            (String::new(), 1)
        );
        drop(stores);
        assert_eq!(watchers.kinds(), kind::FETCHERS);
        drop(fetches);
        assert_eq!((watchers.kinds(), watchers.watched().watchers), (0, 0));
    }

    #[test]
    fn keys_are_escaped_and_connections_told_with_their_ends() {
        assert_eq!(Shown(b"a-b:#\xff").to_string(), "a-b%3A%23%FF");
        let watchers = Arc::new(Watchers::new(1, 1 << 10));
        let watching = Watching::new(watchers.clone(), kind::CONNEVENTS, 0, 7);
        let guest = Guest {
            token: 3,
            number: 9,
            peer: Some(SocketAddr::from(([10, 0, 0, 1], 77))),
            listener: Arc::new(Address::Unix("s".into())),
        };
        let mut presence = Presence::new(watchers.clone(), guest);
        presence.reason = Reason::Error;
        drop(presence);
        let peer = "rip=10.0.0.1 rport=77 transport=tcp";
        assert_eq!(
            received(&watching),
            format!(
                "ts=0.000000 gid=0 type=conn_new {peer} cfd=9\nts=0.000000 gid=1 type=conn_close {peer} reason=error cfd=9\n"
            )
        );
    }
}
