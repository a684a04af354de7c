//! Arguments of `drover serve`. Letters have memcached's meaning; options that memcached does not have get a long name
//! only. Every option is optional: [`Settings`](super::settings::Settings) fills in the rest.

use super::extended::ExtendedArgs;
use super::ops::OpsArgs;
use super::settings::{
    CapacityArgs, ClusterArgs, CommandArgs, ForeignArgs, MemoryArgs, ServiceArgs, SocketArgs, WorkerArgs,
};
use crate::rdma::DeviceArgs;
use std::path::PathBuf;

/// Arguments of `serve` and `config`, and the keys of the configuration file.
#[derive(clap::Args, Clone, Default, Debug)]
#[command(after_help = "--help says more: about addresses, -o, the systems and gateways.")]
#[command(after_long_help = "\
memcached clients connect to -p and -l (default 127.0.0.1:11211) or to -s; with -s alone there is no TCP port, as \
with memcached. They see the same items as native clients.

Native clients connect to --fabric or to --control-listen. Over a Unix socket that channel passes memory; over TCP it \
answers `drover stats`, but cannot pass memory, so data needs --fabric or a Unix socket.

-o takes memcached's extended options; those that exist here: idle_timeout=SECONDS (close silent connections), \
maxconns_fast and no_maxconns_fast (refuse connections beyond -c with an error, or let them wait), \
watcher_logbuf_size=KIB (maximum queued per watching connection: 256), and for -Z ssl_chain_cert, ssl_key, \
ssl_ca_cert (PEM files), ssl_verify_mode (client certificates: 0 none, 1 optional, 2 required), ssl_min_version \
(tlsv1.2, tlsv1.3), ssl_session_cache (returning clients resume their session) and ssl_wbuf_size=KIB (encrypted \
replies buffered for a slow client: 16). Options about slabs, LRU and hash tables are accepted and have no effect.

With rdma://host:port the control channel is TCP at host:port, and data goes through the RDMA device with that \
address; if there is none, or the host is 0.0.0.0, through the best device (`drover devices` says which and why).

--system pilaf and farm serve the same commands of native clients: their GETs are READs of the server's memory, which \
cost the server nothing; PUT and DELETE are messages. Each of the -t workers is a shard with its own table and \
records; one address serves all shards. Of each shard's share of -m up to a sixth to a third is table, a slot (32 \
bytes) for every 96 to 192 bytes, and the rest records. pilaf's table begins with a 64th of that and grows as items \
arrive, beyond it if records need no more memory; farm's does not grow. Flags about memcached clients, request slots \
and the memory file are refused.

--system jakiro and server-reply execute every operation of their native clients, which write requests into slots: the \
clients of jakiro read the results from the server's memory, and server-reply writes them to the clients. Of each \
shard's share of -m an eighth is index, and the rest items; the same flags are refused. rdma-memcached does as \
server-reply, but all its workers serve every key from one store behind locks, as memcached's do, and clients read \
values of 8 KiB and more in the server's memory.

--system race starts memory nodes, one for each of -t, whose processors do nothing: clients READ, WRITE and CAS a hash \
table in them. memcached clients are served by a gateway beside them, whose -t threads are such a client (see --pool); \
with -p 0 there are nodes alone.

--connect ADDR starts a gateway: it answers memcached clients from the service that runs at ADDR, whatever its system, \
and has no items of its own. Several gateways to one service are one cache, which its native clients use, too; CAS \
numbers are the service's versions. Refused are watch, dumps, cache_memlimit, me, flush_all (but for --system race), \
and the flags of meta commands that are about times, marks and chosen CAS numbers of items (`stats settings` lists \
them). -t are the gateway's threads; flags about memory, request slots and native clients are refused.

--pool ADDR,... starts a gateway to a pool of memory nodes (`drover memory-node`, `drover pool create`): its threads are \
one compute process of the pool. Keys on a node that does not answer get SERVER_ERROR, others are served; when the node \
is back, or the process has lost its lease, it enters the pool again. When memory is full the oldest of a few items goes; \
with -M new ones are refused. flush_all flushes the pool, and takes a second or two. --secret-file has the secret that the nodes require.

--cluster etcd://HOST:PORT[,...]/NAME makes this server a member of service NAME, together with every other server that \
names it: each owns a share of the keys, in proportion to its -m. memcached clients may ask any member: it answers for its \
own keys and asks the owners of the others. Native clients connect to the same URL and ask the owners themselves. Members \
speak with each other at --advertise, over TCP without TLS: a secret that etcd keeps shuts strangers out, but the network \
between members must be trusted. -Y holds at each member for its own clients. Without etcd at the start a member waits for \
it; SIGTERM leaves the service at once, and what was not handed over before (`drover cluster drain`) is lost, unless the \
service has --replicas 2: then each shard has a copy at another member, which serves it when its owner is gone.

etcd://HOST:PORT[,...]/NAME?tls-ca=FILE reaches etcd over TLS: its certificate must be signed by a CA in FILE, and be for HOST, or for \
the name that &tls-name=NAME adds. &tls-cert=FILE&tls-key=FILE is the certificate of this end, for an etcd that asks for one. The files \
are read once, before -u. Every command and client that takes such a URL takes these parameters.

Exit status: 0 after SIGTERM or Ctrl-C, 64 usage, 66 no configuration file, 67 no such user, 69 address in use, \
70 internal error, 71 system error, 77 no permission.")]
pub struct Args {
    #[command(flatten)]
    pub service: ServiceArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub sockets: SocketArgs,
    #[command(flatten)]
    pub commands: CommandArgs,
    #[command(flatten)]
    pub extended: ExtendedArgs,
    #[command(flatten)]
    pub capacity: CapacityArgs,
    #[command(flatten)]
    pub memory: MemoryArgs,
    #[command(flatten)]
    pub workers: WorkerArgs,
    #[command(flatten)]
    pub ops: OpsArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub foreign: ForeignArgs,
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// The configuration file, and arguments that are no settings.
#[derive(clap::Args, Clone, Default, Debug)]
#[command(next_help_heading = "Program")]
pub struct ProgramArgs {
    /// Read settings from this file: one `long-name = value` per line, # for comments
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Log more: -v clients that come and go, -vv control messages
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Print the version
    #[arg(short = 'V', long)]
    pub version: bool,
    /// Refused: use a service manager
    #[arg(short = 'd', long)]
    pub daemon: bool,
}
