//! `drover memory-node`: one thread, mostly asleep.

use super::SecretArgs;
use crate::exit::{self, Failure};
use crate::rdma::DeviceArgs;
use crate::serve::{Signal, Signals, start_logging};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_cache_sim::sizes::parse_size;
use drover_client::{Fabric, Job};
use drover_control::{ControlAddr, ControlListener};
use drover_mem::{NativeCpu, PageWish};
use drover_memnode::node::{FenceMode, Node, NodeOptions};
use drover_verbs::{Context, Provider};
use drover_verbs_shm::ShmDevice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::PathBuf;

const TEACH: &str = "\
A node belongs to no pool at first: `drover pool create` makes several nodes one. Compute processes then READ, WRITE and
CAS its memory; the node's own core only watches who is alive. All processes of a pool trust each other.";

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
    /// Log more; twice: everything
    #[arg(short, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    secret: SecretArgs,
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
    let addr = args.device.of(&args.bind)?;
    let fabric = Fabric::serving(&addr, ShmDevice::of_pool())?;
    let signals = Signals::catch()?;
    let listener = ControlListener::bind(&addr).map_err(|error| Failure::new(exit::UNAVAILABLE, error))?;
    fabric.run(Serve {
        options,
        secret,
        signals,
        listener,
    })
}

struct Serve {
    options: NodeOptions,
    secret: Vec<u8>,
    signals: Signals,
    listener: ControlListener,
}

impl Job for Serve {
    type Answer = Result<(), Failure>;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Result<(), Failure> {
        let mut node = Node::<P>::new(device, &self.options)?;
        if !self.secret.is_empty() {
            node.require_secret(&self.secret);
        }
        let ctx = node.context();
        let header = node.stats();
        tracing::info!(
            addr = %self.listener.addr(),
            chunks = header.supply.chunk_count,
            used = header.supply.used(),
            incarnation = format!("{:016x}", header.incarnation),
            "a memory node"
        );
        println!("ready: {}", self.listener.addr());
        loop {
            if self.signals.next() == Some(Signal::Stop) {
                return Ok(());
            }
            loop {
                match self.listener.accept() {
                    Ok(Some(stream)) => node.adopt(stream),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, "accepting a client");
                        break;
                    }
                }
            }
            let now = ctx.cpu().refresh();
            if let Progress::Idle { wake_at } = node.step(ctx.cpu()) {
                self.sleep(wake_at.since(now));
            }
        }
    }
}

impl Serve {
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
