//! A running service of a system with native clients only: its cores run on their own threads, and this thread waits
//! for signals.

use super::ops::{Ops, Signal, Signals};
use super::run::{pin_worker, socket_files, start_logging};
use super::settings::{Origin, Settings};
use super::{limits, listen, ops, plan};
use crate::admin::{ServiceCounters, Snapshot, Source};
use crate::exit::{self, Failure};
use drover_base::{Cpu, Ns};
use drover_client::{Fabric, Job};
use drover_kv::{Capacity, Facts, Policy, Service, Sizes, System, SystemJob, SystemTable};
use drover_mem::NativeCpu;
use drover_rt::Idle;
use drover_rt::control::ControlListener;
use drover_verbs::{Device, Provider};
use rustix::event::{PollFd, PollFlags, poll};
use std::time::Duration;

/// Serves until SIGTERM or SIGINT.
pub fn serve<T: SystemTable>(settings: &Settings, system: T) -> Result<(), Failure> {
    system.run(ServeSystem(settings))
}

struct ServeSystem<'a>(&'a Settings);

impl SystemJob for ServeSystem<'_> {
    type Answer = Result<(), Failure>;

    fn run<S: System>(self) -> Result<(), Failure> {
        serve_system::<S>(self.0)
    }
}

/// Serves system `S` until SIGTERM or SIGINT.
pub fn serve_system<S: System>(settings: &Settings) -> Result<(), Failure> {
    start_logging(settings.verbose);
    limits::check(settings)?;
    if settings.lock_memory.value {
        limits::lock_all()?;
    }
    let signals = Signals::catch()?;
    let addrs = listen::addresses(settings)?;
    if !ops::inherited()?.is_empty() {
        let text = format!(
            "sockets of a service manager do not apply to --system {}",
            S::FACTS.name
        );
        return Err(Failure::new(exit::USAGE, text));
    }
    let plan = plan_of::<S>(settings)?;
    let fabric = Fabric::serving(&addrs[0], plan::shm_device())?;
    if let Some(choice) = fabric.choice() {
        tracing::info!("RDMA device: {choice}");
    }
    let listeners = listen::open_all(&addrs)?;
    fabric.run(Serve::<S> {
        settings,
        plan,
        ops: Ops::take(&settings.ops, &socket_files(settings, &listeners))?,
        listeners,
        signals,
    })
}

/// The plan of a service with these settings.
fn plan_of<S: System>(settings: &Settings) -> Result<S::Plan, Failure> {
    let (mib, asked) = (settings.memory_mib.value, &settings.max_item_bytes);
    let refuse = |why: String| Failure::new(exit::USAGE, format!("-m {mib}: {why}"));
    let bytes = (mib as usize).checked_mul(1 << 20);
    let sizes = Sizes {
        shard_count: settings.threads.value,
        capacity: Capacity::Memory {
            bytes: bytes.ok_or_else(|| refuse("too much".to_owned()))?,
        },
        value_bytes_max: asked.value,
        window: settings.window_max.value.into(),
    };
    let mut plan = S::plan(&sizes).map_err(refuse)?;
    // An explicit size that is too large is refused; memcached's default is reduced.
    let (most, longest) = S::item_bytes_max(&mut plan);
    if *longest > most {
        if asked.origin != Origin::Default {
            let text = format!(
                "-I: items of {} bytes are longer than half of a shard's records, {most} bytes: more memory (-m) or \
                 fewer shards (-t)",
                asked.value
            );
            return Err(Failure::new(exit::USAGE, text));
        }
        *longest = most;
    }
    let policy = Policy {
        evicts: !settings.disable_evictions.value,
        clients_max: settings.conn_limit.value,
        large_pages: settings.large_pages.value,
        idle: match settings.spin_us.value {
            0 => Idle::Spin,
            us => Idle::Adaptive {
                spin: Ns::from_us(us),
            },
        },
    };
    S::set_policy(&mut plan, &policy);
    Ok(plan)
}

struct Serve<'a, S: System> {
    settings: &'a Settings,
    plan: S::Plan,
    listeners: Vec<ControlListener>,
    ops: Ops,
    signals: Signals,
}

impl<S: System> Job for Serve<'_, S> {
    type Answer = Result<(), Failure>;

    fn run<P: Provider<Cpu = NativeCpu>>(mut self, device: &P::Device) -> Result<(), Failure> {
        let facts = &S::FACTS;
        if !(facts.fits)(device.caps()) {
            let text = format!(
                "--system {} needs {}, which this fabric lacks",
                facts.name, facts.needs
            );
            return Err(Failure::new(exit::UNAVAILABLE, text));
        }
        announce(self.settings, facts, &S::describe(&self.plan));
        let ways: Vec<String> = self.listeners.iter().map(|way| way.addr().to_string()).collect();
        let cores = self.settings.cores.value.clone();
        let pin = move |shard: usize| pin_worker(shard, cores.as_deref());
        let service = S::start::<P>(device, &self.plan, self.listeners, Box::new(pin))
            .map_err(|error| Failure::new(exit::OS_ERROR, error))?;
        let status = format!("serving at {}", ways.join(" and "));
        tracing::info!("{status}");
        let source = Running {
            service: &*service,
            facts,
            began: NativeCpu::new(0).refresh(),
        };
        let end = std::thread::scope(|scope| {
            let _while_it_serves = self.ops.start(scope, &source, &status)?;
            wait(&*service, &self.signals)
        })?;
        match end {
            End::Asked => {
                tracing::info!("stopping: closing client channels and freeing memory");
                service.stop();
                Ok(())
            }
            End::Alone => Err(Failure::new(
                exit::SOFTWARE,
                format!("the server has ended: {}", service.why()),
            )),
        }
    }
}

/// A service as [`Source`] for the admin port and the watchdog.
struct Running<'a> {
    service: &'a dyn Service,
    facts: &'static Facts,
    began: Ns,
}

impl Source for Running<'_> {
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String> {
        let service = ServiceCounters {
            facts: self.facts,
            shards: self.service.counters(patience)?,
            uptime_s: NativeCpu::new(0).refresh().since(self.began).as_s(),
        };
        Ok(Snapshot {
            service: Some(service),
            ..Snapshot::default()
        })
    }
}

/// Reason why the wait ended.
enum End {
    /// A signal came.
    Asked,
    /// A service thread ended unexpectedly.
    Alone,
}

fn wait(service: &dyn Service, signals: &Signals) -> Result<End, Failure> {
    loop {
        let mut fds = vec![PollFd::from_borrowed_fd(service.ended(), PollFlags::IN)];
        fds.extend(signals.interests());
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(Failure::new(exit::OS_ERROR, format!("poll: {error}"))),
        }
        let alone = !fds[0].revents().is_empty();
        match signals.next() {
            Some(Signal::Stop) => return Ok(End::Asked),
            Some(Signal::Reload) => tracing::info!("SIGHUP: no file to reload"),
            Some(Signal::Save) => tracing::info!("SIGUSR1 ignored: no memory file to keep items in"),
            None if alone => return Ok(End::Alone),
            None => {}
        }
    }
}

/// Logs the choices and their reasons.
fn announce(settings: &Settings, facts: &Facts, plan: &[String]) {
    for line in plan {
        tracing::info!("{}: {line}", facts.name);
    }
    let (count, memory) = (settings.threads.value, &settings.memory_mib);
    tracing::info!("memory: {} MiB requested ({})", memory.value, memory.origin);
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
