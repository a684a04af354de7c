//! [`Server`]: state that all cores of a server share; [`ServerHooks`]: services of the surrounding program.

use crate::counters::Board;
use crate::detail::Detail;
use crate::dump::limit::LineLimits;
use crate::in_place::Readers;
use crate::settings::Settings;
use crate::watch::Watchers;
use drover_base::KeyHasher;
use drover_base::sync::{AtomicU32, AtomicU64, Ordering};
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

/// State that all cores share.
pub struct Server {
    /// Hashes keys; it must agree with the native clients of the same partitions.
    pub hasher: KeyHasher,
    /// Wall-clock time at which [`Executor::now_s`](crate::Executor::now_s) was 0, in seconds since 1970; before the
    /// start of this process if that continues with the items of an earlier one.
    pub start_unix_s: u64,
    /// Published counters of the cores, one board per core, by core index.
    pub boards: Vec<Arc<Board>>,
    /// Limits and switches.
    pub settings: Settings,
    /// Services of the surrounding program.
    pub host: Box<dyn ServerHooks>,
    /// Counts of `stats detail`.
    pub detail: Detail,
    /// Connections that `watch`.
    pub watchers: Arc<Watchers>,
    /// Number of counter resets; a core that sees it change zeroes its counters.
    pub(crate) resets: AtomicU32,
    /// Memory for items in bytes: `-m`, or what `cache_memlimit` has set. A core that sees it change limits its partition.
    pub(crate) memory_bytes: AtomicU64,
    /// Second, as of [`Executor::now_s`](crate::Executor::now_s), at which the last `flush_all` takes effect; 0: there was none.
    pub(crate) flushed_s: AtomicU32,
    /// Limits of the dumps under way.
    pub(crate) line_limits: Arc<LineLimits>,
    /// Access of all cores to the partitions of the others.
    pub(crate) readers: Readers,
}

impl Server {
    /// Creates the state for `core_count` cores; the other arguments become the fields of the same names.
    pub fn new(
        hasher: KeyHasher,
        start_unix_s: u64,
        core_count: usize,
        settings: Settings,
        host: Box<dyn ServerHooks>,
    ) -> Server {
        Server {
            hasher,
            start_unix_s,
            boards: (0..core_count).map(|_| Arc::default()).collect(),
            watchers: Arc::new(Watchers::new(core_count, settings.watcher_bytes)),
            memory_bytes: AtomicU64::new(settings.items.memory_bytes),
            settings,
            host,
            detail: Detail::default(),
            resets: AtomicU32::new(0),
            flushed_s: AtomicU32::new(0),
            line_limits: Arc::default(),
            readers: Readers::of_cores(core_count),
        }
    }

    /// Memory for items in bytes: `-m`, or what `cache_memlimit` has set.
    pub(crate) fn memory_bytes(&self) -> u64 {
        // Relaxed: each core follows at a step of its own.
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// The CAS to give an item instead of `wanted`: with `-C` all items have 0.
    #[inline(always)]
    pub(crate) fn new_cas(&self, wanted: Option<u64>) -> Option<u64> {
        if self.settings.items.cas { wanted } else { Some(0) }
    }
}

/// Counters of connections for `stats`, summed over all cores; the surrounding program, which has the sockets, fills
/// them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Connections {
    /// Connections open now.
    pub current: u64,
    /// Connections ever opened, without those rejected.
    pub total: u64,
    /// Connections closed at once because there were too many.
    pub rejected: u64,
    /// Bytes of requests read; under TLS, plain bytes.
    pub bytes_read: u64,
    /// Bytes of replies written; under TLS, plain bytes.
    pub bytes_written: u64,
    /// Times a connection had to wait because it had used up its requests for one turn.
    pub yields: u64,
    /// Connections closed after the idle timeout.
    pub idle_kicks: u64,
    /// Times that accepting stopped because there were too many connections.
    pub listen_disabled: u64,
    /// Whether a further connection would be served; `drover serve` sets it to false while the maximum number is open.
    pub accepting: bool,
}

/// An attempt to log in.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// The client's host; `None`: this machine, by a Unix socket.
    pub host: Option<IpAddr>,
    /// The user that it names.
    pub user: &'a [u8],
    /// The password that it gives.
    pub password: &'a [u8],
}

/// What is said about a [`Login`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// The client may go on.
    Accepted,
    /// User or password are wrong.
    Refused,
    /// Not yet: its host has guessed. It is judged in another second.
    Later,
}

/// Services of the program around the protocol. Called for rare commands only; must not block. Each method has a
/// default, which [`NoHooks`] uses.
pub trait ServerHooks: Send + Sync {
    /// Judges a user and a password, in second `now_s` since the server's start. Default: refused.
    fn authenticate(&self, login: &Login<'_>, now_s: u32) -> Judgement {
        let _ = (login, now_s);
        Judgement::Refused
    }

    /// Asks the program to stop: as SIGTERM does or, if `graceful` and the server has a memory file, as SIGUSR1 does
    /// (the items stay in the file). Returns at once. Default: does nothing.
    fn shutdown(&self, graceful: bool) {
        let _ = graceful;
    }

    /// Sets the log level: 0, 1 or 2; larger numbers of a client arrive as 2. Default: does nothing.
    fn set_verbosity(&self, level: u32) {
        let _ = level;
    }

    /// Reloads the TLS certificates. Default: the error that TLS is not enabled.
    ///
    /// # Errors
    /// The line to send to the client, without its end, such as `CLIENT_ERROR TLS is not enabled`.
    fn refresh_certificates(&self) -> Result<(), String> {
        Err("CLIENT_ERROR TLS is not enabled".to_owned())
    }

    /// Process id of the server. Default: that of this process.
    fn pid(&self) -> u32 {
        std::process::id()
    }

    /// Processor time of the process in microseconds: (user, system). Default: `None`, unknown; `stats` then leaves it
    /// out.
    fn rusage_us(&self) -> Option<(u64, u64)> {
        None
    }

    /// Numbers of connections. Default: zeros, accepting.
    fn connections(&self) -> Connections {
        Connections {
            accepting: true,
            ..Connections::default()
        }
    }

    /// Writes lines `STAT <id>:<name> <value>\r\n` about each connection (`addr`, `listen_addr`, `state`,
    /// `secs_since_last_cmd`). `now_s`: [`Executor::now_s`](crate::Executor::now_s). Default: none.
    fn write_connections(&self, out: &mut dyn Write, now_s: u32) {
        let _ = (out, now_s);
    }

    /// Writes additional lines `STAT <name> <value>\r\n` for `stats`. Default: none.
    fn write_stats(&self, out: &mut dyn Write) {
        let _ = out;
    }
}

/// Hooks with the default answers of [`ServerHooks`], for tests and examples.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoHooks;

impl ServerHooks for NoHooks {}
