//! `drover memory-node`: one thread, mostly asleep.

use super::repair::Repairer;
use super::{NodesArgs, SecretArgs, check};
use crate::admin::{Admin, AskDevice, NodeSnapshot, Snapshot, Source, Stopper, ask_device};
use crate::auth::Doors;
use crate::exit::{self, Failure};
use crate::exposure::{Exposure, Tls};
use crate::rdma::DeviceArgs;
use crate::serve::{Files, Signal, Signals, own_addr, start_logging, tls_options};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_cache_sim::sizes::parse_size;
use drover_client::{Fabric, Job};
use drover_control::{ControlAddr, ControlListener, Guard};
use drover_mem::{NativeCpu, PageWish};
use drover_memnode::node::{FenceMode, Node, NodeOptions, NodeState};
use drover_memnode::{ClientId, ClientState};
use drover_verbs::{Context, DeviceCounters, Provider};
use drover_verbs_shm::ShmDevice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TEACH: &str = "\
A node belongs to no pool at first: `drover pool create` makes several nodes one. Compute processes then READ, WRITE and \
CAS its memory; the node's own core only watches who is alive. All processes of a pool trust each other.";

/// Time between two copies of a node's numbers for the admin port.
const PUBLISH_EVERY: Ns = Ns::from_ms(100);

/// Time within which the node's own repair gets answers, and within which other clients must take notice of it.
const REPAIR_MS: u64 = 5_000;

/// Arguments of `memory-node`.
#[derive(clap::Args)]
#[command(after_help = TEACH)]
pub struct NodeArgs {
    /// Address: shm:NAME or rdma://host:port
    #[arg(long, value_name = "ADDR", default_value = "shm:memory-node")]
    bind: ControlAddr,
    /// Memory for header, tables and data: MiB, or a number with k, m, g or t
    #[arg(short, long, value_name = "SIZE", default_value = "64", value_parser = parse_size)]
    memory: u64,
    /// File that the memory is mapped from: it outlives the process, not the machine
    #[arg(short = 'e', long, value_name = "FILE")]
    memory_file: Option<PathBuf>,
    /// Most compute processes, dead ones that wait for recovery included
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    clients: u32,
    /// Most memory of one compute process, as -m; all of it if not given
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    quota: Option<u64>,
    /// What is done about a process that is shut out and stopped inside a request, over shm: wait until it goes on, or kill it
    #[arg(long, value_name = "MODE", default_value = "wait")]
    fence: Fence,
    /// Time that other clients have to repair what one that was shut out has left; then the node does it itself, through its own
    /// device. Milliseconds; 0: never
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    repair_after_ms: u64,
    /// Where to serve /metrics and /healthz
    #[arg(long, value_name = "IP:PORT")]
    metrics_listen: Option<SocketAddr>,
    /// Log more; twice: everything
    #[arg(short, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    secret: SecretArgs,
    /// Compute processes and monitors must prove to be a user of this file: lines `user:password`
    #[arg(long, short = 'Y', value_name = "FILE", conflicts_with = "secret_file")]
    auth_file: Option<PathBuf>,
    /// Let in everybody who reaches an address beyond this machine, which is else refused without -Y or -Z
    #[arg(long)]
    insecure: bool,
    /// Use TLS on TCP; needs -o ssl_chain_cert=FILE,ssl_key=FILE, which are reloaded on SIGHUP, as -Y's file is
    #[arg(long = "enable-ssl", short = 'Z')]
    tls: bool,
    /// Options of -Z, as those of serve: ssl_chain_cert, ssl_key, ssl_ca_cert, ssl_verify_mode
    #[arg(long = "extended", short = 'o', value_name = "LIST", value_delimiter = ',')]
    extended: Vec<String>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// See [`FenceMode`].
#[derive(Clone, Copy, clap::ValueEnum)]
enum Fence {
    Wait,
    Kill,
}

pub(super) fn serve(args: &NodeArgs) -> Result<(), Failure> {
    start_logging(args.verbose);
    let usage = |why: &str| Failure::new(exit::USAGE, why);
    let bytes = usize::try_from(args.memory).map_err(|_| usage("-m: too much"))?;
    let chunks = |bytes: u64| u32::try_from(bytes >> 14).unwrap_or(u32::MAX);
    let options = NodeOptions {
        pages: PageWish::HugeIfAny,
        file: args.memory_file.clone(),
        client_count: args.clients,
        fence: match args.fence {
            Fence::Wait => FenceMode::Wait,
            Fence::Kill => FenceMode::Kill,
        },
        quota_chunks: args.quota.map_or(u32::MAX, chunks),
        ..NodeOptions::new(bytes)
    };
    let secret = args.secret.read()?;
    let doors = args
        .auth_file
        .as_deref()
        .map(Doors::read)
        .transpose()?
        .map(Arc::new);
    let addr = args.device.of(&args.bind)?;
    let exposure = Exposure {
        is_insecure: args.insecure,
        has_users: doors.is_some() || secret.is_some(),
    };
    let tls = tls_options(args.tls, &args.extended)?;
    let reach = if tls.is_some() { Tls::On } else { Tls::Off };
    exposure.check_control("--bind", &addr, reach)?;
    if let Some(addr) = &args.metrics_listen {
        let has_users = doors.is_some();
        Exposure {
            has_users,
            ..exposure
        }
        .check("--metrics-listen", addr, addr.ip(), Tls::None)?;
    }
    let fabric = Fabric::serving(&addr, ShmDevice::of_pool())?;
    let signals = Signals::catch()?;
    let listener = ControlListener::bind(&addr).map_err(|error| Failure::new(exit::UNAVAILABLE, error))?;
    // As whom the node comes to itself, to repair.
    let own = match &doors {
        Some(doors) => doors.any_user(),
        None => secret.clone(),
    };
    let guard = match (&doors, secret) {
        (Some(doors), _) => Some(doors.native()),
        (None, secret) => secret.map(|secret| Guard::new(secret)),
    };
    let files = Files::of_native(doors.clone(), tls)?;
    let listener = listener.guarded(guard).with_tls(files.native_tls.clone());
    let mut admin = args.metrics_listen.map(Admin::bind).transpose()?;
    if let Some((admin, _)) = &mut admin {
        admin.guard(doors);
        let addr = admin
            .addr()
            .map_err(|error| Failure::new(exit::OS_ERROR, error))?;
        println!("metrics: {addr}");
    }
    let repairer = match args.repair_after_ms {
        0 => None,
        after_ms => {
            let node = NodesArgs {
                nodes: vec![own_addr(&listener)?.with_credentials(own)],
                timeout_ms: REPAIR_MS,
                secret: args.secret.clone(),
                access: Default::default(),
                device: args.device.clone(),
                alone: true,
            };
            Some(Repairer::start(node, Ns::from_ms(after_ms))?)
        }
    };
    fabric.run(Serve {
        admin,
        repairer,
        options,
        signals,
        files,
        listener,
    })
}

/// A node's numbers for the admin port, as they were a short while ago.
struct Published {
    numbers: Mutex<Option<(Ns, NodeSnapshot)>>,
    device: AskDevice,
}

impl Source for Published {
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String> {
        let now = NativeCpu::new(0).refresh();
        let published = self.numbers.lock().expect("no thread panics with it").clone();
        // An idle node looks at its clock once a second.
        let is_fresh = |at: Ns| now.since(at) < Ns(patience.as_nanos() as u64) + Ns::from_s(1);
        match published.filter(|(at, _)| is_fresh(*at)) {
            Some((_, node)) => Ok(Snapshot::MemoryNode(Box::new(node))),
            None => Err("the memory node does not answer".to_owned()),
        }
    }

    fn device(&self) -> Option<DeviceCounters> {
        (self.device)()
    }
}

struct Serve {
    admin: Option<(Admin, Stopper)>,
    repairer: Option<Repairer>,
    options: NodeOptions,
    signals: Signals,
    files: Files,
    listener: ControlListener,
}

impl Job for Serve {
    type Answer = Result<(), Failure>;

    fn run<P: Provider<Cpu = NativeCpu>>(mut self, device: &P::Device) -> Result<(), Failure> {
        let mut node = Node::<P>::new(device, &self.options)?;
        let header = node.stats();
        tracing::info!(
            addr = %self.listener.addr(),
            chunks = header.supply.chunk_count,
            used = header.supply.used(),
            incarnation = format!("{:016x}", header.incarnation),
            "a memory node"
        );
        println!("ready: {}", self.listener.addr());
        let published = Published {
            numbers: Mutex::default(),
            device: ask_device::<P>(device),
        };
        std::thread::scope(|scope| {
            // Dropped when the loop ends, which ends the other thread.
            let stopper = self.admin.take().map(|(admin, stopper)| {
                scope.spawn(|| admin.run(&published));
                stopper
            });
            self.step(&mut node, stopper.is_some().then_some(&published));
        });
        Ok(())
    }
}

impl Serve {
    /// Steps the node until a signal says stop.
    fn step<P: Provider<Cpu = NativeCpu>>(&mut self, node: &mut Node<P>, published: Option<&Published>) {
        let ctx = node.context();
        let began = ctx.cpu().refresh();
        let mut publish_at = began;
        loop {
            match self.signals.next() {
                Some(Signal::Stop) => return,
                Some(Signal::Reload) => self.files.reload(),
                Some(Signal::Save) | None => {}
            }
            loop {
                match self.listener.accept() {
                    Ok(Some(stream)) => node.adopt(stream),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!("{}: a client cannot be accepted: {error}", self.listener.addr());
                        break;
                    }
                }
            }
            let now = ctx.cpu().refresh();
            let progress = node.step(ctx.cpu());
            if let Some(published) = published.filter(|_| now >= publish_at) {
                publish_at = now + PUBLISH_EVERY;
                let snapshot = self.snapshot(node.host(), now.since(began));
                *published.numbers.lock().expect("no thread panics with it") = Some((now, snapshot));
            }
            if let Some(repairer) = self.repairer.as_mut().filter(|repairer| repairer.is_due(now)) {
                repairer.look(now, waiting_for_repair(node.host()));
            }
            if let Progress::Idle { wake_at } = progress {
                self.sleep(wake_at.since(now));
            }
        }
    }

    fn snapshot<P: Provider>(&self, node: &NodeState<P>, uptime: Ns) -> NodeSnapshot {
        let mut clients = [0; 4];
        for info in node.clients() {
            clients[info.state as usize] += 1;
        }
        NodeSnapshot {
            header: node.header(),
            clients,
            fencing: node.fencing_count() as u64,
            quota_chunks: self.options.quota_chunks,
            counters: node.client_counters(),
            uptime_s: uptime.as_s(),
        }
    }

    /// Sleeps until a signal or a client comes, for at most `time`.
    fn sleep(&self, time: Ns) {
        let mut events: Vec<PollFd<'_>> = self.signals.interests().collect();
        let listener = self.listener.fd();
        events.push(PollFd::new(&listener, PollFlags::IN));
        let timeout = Timespec {
            tv_sec: time.as_s() as i64,
            tv_nsec: (time.0 % 1_000_000_000) as i64,
        };
        // A failed sleep is a short one.
        let _ = poll(&mut events, Some(&timeout));
    }
}

/// Clients that were shut out and left something to repair that is known how to be repaired.
fn waiting_for_repair<P: Provider>(node: &NodeState<P>) -> impl Iterator<Item = ClientId> {
    let fenced = node.clients().filter(|info| info.state == ClientState::Fenced);
    let fenced: Vec<ClientId> = fenced.map(|info| info.client).collect();
    let is_ours = !fenced.is_empty()
        && node
            .header()
            .place
            .is_some_and(|place| check::can_repair(place.kind));
    fenced.into_iter().filter(move |_| is_ours)
}
