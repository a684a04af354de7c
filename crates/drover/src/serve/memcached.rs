//! memcached clients: their sockets and protocol, run by the workers that own the items.

mod copies;
mod member_links;
mod table;

use super::ops::Files;
use super::processor_time;
use super::settings::Settings;
use super::ways::PLAIN;
use crate::admin::SocketStats;
use drover_base::{Cpu, HashSeed};
use drover_cluster::ServedShards;
use drover_kv::{CoActors, CoreInfo, MakeCoActor};
use drover_links::{CoreInboxes, LinkInbox, LinkPurpose, Links};
use drover_mem::NativeCpu;
use drover_memcached::{
    AllowedCommands, Connections, Core, Count, GatewayInfo, Guest, ItemSettings, Judgement, Login,
    MemberCounters, Rings, Server, ServerHooks, Session, Settings as Limits, SocketInfo, TlsSettings,
};
use drover_net::{Address, ConnTable, Known, Listener, SocketOptions, Sockets, Token, tls_layer};
use drover_store::{Exclusive, PartitionOptions, SharedReads, Sharing};
use drover_tls::{ClientCertificates, TlsOptions};
use drover_verbs::{Provider, Waker};
use rustix::process::{Signal, getpid, kill_process};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use member_links::MemberLinks;
use table::Table;

/// Reply to a connection beyond `-c`.
const REFUSAL: &[u8] = b"ERROR Too many open connections\r\n";

/// Bytes of each ring between two cores: several batches of usual requests.
const RING_BYTES: usize = 64 << 10;

/// State of the memcached side that all cores share.
pub struct Memcached {
    server: Arc<Server>,
    conn_table: Arc<ConnTable>,
    options: SocketOptions,
    /// Users and certificates.
    files: Arc<Files>,
    /// Listeners, taken by the accepting core.
    listeners: Mutex<Vec<Listener>>,
    /// Rings; each core takes its own.
    rings: Mutex<Vec<Option<Rings>>>,
    /// In a member of a service of several.
    member: Option<MemberParts>,
    /// What `stats` shows of it.
    shown_counters: ShownCounters,
    /// Number of cores that have or may get connections: while the server stops, each waits until it is 0.
    busy_cores: Arc<AtomicUsize>,
}

/// Counters of each core of a member, once it is one.
type ShownCounters = Arc<OnceLock<Vec<Arc<MemberCounters>>>>;

/// What the cores of a member share, and how each of them gets its links.
struct MemberParts {
    shards: Arc<ServedShards>,
    counters: Vec<Arc<MemberCounters>>,
    make_links: MakeLinks,
    /// In a member with replicas: the random number of this life of it.
    life: Option<u64>,
    /// Where links to each core go, once it has started.
    inboxes: Mutex<Vec<Option<CoreInbox>>>,
}

/// Where links to a core go: those for requests, and those for copies.
type CoreInbox = (LinkInbox, Option<LinkInbox>);

/// Makes the links of a core, on its thread.
pub type MakeLinks = Box<dyn Fn(LinkPurpose) -> io::Result<Links> + Send + Sync>;

/// Where items are.
pub enum Items<'a> {
    /// In partitions of these options, one per worker.
    Here(&'a PartitionOptions),
    /// In the system of a gateway.
    Elsewhere {
        info: GatewayInfo,
        /// Whether clients of the system can flush it.
        flush: bool,
    },
}

impl Memcached {
    /// Creates the state for workers whose clock shows `start_s` when
    /// the wall clock shows `now_unix_s` (both in seconds), and logs its choices. Serves nothing until the workers run
    /// the [co-actors](Self::co_actors) or, in a gateway, the [sockets](Self::sockets).
    ///
    /// # Errors
    /// No descriptor or memory is left.
    pub fn new(
        settings: &Settings,
        files: Arc<Files>,
        hash_seed: HashSeed,
        (now_unix_s, start_s): (u64, u32),
        items: Items<'_>,
        listeners: Vec<Listener>,
    ) -> io::Result<Memcached> {
        let core_count = settings.capacity.threads.value;
        let conn_table = Arc::new(ConnTable::new(core_count, settings.capacity.conn_limit.value)?);
        let ring_count = if matches!(items, Items::Here(_)) {
            core_count
        } else {
            0
        };
        let rings = Rings::between(ring_count, RING_BYTES).map_err(io::Error::other)?;
        let shown_counters = ShownCounters::default();
        let program = Box::new(Program {
            conn_table: conn_table.clone(),
            files: files.clone(),
            member_counters: shown_counters.clone(),
            saves: settings.memory.memory_file.value.is_some(),
        });
        let hasher = hash_seed.hasher();
        let server = Server::new(
            hasher,
            now_unix_s - u64::from(start_s),
            core_count,
            limits(settings, start_s, items),
            program,
        );
        if let Some(delimiter) = settings.commands.prefix_delimiter.value {
            server.detail.count_by(delimiter as u8); // ASCII, as the setting was checked
        }
        let extended = &settings.extended.value;
        let item_bytes = settings.capacity.max_item_bytes.value;
        let options = SocketOptions {
            idle_timeout_s: extended.idle_timeout_s,
            refusal: extended.maxconns_fast.then_some(REFUSAL),
            request_budget: budget(item_bytes),
            reply_budget: budget(item_bytes),
            ..SocketOptions::default()
        };
        announce(settings, core_count, &options);
        Ok(Memcached {
            server: Arc::new(server),
            conn_table,
            options,
            files,
            listeners: Mutex::new(listeners),
            rings: Mutex::new(rings.into_iter().map(Some).collect()),
            member: None,
            shown_counters,
            busy_cores: Arc::new(AtomicUsize::new(core_count)),
        })
    }

    /// Makes the cores those of a member that serves what `shards` says, and reaches the cores of others by links. `has_replicas`: other
    /// members keep copies of its items. To be called before the workers start.
    pub fn join(&mut self, shards: Arc<ServedShards>, make_links: MakeLinks, has_replicas: bool) {
        let core_count = shards.core_count();
        let counters: Vec<Arc<MemberCounters>> = (0..core_count).map(|_| Arc::default()).collect();
        self.shown_counters.get_or_init(|| counters.clone());
        self.member = Some(MemberParts {
            shards,
            counters,
            make_links,
            life: has_replicas.then(drover_mem::entropy),
            inboxes: Mutex::new(vec![None; core_count]),
        });
    }

    /// Where links to each core of a member go. `None`: not all workers have started.
    pub fn inboxes(&self) -> Option<CoreInboxes> {
        let inboxes = &self.member.as_ref()?.inboxes;
        let inboxes = inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Option<Vec<CoreInbox>> = inboxes.iter().cloned().collect();
        let (requests, copies): (_, Vec<_>) = all?.into_iter().unzip();
        Some(CoreInboxes {
            requests,
            copies: copies.into_iter().flatten().collect(),
        })
    }

    /// Counters of each core of a member; none if it is no member.
    pub fn member_counters(&self) -> &[Arc<MemberCounters>] {
        self.member.as_ref().map_or(&[], |member| &member.counters)
    }

    /// Handles to the counters of memcached clients that the cores publish.
    pub fn front(&self) -> SocketStats {
        SocketStats {
            conn_table: self.conn_table.clone(),
            boards: self.server.boards.clone(),
        }
    }

    /// Returns what makes the co-actor of each worker (its sockets and sessions); worker 0's takes all listeners. Several
    /// read each other's partitions. It fails if called twice for one worker, or if no descriptor or memory is left.
    pub fn co_actors<P: Provider<Cpu = NativeCpu>>(self: Arc<Self>) -> CoActors<P> {
        match self.server.boards.len() {
            1 => CoActors::Own(self.make::<P, Exclusive>()),
            _ => CoActors::ReadAll(self.make::<P, SharedReads>()),
        }
    }

    fn make<P: Provider<Cpu = NativeCpu>, S: Sharing + 'static>(self: Arc<Self>) -> MakeCoActor<P, S> {
        Arc::new(move |core_info| {
            let table = self
                .table(&core_info)
                .map_err(|error| format!("sockets: {error}"))?;
            Ok(Box::new(table))
        })
    }

    /// State that the sessions of all cores share.
    pub fn server(&self) -> Arc<Server> {
        self.server.clone()
    }

    /// The sockets of the core with this `index`, which `waker` wakes; those of core 0 take all listeners.
    ///
    /// # Errors
    /// No descriptor or memory is left.
    pub fn sockets<C: Cpu + 'static, S: Sharing + 'static>(
        &self,
        index: usize,
        waker: &Waker,
    ) -> io::Result<Sockets<Session<C, S>>> {
        let options = SocketOptions {
            core: index,
            ..self.options.clone()
        };
        let must_log_in = self.files.auth.is_some();
        let watchers = self.server.watchers.clone();
        let greet = move |token: Token, _, known: &Known| {
            Session::new(must_log_in).with_guest(guest(token, known), watchers.clone())
        };
        let mut sockets = Sockets::new(options, self.conn_table.clone(), greet)?;
        self.server.watchers.set_waker(index, waker.clone());
        if self.files.tls.is_some() {
            let files = self.files.clone();
            // As in memcached: file modes protect Unix sockets, and `notls:` disables TLS.
            sockets.set_layers(move |origin| {
                files
                    .tls
                    .as_ref()
                    .filter(|_| origin.is_tcp && origin.tag != PLAIN)
                    .map(tls_layer)
            });
        }
        if index == 0 {
            for listener in self
                .listeners
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .drain(..)
            {
                sockets.listen(listener)?;
            }
        }
        Ok(sockets)
    }

    fn table<C: Cpu + 'static, S: Sharing + 'static>(&self, core_info: &CoreInfo) -> io::Result<Table<C, S>> {
        let mut sockets = self.sockets(core_info.index, &core_info.waker)?;
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner)[core_info.index].take();
        let rings = rings.ok_or_else(|| io::Error::other("a second co_actor for one worker"))?;
        rings.set_waker(core_info.waker.clone());
        let (core, links, copies) = match &self.member {
            None => (Core::default(), None, None),
            Some(member) => {
                let (core, links, copies) = member.start(core_info)?;
                for links in [Some(&links), copies.as_ref()].into_iter().flatten() {
                    sockets.wake_for(links.fd())?;
                }
                (core, Some(links), copies)
            }
        };
        let (server, busy_cores) = (self.server.clone(), self.busy_cores.clone());
        let table = Table::new(sockets, rings, links, core, server, busy_cores);
        Ok(match copies {
            None => table,
            Some(copies) => table.with_copies(copies),
        })
    }
}

impl MemberParts {
    /// State and links of a core that starts, the second ones for copies.
    fn start(&self, core_info: &CoreInfo) -> io::Result<(Core, MemberLinks, Option<MemberLinks>)> {
        let (index, waker) = (core_info.index, core_info.waker.clone());
        let links = (self.make_links)(LinkPurpose::Requests)?;
        let copies = self.life.map(|_| (self.make_links)(LinkPurpose::Copies));
        let copies = copies.transpose()?;
        let mut inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        inboxes[index] = Some((links.inbox(), copies.as_ref().map(Links::inbox)));
        self.shards.set_waker(index, Box::new(move || waker.wake()));
        let mut core = Core::of_member(self.shards.clone(), index, self.counters[index].clone());
        if let Some(life) = self.life {
            core = core.with_replicas(life);
        }
        let of_member = |links| MemberLinks::new(links, self.shards.clone());
        Ok((core, of_member(links), copies.map(of_member)))
    }
}

/// Logs the choices.
fn announce(settings: &Settings, core_count: usize, options: &SocketOptions) {
    let (limit, extended) = (settings.capacity.conn_limit.value, &settings.extended.value);
    let beyond = if extended.maxconns_fast {
        "refused"
    } else {
        "left waiting"
    };
    let shared = match core_count {
        1 => String::new(),
        count => {
            format!("; worker 0 accepts, and the worker (of {count}) with the fewest connections serves")
        }
    };
    tracing::info!("memcached: up to {limit} connections, excess ones are {beyond}{shared}");
    tracing::info!(
        "memcached: per worker {} MiB for slow requests and {} MiB for slow replies",
        options.request_budget >> 20,
        options.reply_budget >> 20
    );
    if extended.idle_timeout_s > 0 {
        tracing::info!(
            "memcached: silent connections are closed after {} s (-o idle_timeout)",
            extended.idle_timeout_s
        );
    }
    for said in settings.foreign.without_effect() {
        tracing::info!("{said}");
    }
    if !extended.ignored.is_empty() {
        tracing::info!(
            "-o {}: ignored, drover has no such feature",
            extended.ignored.join(",")
        );
    }
}

/// Memory for slow requests or replies, bytes: enough for some of the longest.
fn budget(item_bytes_max: usize) -> usize {
    (32 << 20).max(16 * item_bytes_max)
}

/// Identity of a connection, for watchers.
fn guest(token: Token, known: &Known) -> Guest {
    Guest {
        token: token.0,
        number: known.number,
        peer: match known.peer {
            Some(Address::Tcp(peer)) => Some(peer),
            _ => None,
        },
        listener: known.listener.clone(),
    }
}

/// Hooks that let memcached clients query and control the process.
struct Program {
    conn_table: Arc<ConnTable>,
    files: Arc<Files>,
    /// Counters of the cores of a member.
    member_counters: ShownCounters,
    /// Whether there is a memory file, so that a graceful end keeps the items.
    saves: bool,
}

impl ServerHooks for Program {
    fn authenticate(&self, login: &Login<'_>, now_s: u32) -> Judgement {
        let doors = self.files.auth.as_ref();
        doors.map_or(Judgement::Refused, |doors| doors.judge_memcached(login, now_s))
    }

    fn refresh_certificates(&self) -> Result<(), String> {
        let refuse = |why: String| format!("CLIENT_ERROR {why}");
        let done = self.files.reload_tls();
        done.ok_or_else(|| refuse("TLS is not enabled".into()))?
            .map_err(refuse)
    }

    fn rusage_us(&self) -> Option<(u64, u64)> {
        processor_time::of_process_us()
    }

    fn write_stats(&self, out: &mut dyn Write) {
        let mut tell = |name: &str, value: u64| {
            let _ = write!(out, "STAT {name} {value}\r\n"); // into memory
        };
        if let Some(cores) = self.member_counters.get() {
            let sum = |of: fn(&MemberCounters) -> &Count| cores.iter().map(|core| of(core).get()).sum();
            tell("cluster_forwarded", sum(|core| &core.forwarded));
            tell("cluster_served", sum(|core| &core.served));
            tell("cluster_elsewhere", sum(|core| &core.elsewhere));
            tell("cluster_parked", sum(|core| &core.parked));
            tell("cluster_gave_up", sum(|core| &core.gave_up));
            tell("cluster_lost", sum(|core| &core.lost));
        }
        let Some(tls) = &self.files.tls else { return };
        tell("ssl_handshake_errors", tls.counters().handshake_errors());
        if tls.options().session_cache {
            tell("ssl_new_sessions", tls.counters().new_sessions());
        }
        tell("time_since_server_cert_refresh", self.files.tls_age_s());
    }

    fn write_connections(&self, out: &mut dyn Write, now_s: u32) {
        // Ordered by age, over all cores.
        let mut told = BTreeMap::new();
        self.conn_table.each_known(|known| {
            let id = known.number;
            let mut lines = String::new();
            let mut tell = |name: &str, value: &dyn Display| {
                let _ = write!(lines, "STAT {id}:{name} {value}\r\n"); // into memory
            };
            tell("addr", &shown(known.peer.as_ref()));
            tell("listen_addr", &shown(Some(&known.listener)));
            tell("state", &"conn_read");
            tell("secs_since_last_cmd", &now_s.saturating_sub(known.last_s()));
            told.insert(id, lines);
        });
        for lines in told.values() {
            let _ = out.write_str(lines);
        }
    }

    fn shutdown(&self, graceful: bool) {
        // Without a memory file SIGUSR1 would be refused, and SIGINT is just as graceful.
        let signal = if graceful && self.saves {
            Signal::USR1
        } else {
            Signal::TERM
        };
        let _ = kill_process(getpid(), signal); // a process may always signal itself
    }

    fn connections(&self) -> Connections {
        let counters = self.conn_table.all_counters();
        Connections {
            current: counters.current,
            total: counters.total,
            rejected: counters.rejected,
            bytes_read: counters.bytes_read,
            bytes_written: counters.bytes_written,
            yields: counters.yields,
            idle_kicks: counters.idle_kicks,
            listen_disabled: counters.listen_disabled,
            accepting: !self.conn_table.is_full(),
        }
    }
}

/// An address in memcached's notation.
fn shown(addr: Option<&Address>) -> String {
    match addr {
        Some(Address::Tcp(addr)) if addr.is_ipv6() => format!("tcp6:{addr}"),
        Some(Address::Tcp(addr)) => format!("tcp:{addr}"),
        Some(Address::Unix(path)) => format!("unix:{}", path.display()),
        None => "unknown".to_owned(),
    }
}

/// Seconds since 1970.
pub(super) fn unix_time_s() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    u64::try_from(now.tv_sec).unwrap_or(0)
}

/// TLS settings for `stats settings`.
fn tls_shown(tls: &TlsOptions) -> TlsSettings {
    let shown = |path: &std::path::Path| path.display().to_string();
    TlsSettings {
        chain_cert: shown(&tls.chain_cert),
        key: shown(&tls.key),
        ca_cert: tls.ca_cert.as_deref().map(shown),
        verify_mode: match tls.client_certificates {
            ClientCertificates::None => 0,
            ClientCertificates::IfAny => 1,
            ClientCertificates::Required => 2,
        },
        min_version: if tls.only_tls13 { "tlsv1.3" } else { "tlsv1.2" },
        write_bytes: tls.kept_bytes_max,
        session_cache: tls.session_cache,
    }
}

/// Limits of the protocol. Every field is named here: a default would switch off what it belongs to.
fn limits(settings: &Settings, began_s: u32, items: Items<'_>) -> Limits {
    let (bucket_count, gateway, flush) = match items {
        Items::Here(partition) => (partition.bucket_count_max() as u64, None, true),
        Items::Elsewhere { info, flush } => (0, Some(info), flush),
    };
    // A gateway cannot list what is another's, and sees no evictions.
    let is_here = gateway.is_none();
    Limits {
        // Clients infer features from this version: drover behaves as this memcached.
        version: concat!("1.6.18-drover-", env!("CARGO_PKG_VERSION")).to_owned(),
        sockets: sockets_shown(settings),
        commands: AllowedCommands {
            flush: flush && !settings.commands.disable_flush_all.value,
            dump: is_here && !settings.commands.disable_dumping.value,
            watch: is_here && !settings.commands.disable_watch.value,
            shutdown: settings.commands.enable_shutdown.value,
        },
        items: ItemSettings {
            memory_bytes: settings.capacity.memory_mib.value << 20,
            item_bytes_max: settings.capacity.max_item_bytes.value,
            evictions: !settings.capacity.disable_evictions.value,
            cas: !settings.commands.disable_cas.value,
            memory_file: path_shown(&settings.memory.memory_file.value),
        },
        threads: settings.capacity.threads.value,
        requests_per_event: settings.sockets.requests_per_event.value,
        watcher_bytes: settings.extended.value.watcher_kib << 10,
        verbosity: u32::from(settings.verbose),
        began_s,
        bucket_count,
        gateway,
    }
}

/// Settings of the sockets for `stats settings`.
fn sockets_shown(settings: &Settings) -> SocketInfo {
    SocketInfo {
        tcp_port: settings.sockets.port.value,
        listen: Some(settings.sockets.listen.value.join(",")),
        unix_socket: path_shown(&settings.sockets.unix_socket.value),
        unix_mask: settings.sockets.unix_mask.value,
        backlog: settings.sockets.backlog.value as usize,
        connections_max: settings.capacity.conn_limit.value,
        maxconns_fast: settings.extended.value.maxconns_fast,
        idle_timeout_s: settings.extended.value.idle_timeout_s,
        protocol: match settings.sockets.protocol.value.as_str() {
            "ascii" => "ascii",
            _ => "auto-negotiate",
        },
        auth_file: path_shown(&settings.ops.auth_file.value),
        tls: settings.ops.tls.as_ref().map(tls_shown),
    }
}

/// A path for `stats settings`.
fn path_shown(path: &Option<PathBuf>) -> Option<String> {
    path.as_ref().map(|path| path.display().to_string())
}
