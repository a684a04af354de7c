//! Arguments of `drover serve`. Letters have memcached's meaning; options that memcached does not have get a long name
//! only. Every option is optional: [`Settings`](super::settings::Settings) fills in the rest.

use crate::rdma::DeviceArgs;
use std::path::PathBuf;

/// Arguments of `serve` and `config`, and the keys of the configuration file.
#[derive(clap::Args, Clone, Default, Debug)]
#[command(after_help = "\
memcached clients connect to -p and -l (default 127.0.0.1:11211) or to -s; with -s alone there is no TCP port, as
with memcached. They see the same items as native clients.

Native clients connect to --fabric or to --control-listen. Over a Unix socket that channel passes memory; over TCP it
answers `drover stats`, but cannot pass memory, so data needs --fabric or a Unix socket.

-o takes memcached's extended options; those that exist here: idle_timeout=SECONDS (close silent connections),
maxconns_fast and no_maxconns_fast (refuse connections beyond -c with an error, or let them wait),
watcher_logbuf_size=KIB (maximum queued per watching connection: 256), and for -Z ssl_chain_cert, ssl_key,
ssl_ca_cert (PEM files), ssl_verify_mode (client certificates: 0 none, 1 optional, 2 required), ssl_min_version
(tlsv1.2, tlsv1.3), ssl_session_cache (returning clients resume their session) and ssl_wbuf_size=KIB (encrypted
replies buffered for a slow client: 16). Options about slabs, LRU and hash tables are accepted and have no effect.

With rdma://host:port the control channel is TCP at host:port, and data goes through the RDMA device with that
address; if there is none, or the host is 0.0.0.0, through the best device (`drover devices` says which and why).

--system pilaf and farm serve the same commands of native clients: their GETs are READs of the server's memory, which
cost the server nothing; PUT and DELETE are messages. Each of the -t workers is a shard with its own table and
records; one address serves all shards. Of each shard's share of -m up to a sixth to a third is table, a slot (32
bytes) for every 96 to 192 bytes, and the rest records. pilaf's table begins with a 64th of that and grows as items
arrive, beyond it if records need no more memory; farm's does not grow. Flags about memcached clients, request slots
and the memory file are refused.

Exit status: 0 after SIGTERM or Ctrl-C, 64 usage, 66 no configuration file, 67 no such user, 69 address in use,
70 internal error, 71 system error, 77 no permission.")]
pub struct Args {
    /// Key-value system: herd; or pilaf or farm, whose clients read items without involving the server (see below)
    /// [default: herd]
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// Data fabric and name of this server: shm:NAME, shm:/path.sock or rdma://host:port [default: shm:drover]
    #[arg(long, value_name = "ADDR")]
    pub fabric: Option<String>,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// TCP port for memcached clients; 0: none; -1: any free port, which is logged and written to the file named by the
    /// environment variable MEMCACHED_PORT_FILENAME [default: 11211, or none with -s]
    #[arg(short = 'p', long, value_name = "PORT", allow_negative_numbers = true)]
    pub port: Option<i32>,
    /// UDP port: only 0, because UDP is not supported
    #[arg(short = 'U', long, value_name = "PORT")]
    pub udp_port: Option<u16>,
    /// Unix socket for memcached clients
    #[arg(short = 's', long, value_name = "PATH")]
    pub unix_socket: Option<PathBuf>,
    /// Mode of the Unix socket's file, octal [default: 700]
    #[arg(short = 'a', long, value_name = "MASK")]
    pub unix_mask: Option<String>,
    /// Addresses that -p listens on, each optionally with its own port: IP, name or IP:port, separated by commas or
    /// given several times [default: 127.0.0.1]; the prefix notls: exempts an address from -Z. rdma://host:port is the
    /// same as --fabric
    #[arg(short = 'l', long, value_name = "ADDR", value_delimiter = ',')]
    pub listen: Vec<String>,
    /// Additional control channel for native clients: tcp://host:port or unix:/path.sock
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    pub control_listen: Vec<String>,
    /// Protocol of memcached clients: ascii or auto, which mean the same here; binary is refused
    #[arg(short = 'B', long, value_name = "NAME")]
    pub protocol: Option<String>,
    /// Connections that may wait to be accepted [default: 1024]
    #[arg(short = 'b', long, value_name = "COUNT")]
    pub listen_backlog: Option<u32>,
    /// Requests served per turn of a memcached connection [default: 200]
    #[arg(short = 'R', long, value_name = "COUNT")]
    pub max_reqs_per_event: Option<usize>,
    /// Disable CAS: every CAS number is 0, and `cas` always matches
    #[arg(short = 'C', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_cas: Option<bool>,
    /// Refuse flush_all
    #[arg(short = 'F', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_flush_all: Option<bool>,
    /// Refuse to list keys (lru_crawler metadump, mgdump)
    #[arg(short = 'X', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_dumping: Option<bool>,
    /// Refuse `watch`
    #[arg(short = 'W', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_watch: Option<bool>,
    /// Allow the command `shutdown`
    #[arg(short = 'A', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_shutdown: Option<bool>,
    /// Extended options, separated by commas: see below
    #[arg(short = 'o', long, value_name = "LIST", value_delimiter = ',')]
    pub extended: Vec<String>,
    /// Memory for items, MiB [default: 64]
    #[arg(short = 'm', long, value_name = "MIB")]
    pub memory_limit: Option<u64>,
    /// Answer "full" instead of evicting old items
    #[arg(short = 'M', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_evictions: Option<bool>,
    /// Worker threads; each owns one partition of the keys and one core [default: half the cores, 1 to 4]
    #[arg(short = 't', long, value_name = "COUNT")]
    pub threads: Option<usize>,
    /// Largest item; bytes, or with k or m, from 1k to 8m and no more than half of a partition [default: 1m]
    #[arg(short = 'I', long, value_name = "SIZE")]
    pub max_item_size: Option<String>,
    /// Maximum number of native clients, and of memcached connections [default: 1024]
    #[arg(short = 'c', long, value_name = "COUNT")]
    pub conn_limit: Option<usize>,
    /// Clients that write their requests into slots of the server's memory, which is fastest; further ones, up to -c,
    /// send them as datagrams [default: 256]
    #[arg(long, value_name = "COUNT")]
    pub slot_clients: Option<usize>,
    /// Require reserved huge pages; too few are an error
    #[arg(short = 'L', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_largepages: Option<bool>,
    /// Keep items in this file, on tmpfs or hugetlbfs for speed. After a clean stop (SIGTERM, SIGINT, SIGUSR1) the next
    /// start takes them over; PATH.meta describes the file in between
    #[arg(short = 'e', long, value_name = "PATH")]
    pub memory_file: Option<PathBuf>,
    /// Lock all memory to prevent swapping
    #[arg(short = 'k', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub lock_memory: Option<bool>,
    /// Cores to pin workers to, such as 2,3 or 0-3; none: do not pin [default: the last of this process]
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// Maximum requests in flight per client and worker: a power of two up to 256 [default: 256]
    #[arg(long, value_name = "COUNT")]
    pub window_max: Option<u16>,
    /// Maximum size of a client's request slot: a multiple of 64 up to 1024; below 320 the longest keys are refused,
    /// because a slot holds the key and up to 44 bytes more [default: 1024]
    #[arg(long, value_name = "BYTES")]
    pub slot_bytes_max: Option<u16>,
    /// Idle polling time of a worker before it sleeps (or polls rarely, on a fabric without wake-ups), microseconds; 0:
    /// never sleep [default: 50]
    #[arg(long, value_name = "MICROSECONDS")]
    pub spin_us: Option<u64>,
    #[command(flatten)]
    pub ops: super::ops::OpsArgs,
    /// Read settings from this file: one `long-name = value` per line, # for comments
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Log more: -v decisions and clients, -vv everything
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Print the version
    #[arg(short = 'V', long)]
    pub version: bool,
    /// Refused: use a service manager
    #[arg(short = 'd', long)]
    pub daemon: bool,
}
