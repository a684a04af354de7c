//! [`Settings`]: limits and switches of a server, most of which are shown by `stats settings`.

/// Limits and switches of a server. Sessions obey them, except those that are only shown by `stats`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Version in the replies to `version` and `stats`; one word.
    pub version: String,
    /// Sockets of the surrounding program; only shown.
    pub sockets: SocketInfo,
    /// Which of the commands that can be switched off are allowed.
    pub commands: AllowedCommands,
    /// Settings of items: the size limit, whether they have CAS numbers, and what `stats` shows about their memory.
    /// Nothing here limits the memory: the partition does.
    pub items: ItemSettings,
    /// `-t`: number of threads; only shown.
    pub threads: usize,
    /// `-R`: maximum number of requests of a connection in one turn, where a multiget is one request; 0 counts as 1.
    pub requests_per_event: usize,
    /// `-v`: log level at the start; only shown.
    pub verbosity: u32,
    /// Second, counted as [`Executor::now_s`](crate::Executor::now_s), in which this process started; above 0 if it
    /// continues with the items of an earlier process. `stats` shows the uptime since then.
    pub began_s: u32,
    /// Maximum bytes of lines queued for each connection that has sent `watch`.
    pub watcher_bytes: usize,
    /// Number of buckets of the largest partition: dumps (`lru_crawler metadump`, `mgdump`) visit no bucket beyond it,
    /// so with 0, the default, they are empty.
    pub bucket_count: u64,
    /// Set in a gateway: the items are in another system. Then `stats` says nothing of items.
    pub gateway: Option<GatewayInfo>,
}

/// The system that a gateway serves, for `stats settings`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayInfo {
    /// Name of the system.
    pub system: String,
    /// Its address.
    pub address: String,
    /// Commands and flags (`mg:t`) that are refused, separated by commas.
    pub refuses: String,
}

impl Default for Settings {
    /// memcached's defaults.
    fn default() -> Settings {
        Settings {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sockets: SocketInfo::default(),
            commands: AllowedCommands::default(),
            items: ItemSettings::default(),
            threads: 4,
            requests_per_event: 20,
            verbosity: 0,
            began_s: 0,
            watcher_bytes: 256 << 10,
            bucket_count: 0,
            gateway: None,
        }
    }
}

/// Settings of the sockets. Only `stats` shows them: sockets are the surrounding program's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SocketInfo {
    /// `-p`: TCP port; 0: none, -1: any free one.
    pub tcp_port: i32,
    /// `-l`: addresses to listen at; `None` is shown as `NULL`.
    pub listen: Option<String>,
    /// `-s`: path of the Unix socket; `None` is shown as `NULL`.
    pub unix_socket: Option<String>,
    /// `-a`: mode of the Unix socket, as a number (0o700).
    pub unix_mask: u32,
    /// `-b`: backlog of listening sockets.
    pub backlog: usize,
    /// `-c`: maximum number of connections.
    pub connections_max: usize,
    /// `-o maxconns_fast`: whether excess connections are refused instead of left waiting.
    pub maxconns_fast: bool,
    /// `-o idle_timeout`: idle time after which a connection is closed, seconds; 0 = never.
    pub idle_timeout_s: u32,
    /// `-B`: protocol, in memcached's words: `ascii` or `auto-negotiate`.
    pub protocol: &'static str,
    /// `-Y`: path of the file with users and passwords. Whether a client must log in is decided by
    /// [`Session::new`](crate::Session::new), not here.
    pub auth_file: Option<String>,
    /// `-Z`: TLS settings; `None`: no TLS.
    pub tls: Option<TlsSettings>,
}

impl Default for SocketInfo {
    /// memcached's defaults.
    fn default() -> SocketInfo {
        SocketInfo {
            tcp_port: 11211,
            listen: None,
            unix_socket: None,
            unix_mask: 0o700,
            backlog: 1024,
            connections_max: 1024,
            maxconns_fast: true,
            idle_timeout_s: 0,
            protocol: "auto-negotiate",
            auth_file: None,
            tls: None,
        }
    }
}

/// TLS settings for `stats settings`, which only shows them.
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
    /// Oldest TLS version accepted: `tlsv1.2` or `tlsv1.3`.
    pub min_version: &'static str,
    /// Maximum encrypted bytes buffered per connection.
    pub write_bytes: usize,
    /// Whether returning clients may resume their session.
    pub session_cache: bool,
}

/// Whether each command that can be switched off is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllowedCommands {
    /// Whether `flush_all` is allowed; false with `-F`.
    pub flush: bool,
    /// Whether dumps of keys are allowed (`lru_crawler metadump`, `mgdump`, `stats cachedump`); false with `-X`.
    pub dump: bool,
    /// Whether `watch` is allowed; false with `-W`.
    pub watch: bool,
    /// Whether `shutdown` is allowed; true with `-A`.
    pub shutdown: bool,
}

impl Default for AllowedCommands {
    /// memcached's defaults.
    fn default() -> AllowedCommands {
        AllowedCommands {
            flush: true,
            dump: true,
            watch: true,
            shutdown: false,
        }
    }
}

/// Settings of items. Only `item_bytes_max` and `cas` affect items; `stats` shows the other fields. The partition limits the
/// memory itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemSettings {
    /// `-m`: memory for items, in bytes, of which each core's partition was created with an equal share: shown, until
    /// `cache_memlimit` changes it.
    pub memory_bytes: u64,
    /// `-I`: maximum bytes of an item as memcached counts them: key, value, 59 bytes of overhead, and 4 more if the
    /// client's flags are not 0.
    pub item_bytes_max: usize,
    /// Whether items are evicted, false with `-M`; only shown.
    pub evictions: bool,
    /// Whether items have CAS numbers. If false (`-C`), new items have CAS 0, and `cas`, and `ms` without flag `I`,
    /// accept any CAS.
    pub cas: bool,
    /// `-e`: path of the memory file; only shown.
    pub memory_file: Option<String>,
}

impl Default for ItemSettings {
    /// memcached's defaults.
    fn default() -> ItemSettings {
        ItemSettings {
            memory_bytes: 64 << 20,
            item_bytes_max: 1 << 20,
            evictions: true,
            cas: true,
            memory_file: None,
        }
    }
}
