//! [`Server`]: what all cores of a server share; [`ServerHooks`]: what the program around it does for it.

use crate::counters::Board;
use crate::detail::Detail;
use crate::watch::Watchers;
use drover_base::KeyHasher;
use drover_base::sync::AtomicU32;
use std::fmt::Write;
use std::sync::Arc;

/// What all cores know alike. Made once, read by all.
pub struct Server {
    /// Hashes keys, as native clients do.
    pub hasher: KeyHasher,
    /// Wall-clock time at which `now_s` was 0, in seconds since 1970: absolute expiry times are held against it.
    pub start_unix_s: u64,
    /// Of each core, by its number.
    pub boards: Vec<Arc<Board>>,
    /// Limits and switches.
    pub settings: Settings,
    /// The program.
    pub host: Box<dyn ServerHooks>,
    /// `stats detail`.
    pub detail: Detail,
    /// `watch`.
    pub watchers: Arc<Watchers>,
    /// How often counters were reset: cores that see it change set theirs to 0.
    pub(crate) resets: AtomicU32,
}

impl Server {
    /// A server of `core_count` cores that began at `start_unix_s`, seconds since 1970.
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
            settings,
            host,
            detail: Detail::default(),
            resets: AtomicU32::new(0),
        }
    }

    /// The CAS number that an item gets for which `wanted` was wanted: with `-C` all have 0.
    #[inline(always)]
    pub(crate) fn new_cas(&self, wanted: Option<u64>) -> Option<u64> {
        if self.settings.cas { wanted } else { Some(0) }
    }
}

/// Limits and switches, most of which `stats settings` tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// What `version` says; one word.
    pub version: String,
    /// `-m`, in bytes.
    pub memory_bytes: u64,
    /// `-c`.
    pub connections_max: usize,
    /// `-p`; 0 = none.
    pub tcp_port: u16,
    /// `-l`.
    pub listen: Option<String>,
    /// `-s`.
    pub unix_socket: Option<String>,
    /// `-a`, as a number (0o700).
    pub unix_mask: u32,
    /// `-t`.
    pub threads: usize,
    /// `-R`.
    pub requests_per_event: usize,
    /// `-b`.
    pub backlog: usize,
    /// `-I`, in bytes: key, value and memcached's header together must be shorter.
    pub item_bytes_max: usize,
    /// Not `-M`.
    pub evictions: bool,
    /// `-B`, in memcached's words.
    pub protocol: &'static str,
    /// `-o maxconns_fast`.
    pub maxconns_fast: bool,
    /// Not `-C`.
    pub cas: bool,
    /// Not `-F`.
    pub flush: bool,
    /// Not `-X`.
    pub dump: bool,
    /// Not `-W`.
    pub watch: bool,
    /// `-A`.
    pub shutdown: bool,
    /// `-Y`: whoever connects must log in first.
    pub auth_file: Option<String>,
    /// `-o idle_timeout`, in seconds; 0 = never.
    pub idle_timeout_s: u32,
    /// `-Z`.
    pub tls: Option<TlsSettings>,
    /// `-e`.
    pub memory_file: Option<String>,
    /// `-v`, as it was at the start.
    pub verbosity: u32,
    /// The second in which this process began: later than 0 if it goes on with what an earlier one left.
    pub began_s: u32,
    /// What may wait to be told to each connection that watches, in bytes.
    pub watcher_bytes: usize,
    /// Buckets of the largest partition: dumps go through them.
    pub bucket_count: u64,
}

/// What `stats settings` tells of TLS.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TlsSettings {
    /// Path of the server's certificate.
    pub chain_cert: String,
    /// Path of its key.
    pub key: String,
    /// Path of those that vouch for clients.
    pub ca_cert: Option<String>,
    /// memcached's number: 0 no certificates of clients, 1 if there is one, 2 required.
    pub verify_mode: u32,
    /// `tlsv1.2` or `tlsv1.3`.
    pub min_version: &'static str,
    /// Encrypted bytes that a connection may keep.
    pub write_bytes: usize,
    /// Clients that come again go on with their session.
    pub session_cache: bool,
}

impl Default for Settings {
    /// memcached's defaults.
    fn default() -> Settings {
        Settings {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            memory_bytes: 64 << 20,
            connections_max: 1024,
            tcp_port: 11211,
            listen: None,
            unix_socket: None,
            unix_mask: 0o700,
            threads: 4,
            requests_per_event: 20,
            backlog: 1024,
            item_bytes_max: 1 << 20,
            evictions: true,
            protocol: "auto-negotiate",
            maxconns_fast: true,
            cas: true,
            flush: true,
            dump: true,
            watch: true,
            shutdown: false,
            auth_file: None,
            idle_timeout_s: 0,
            tls: None,
            memory_file: None,
            verbosity: 0,
            began_s: 0,
            watcher_bytes: 256 << 10,
            bucket_count: 0,
        }
    }
}

/// Numbers of connections, which only the sockets know. All cores together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Connections {
    /// Open now.
    pub current: u64,
    /// Ever.
    pub total: u64,
    /// Closed at once because there were too many.
    pub rejected: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Times a connection had to wait because it had used up its requests for one event.
    pub yields: u64,
    /// Closed because nothing came for too long.
    pub idle_kicks: u64,
    /// Times that accepting stopped because there were too many.
    pub listen_disabled: u64,
    /// Whether it goes on.
    pub accepting: bool,
}

/// What the program around the protocol does for it. Called for rare commands only; must not block.
pub trait ServerHooks: Send + Sync {
    /// Whether a user may come in.
    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        let _ = (user, password);
        false
    }

    /// The end, as by SIGINT; `graceful`: as by SIGUSR1.
    fn shutdown(&self, graceful: bool) {
        let _ = graceful;
    }

    /// How much to log, 0-2.
    fn set_verbosity(&self, level: u32) {
        let _ = level;
    }

    /// Reads certificates again. Errors: one line that says why not.
    fn refresh_certificates(&self) -> Result<(), String> {
        Err("CLIENT_ERROR TLS is not enabled".to_owned())
    }

    /// The process.
    fn pid(&self) -> u32 {
        std::process::id()
    }

    /// Processor time of the process in microseconds: user, system.
    fn rusage_us(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Numbers of connections.
    fn connections(&self) -> Connections {
        Connections {
            accepting: true,
            ..Connections::default()
        }
    }

    /// Lines `STAT <id>:<name> <value>\r\n` about each connection (`addr`, `listen_addr`, `state`,
    /// `secs_since_last_cmd`).
    fn write_connections(&self, out: &mut dyn Write, now_s: u32) {
        let _ = (out, now_s);
    }

    /// Further lines for `stats`, from whoever has something to tell.
    fn write_stats(&self, out: &mut dyn Write) {
        let _ = out;
    }
}

/// A program that does nothing: for tests and examples.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoHooks;

impl ServerHooks for NoHooks {}
