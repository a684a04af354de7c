//! [`Server`]: state that all cores of a server share; [`ServerHooks`]: services of the surrounding program.

use crate::counters::Board;
use crate::detail::Detail;
use crate::watch::Watchers;
use drover_base::KeyHasher;
use drover_base::sync::AtomicU32;
use std::fmt::Write;
use std::sync::Arc;

/// State that all cores share.
pub struct Server {
    /// Hashes keys as native clients do.
    pub hasher: KeyHasher,
    /// Wall-clock time at which `now_s` was 0, in seconds since 1970; absolute expiry times are relative to it.
    pub start_unix_s: u64,
    /// Boards of the cores, by core index.
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
}

impl Server {
    /// A server of `core_count` cores that started at `start_unix_s`, seconds since 1970.
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

    /// The CAS to give an item instead of `wanted`: with `-C` all items have 0.
    #[inline(always)]
    pub(crate) fn new_cas(&self, wanted: Option<u64>) -> Option<u64> {
        if self.settings.cas { wanted } else { Some(0) }
    }
}

/// Limits and switches, most of which are shown by `stats settings`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Reply to `version`; one word.
    pub version: String,
    /// `-m`: memory for items, in bytes.
    pub memory_bytes: u64,
    /// `-c`: maximum number of connections.
    pub connections_max: usize,
    /// `-p`: TCP port; 0 = none.
    pub tcp_port: u16,
    /// `-l`: addresses to listen at.
    pub listen: Option<String>,
    /// `-s`: path of the Unix socket.
    pub unix_socket: Option<String>,
    /// `-a`: mode of the Unix socket, as a number (0o700).
    pub unix_mask: u32,
    /// `-t`: number of threads.
    pub threads: usize,
    /// `-R`: requests per connection and turn.
    pub requests_per_event: usize,
    /// `-b`: backlog of listening sockets.
    pub backlog: usize,
    /// `-I`, in bytes: key, value and memcached's header together must be shorter.
    pub item_bytes_max: usize,
    /// Whether items are evicted (not `-M`).
    pub evictions: bool,
    /// `-B`: protocol, in memcached's words.
    pub protocol: &'static str,
    /// `-o maxconns_fast`: excess connections are refused instead of left waiting.
    pub maxconns_fast: bool,
    /// Whether items have CAS numbers (not `-C`).
    pub cas: bool,
    /// Whether `flush_all` is allowed (not `-F`).
    pub flush: bool,
    /// Whether dumps are allowed (not `-X`).
    pub dump: bool,
    /// Whether `watch` is allowed (not `-W`).
    pub watch: bool,
    /// `-A`: whether `shutdown` is allowed.
    pub shutdown: bool,
    /// `-Y`: path of the auth file; if set, clients must log in first.
    pub auth_file: Option<String>,
    /// `-o idle_timeout`, in seconds; 0 = never.
    pub idle_timeout_s: u32,
    /// `-Z`: TLS settings.
    pub tls: Option<TlsSettings>,
    /// `-e`: path of the memory file.
    pub memory_file: Option<String>,
    /// `-v`: log level at the start.
    pub verbosity: u32,
    /// Second in which this process started; above 0 if it continues with the items of an earlier process.
    pub began_s: u32,
    /// Maximum bytes queued for each watching connection.
    pub watcher_bytes: usize,
    /// Number of buckets of the largest partition, for dumps.
    pub bucket_count: u64,
}

/// TLS settings for `stats settings`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TlsSettings {
    /// Path of the server's certificate.
    pub chain_cert: String,
    /// Path of the certificate's key.
    pub key: String,
    /// Path of the CA certificates for clients.
    pub ca_cert: Option<String>,
    /// memcached's number: 0 no client certificates, 1 optional, 2 required.
    pub verify_mode: u32,
    /// `tlsv1.2` or `tlsv1.3`.
    pub min_version: &'static str,
    /// Maximum encrypted bytes buffered per connection.
    pub write_bytes: usize,
    /// Whether returning clients may resume their session.
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

/// Numbers of connections, from the sockets of all cores together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Connections {
    /// Connections open now.
    pub current: u64,
    /// Connections ever opened.
    pub total: u64,
    /// Connections closed at once because there were too many.
    pub rejected: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Times a connection had to wait because it had used up its requests for one turn.
    pub yields: u64,
    /// Connections closed after the idle timeout.
    pub idle_kicks: u64,
    /// Times that accepting stopped because there were too many connections.
    pub listen_disabled: u64,
    /// Whether connections are being accepted.
    pub accepting: bool,
}

/// Services of the program around the protocol. Called for rare commands only; must not block.
pub trait ServerHooks: Send + Sync {
    /// Whether the user and password are valid.
    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        let _ = (user, password);
        false
    }

    /// Stops the server, as SIGINT does; if `graceful`, as SIGUSR1 does.
    fn shutdown(&self, graceful: bool) {
        let _ = graceful;
    }

    /// Sets the log level, 0-2.
    fn set_verbosity(&self, level: u32) {
        let _ = level;
    }

    /// Reloads the certificates.
    ///
    /// # Errors
    /// One line with the reason.
    fn refresh_certificates(&self) -> Result<(), String> {
        Err("CLIENT_ERROR TLS is not enabled".to_owned())
    }

    /// Process id of the server.
    fn pid(&self) -> u32 {
        std::process::id()
    }

    /// Processor time of the process in microseconds: (user, system).
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

    /// Writes lines `STAT <id>:<name> <value>\r\n` about each connection (`addr`, `listen_addr`, `state`,
    /// `secs_since_last_cmd`).
    fn write_connections(&self, out: &mut dyn Write, now_s: u32) {
        let _ = (out, now_s);
    }

    /// Writes additional lines for `stats`.
    fn write_stats(&self, out: &mut dyn Write) {
        let _ = out;
    }
}

/// Hooks that do nothing, for tests and examples.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoHooks;

impl ServerHooks for NoHooks {}
