//! `drover serve`, for any system: takes what the process needs, starts the service, waits for signals, stops it.

use super::gateway::Gateway;
use super::hosted::Hosted;
use super::listen::Opened;
use super::memlock::{self, ItemMemory};
use super::native::Native;
use super::ops::{Files, Ops, Signal, Signals};
use super::pool::PoolGateway;
use super::seldom::Seldom;
use super::settings::Settings;
use super::{limits, listen};
use crate::admin::Source;
use crate::exit::{self, Failure};
use drover_client::{Fabric, Job};
use drover_control::{ControlListener, Endpoint};
use drover_kv::{HostingJob, HostingSystem, OnCore, Service, System, SystemJob, SystemTable};
use drover_mem::NativeCpu;
use drover_verbs::Provider;
use drover_verbs_shm::{ShmDevice, ShmOptions};
use rustix::event::{PollFd, PollFlags, poll};
use std::path::PathBuf;
use std::sync::Arc;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// A service of this process's own items that is to start.
pub(super) trait Prepare<'a>: Start {
    /// Reads the settings and opens sockets, as the user who starts the process.
    fn prepare(settings: &'a Settings) -> Result<Self, Failure>;
}

/// A service that is to start: what differs between systems here.
pub(super) trait Start: Sized {
    /// Addresses of its clients that connect by sockets.
    fn socket_addresses(&self) -> Vec<String> {
        Vec::new()
    }

    /// Waits for what it needs of others. Returns whether it can start: `false`, if a signal asked to stop meanwhile.
    ///
    /// # Errors
    /// What it needs will not come.
    fn wait(&mut self, signals: &Signals) -> Result<bool, Failure> {
        let _ = signals;
        Ok(true)
    }

    /// Starts it with clients at `listeners`; `on_core` runs first on each of its cores. Logs the choices and their reasons.
    fn start<P: Provider<Cpu = NativeCpu>>(
        self,
        device: &P::Device,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
        files: Arc<Files>,
    ) -> Result<Box<dyn Running>, Failure>;
}

/// A service that runs, with the numbers for the admin port and the watchdog.
pub(super) trait Running: Source {
    fn service(&self) -> &dyn Service;

    /// Whether it keeps its items in a file, so that it is worth stopping for (SIGUSR1).
    fn saves(&self) -> bool {
        false
    }

    /// Stops it.
    ///
    /// # Errors
    /// What it could not save.
    fn stop(self: Box<Self>) -> Result<(), Failure>;
}

/// Starts the service and serves until SIGTERM or SIGINT; with a memory file, also until SIGUSR1.
///
/// # Errors
/// The service cannot start, it ended by itself, or it could not save its items.
pub fn serve<T: SystemTable>(settings: &Settings, system: T) -> Result<(), Failure> {
    if let Some(addr) = &settings.service.connect.value {
        return serve_gateway::<T>(settings, addr);
    }
    if !settings.service.pool.value.is_empty() {
        return serve_pool(settings);
    }
    match system.hosting(ServeHosted(settings)) {
        Ok(served) => served,
        Err(ServeHosted(settings)) => system.run(ServeNative(settings)),
    }
}

struct ServeHosted<'a>(&'a Settings);

impl HostingJob for ServeHosted<'_> {
    type Answer = Result<(), Failure>;

    fn run<S: HostingSystem>(self) -> Result<(), Failure> {
        serve_system::<Hosted<'_, S>>(self.0)
    }
}

struct ServeNative<'a>(&'a Settings);

impl SystemJob for ServeNative<'_> {
    type Answer = Result<(), Failure>;

    fn run<S: System>(self) -> Result<(), Failure> {
        serve_system::<Native<'_, S>>(self.0)
    }
}

fn serve_system<'a, S: Prepare<'a>>(settings: &'a Settings) -> Result<(), Failure> {
    let signals = begin(settings)?;
    let addrs = listen::addresses(settings)?;
    let fabric = Fabric::serving(&addrs[0].addr, shm_device())?;
    let access = settings.sockets.access()?;
    let listeners = listen::open_all(&addrs, &access)?;
    let start = S::prepare(settings)?;
    serve_on(settings, (&fabric, listeners), signals, start)
}

fn serve_gateway<T: SystemTable>(settings: &Settings, addr: &str) -> Result<(), Failure> {
    let signals = begin(settings)?;
    let (fabric, gateway) = Gateway::<T>::prepare(settings, addr)?;
    serve_on(settings, (&fabric, Vec::new()), signals, gateway)
}

fn serve_pool(settings: &Settings) -> Result<(), Failure> {
    let signals = begin(settings)?;
    let (fabric, gateway) = PoolGateway::prepare(settings)?;
    serve_on(settings, (&fabric, Vec::new()), signals, gateway)
}

/// Logs, checks limits, and catches signals.
fn begin(settings: &Settings) -> Result<Signals, Failure> {
    start_logging(settings.verbose);
    limits::check(settings)?;
    listen::check_exposure(settings)?;
    Signals::catch()
}

fn serve_on<S: Start>(
    settings: &Settings,
    (fabric, listeners): (&Fabric, Vec<Opened>),
    signals: Signals,
    start: S,
) -> Result<(), Failure> {
    if let Some(choice) = fabric.choice() {
        tracing::info!("RDMA device: {choice}");
    }
    let ops = Ops::take(
        &settings.ops,
        &socket_files(settings, &listeners),
        settings.sockets.access()?.group,
    )?;
    let files = ops.files();
    let listeners = listeners.into_iter().map(|opened| opened.guarded_by(&files));
    fabric.run(Serve {
        start,
        cores: settings.workers.cores.value.clone(),
        locks: settings
            .memory
            .lock_memory
            .value
            .then(|| ItemMemory::of(settings)),
        listeners: listeners.collect(),
        ops,
        signals,
    })
}

/// Every sender of datagrams has a ring at every worker, with this many lines (64 bytes) per RECV of *all* clients:
/// with 1024 RECVs 64 KiB, several times one client's requests in flight.
const RING_LINES_PER_RECV: usize = 1;

/// Shared memory that suits request datagrams, and clients that may mean harm.
fn shm_device() -> ShmDevice {
    let mut options = ShmOptions::default();
    options.ring_lines_per_recv = RING_LINES_PER_RECV;
    options.huge_pages_of_peers = false;
    ShmDevice::open(options)
}

/// Socket files that the user of `-u` must be able to remove at the end, and its group to use.
fn socket_files(settings: &Settings, listeners: &[Opened]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = settings.sockets.unix_socket.value.iter().cloned().collect();
    for opened in listeners {
        if let Endpoint::Path(path) = opened.listener.addr().place() {
            let mut lock = path.as_os_str().to_owned();
            lock.push(".lock");
            files.extend([path.clone(), PathBuf::from(lock)]);
        }
    }
    files
}

/// Everything acquired before the first thread starts.
struct Serve<S> {
    start: S,
    /// The core of each thread of the service.
    cores: Option<Vec<usize>>,
    /// Whether all memory is locked (`-k`): the part of it that was asked for.
    locks: Option<ItemMemory>,
    listeners: Vec<ControlListener>,
    ops: Ops,
    signals: Signals,
}

impl<S: Start> Job for Serve<S> {
    type Answer = Result<(), Failure>;

    fn run<P: Provider<Cpu = NativeCpu>>(mut self, device: &P::Device) -> Result<(), Failure> {
        let listeners = self.listeners.iter().map(|listener| listener.addr().to_string());
        let addresses: Vec<String> = listeners.chain(self.start.socket_addresses()).collect();
        let cores = self.cores;
        let on_core = Box::new(move |index: usize| pin_worker(index, cores.as_deref()));
        let files = self.ops.files();
        if !self.start.wait(&self.signals)? {
            return Ok(());
        }
        let running = self
            .start
            .start::<P>(device, self.listeners, on_core, files.clone())?;
        if let Some(items) = self.locks {
            memlock::lock_all(items)?;
        }
        let status = format!("serving at {}", addresses.join(" and "));
        tracing::info!("{status}");
        let end = std::thread::scope(|scope| {
            let _while_it_serves = self.ops.start(scope, &*running, &status)?;
            drover_mem::release_startup_pages();
            wait(running.service(), &self.signals, &files, running.saves())
        })?;
        conclude(running, end)
    }
}

/// Stops the service, or reports why it has stopped.
fn conclude(running: Box<dyn Running>, end: End) -> Result<(), Failure> {
    match end {
        End::Asked => {
            tracing::info!("stopping: notifying clients and freeing memory");
            running.stop()
        }
        End::Alone => {
            let why = running.service().why();
            Err(Failure::new(
                exit::SOFTWARE,
                format!("the server has ended: {why}"),
            ))
        }
    }
}

/// Reason why the wait ended.
#[derive(PartialEq, Eq, Debug)]
enum End {
    /// A signal came.
    Asked,
    /// A thread of the service ended unexpectedly.
    Alone,
}

/// Waits for a signal that ends the service, or for its end. `saves`: there is a memory file.
fn wait(service: &dyn Service, signals: &Signals, files: &Files, saves: bool) -> Result<End, Failure> {
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
            Some(Signal::Reload) => files.reload(),
            Some(Signal::Save) if saves => return Ok(End::Asked),
            Some(Signal::Save) => tracing::info!("SIGUSR1 ignored: no memory file to keep items in"),
            None if alone => return Ok(End::Alone),
            None => {}
        }
    }
}

fn pin_worker(worker: usize, cores: Option<&[usize]>) {
    let Some(core) = cores.and_then(|cores| cores.get(worker)) else {
        return;
    };
    if let Err(error) = drover_rt::cores::pin(*core) {
        tracing::warn!("worker {worker} is not pinned to core {core}: {error}");
    }
}

/// Logs to standard error: warnings and what happens; with `verbose`, more.
pub fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => tracing::Level::INFO,
        1 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(verbose > 0)
        .with_ansi(colour)
        .without_time(); // service managers add the time
    let level = LevelFilter::from_level(level);
    tracing_subscriber::registry()
        .with(level)
        .with(Seldom::new())
        .with(lines)
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Snapshot;
    use std::io::PipeReader;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::time::Duration;

    /// A service whose threads have ended: nobody holds the other end of its pipe.
    struct Ended(PipeReader);

    impl Service for Ended {
        fn ended(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        fn why(&self) -> String {
            "worker 0 gave up".to_owned()
        }

        fn counters(&self, _: Duration) -> Result<Vec<Vec<u64>>, String> {
            Err("no answer".to_owned())
        }

        fn stop(self: Box<Self>) {}
    }

    impl Source for Ended {
        fn snapshot(&self, _: Duration) -> Result<Snapshot, String> {
            Err("no answer".to_owned())
        }
    }

    impl Running for Ended {
        fn service(&self) -> &dyn Service {
            self
        }

        fn stop(self: Box<Self>) -> Result<(), Failure> {
            Ok(())
        }
    }

    #[test]
    fn a_server_that_ends_by_itself_is_not_waited_for_and_is_a_bug_of_ours() {
        let (ended, _) = std::io::pipe().expect("a pipe");
        let running: Box<dyn Running> = Box::new(Ended(ended));
        let (signals, _never) = Signals::by_hand();
        assert_eq!(
            wait(running.service(), &signals, &Files::default(), false).expect("no system error"),
            End::Alone
        );
        let failure = conclude(running, End::Alone).expect_err("nobody asked it to end");
        assert_eq!(failure.code, exit::SOFTWARE);
        assert_eq!(failure.text, "the server has ended: worker 0 gave up");
    }
}
