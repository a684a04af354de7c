//! A running service of a one-sided system: shards in threads of their own, and this thread, which waits for signals.

use super::ops::{Ops, Signal, Signals};
use super::run::{pin_worker, socket_files, start_logging};
use super::settings::{Origin, Settings};
use super::{limits, listen, ops, plan};
use crate::admin::{Snapshot, Source};
use crate::exit::{self, Failure};
use crate::fabric::{Fabric, Job};
use crate::shards::{FarmShard, Shard, ShardPlan, Shards, System};
use drover_base::Ns;
use drover_mem::{NativeCpu, PageWish};
use drover_rt::Idle;
use drover_rt::control::ControlListener;
use drover_verbs::{Device, Provider};
use rustix::event::{PollFd, PollFlags, poll};
use std::time::Duration;

/// Serves until SIGTERM or SIGINT.
pub fn serve(settings: &Settings) -> Result<(), Failure> {
    start_logging(settings.verbose);
    limits::check(settings)?;
    if settings.lock_memory.value {
        limits::lock_all()?;
    }
    let signals = Signals::catch()?;
    let addrs = listen::addresses(settings)?;
    let system = settings.system.value;
    if !ops::inherited()?.is_empty() {
        let text = format!("sockets of a service manager mean nothing with --system {system}");
        return Err(Failure::new(exit::USAGE, text));
    }
    let plan = shard_plan(settings)?;
    let fabric = Fabric::serving(&addrs[0], plan::shm_device())?;
    if let Some(choice) = fabric.choice() {
        tracing::info!("RDMA device: {choice}");
    }
    let listeners = listen::open_all(&addrs)?;
    fabric.run(Serve {
        settings,
        plan,
        ops: Ops::take(&settings.ops, &socket_files(settings, &listeners))?,
        listeners,
        signals,
    })
}

/// What the shards of these settings are made of.
pub fn shard_plan(settings: &Settings) -> Result<ShardPlan, Failure> {
    let (mib, threads) = (settings.memory_mib.value, settings.threads.value);
    let asked = &settings.max_item_bytes;
    // Values may have any length: FaRM keeps short ones in its table all the same.
    let table = settings.system.value.table(0);
    let bytes = (mib as usize).checked_mul(1 << 20);
    let plan = bytes.and_then(|bytes| ShardPlan::of_memory(table, bytes, threads, asked.value));
    let mut plan = plan.ok_or_else(|| {
        let text = format!("-m {mib}: too little or too much for {threads} shards");
        Failure::new(exit::USAGE, text)
    })?;
    // As with herd: what was asked for and cannot be is refused, memcached's default is cut.
    let most = plan.record_bytes / 2;
    if plan.item_bytes_max > most {
        if asked.origin != Origin::Default {
            let text = format!(
                "-I: items of {} bytes are longer than half of a shard's records, {most} bytes: more memory (-m) or \
                 fewer shards (-t)",
                asked.value
            );
            return Err(Failure::new(exit::USAGE, text));
        }
        plan.item_bytes_max = most;
    }
    plan.evicts = !settings.disable_evictions.value;
    plan.clients_max = settings.conn_limit.value;
    if settings.large_pages.value {
        plan.pages = PageWish::Huge;
    }
    plan.idle = match settings.spin_us.value {
        0 => Idle::Spin,
        us => Idle::Adaptive {
            spin: Ns::from_us(us),
        },
    };
    Ok(plan)
}

struct Serve<'a> {
    settings: &'a Settings,
    plan: ShardPlan,
    listeners: Vec<ControlListener>,
    ops: Ops,
    signals: Signals,
}

impl Job for Serve<'_> {
    type Answer = Result<(), Failure>;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Result<(), Failure> {
        match self.settings.system.value {
            System::Pilaf => self.serve::<P, drover_kv_pilaf::server::Server<P>>(device),
            System::Farm => self.serve::<P, FarmShard<P>>(device),
            System::Herd => unreachable!("herd has workers, not shards"),
        }
    }
}

impl Serve<'_> {
    fn serve<P: Provider<Cpu = NativeCpu>, S: Shard<P> + 'static>(
        mut self,
        device: &P::Device,
    ) -> Result<(), Failure> {
        let system = self.settings.system.value;
        if !device.caps().rc {
            let text = format!(
                "--system {system} needs {}, which this fabric lacks",
                system.needs()
            );
            return Err(Failure::new(exit::UNAVAILABLE, text));
        }
        announce(self.settings, &self.plan);
        let ways: Vec<String> = self.listeners.iter().map(|way| way.addr().to_string()).collect();
        let cores = self.settings.cores.value.clone();
        let pin = move |shard: usize| pin_worker(shard, cores.as_deref());
        let shards = Shards::start::<P, S>(device, system, &self.plan, self.listeners, pin)
            .map_err(|error| Failure::new(exit::OS_ERROR, error))?;
        let status = format!("serving at {}", ways.join(" and "));
        tracing::info!("{status}");
        let end = std::thread::scope(|scope| {
            let _while_it_serves = self.ops.start(scope, &shards, &status)?;
            wait(&shards, &self.signals)
        })?;
        match end {
            End::Asked => {
                tracing::info!("stopping: clients lose their channels, memory goes");
                shards.stop();
                Ok(())
            }
            End::Alone => Err(Failure::new(
                exit::SOFTWARE,
                format!("the server has ended: {}", shards.why()),
            )),
        }
    }
}

/// For the service manager's watchdog, which only need to know who does not answer.
impl Source for Shards {
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String> {
        self.figures(patience).map(|_| Snapshot::default())
    }
}

/// Why there is nothing more to wait for.
enum End {
    /// A signal came.
    Asked,
    /// A thread ended by itself.
    Alone,
}

fn wait(shards: &Shards, signals: &Signals) -> Result<End, Failure> {
    loop {
        let mut fds = vec![PollFd::from_borrowed_fd(shards.ended(), PollFlags::IN)];
        fds.extend(signals.interests());
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(Failure::new(exit::OS_ERROR, format!("poll: {error}"))),
        }
        let alone = !fds[0].revents().is_empty();
        match signals.next() {
            Some(Signal::Stop) => return Ok(End::Asked),
            Some(Signal::Reload) => tracing::info!("SIGHUP: there is nothing to read again"),
            Some(Signal::Save) => tracing::info!("SIGUSR1: there is no memory file to leave items in"),
            None if alone => return Ok(End::Alone),
            None => {}
        }
    }
}

/// Says what was chosen and why.
fn announce(settings: &Settings, plan: &ShardPlan) {
    let (count, system) = (plan.shard_count, settings.system.value);
    tracing::info!(
        "items: {system}, {count} shard(s) of {} places and {} KiB of records ({} MiB asked for by {})",
        plan.entry_count,
        plan.record_bytes >> 10,
        settings.memory_mib.value,
        settings.memory_mib.origin
    );
    let full = match plan.evicts {
        true => "evicts the items that were written first: GETs leave no trace",
        false => "answers \"full\" (-M)",
    };
    tracing::info!("when full: {full}");
    match &settings.cores.value {
        Some(cores) => tracing::info!("shards: {count}, on cores {cores:?} ({})", settings.cores.origin),
        None => tracing::info!("shards: {count}, not pinned ({})", settings.cores.origin),
    }
    match settings.spin_us.value {
        0 => tracing::info!("idle shards poll for ever (--spin-us 0)"),
        us => tracing::info!(
            "idle shards poll for {us} us, then sleep ({})",
            settings.spin_us.origin
        ),
    }
}
