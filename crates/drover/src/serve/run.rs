//! A running server: HERD has workers and a control thread; this thread waits for signals and for clients of the
//! additional listeners.

use super::memcached::{Memcached, unix_time_s};
use super::ops::{Files, Ops, Signal, Signals};
use super::settings::Settings;
use super::{limits, listen, memory_file, ops, plan, ways};
use crate::admin::Whole;
use crate::exit::{self, Failure};
use drover_base::{Cpu, HashSeed};
use drover_client::{Fabric, Job};
use drover_kv_herd::server::{Server, ServerOptions};
use drover_mem::NativeCpu;
use drover_net::Listener;
use drover_rt::control::{ControlListener, Endpoint};
use drover_verbs::{Context, Device, Provider};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use std::path::PathBuf;
use std::sync::Arc;

/// Serves until SIGTERM or SIGINT.
pub fn serve(settings: &Settings) -> Result<(), Failure> {
    start_logging(settings.verbose);
    limits::check(settings)?;
    if settings.lock_memory.value {
        limits::lock_all()?;
    }
    let signals = Signals::catch()?;
    let addrs = listen::addresses(settings)?;
    let fabric = Fabric::serving(&addrs[0], plan::shm_device())?;
    if let Some(choice) = fabric.choice() {
        tracing::info!("RDMA device: {choice}");
    }
    let listeners = listen::open_all(&addrs)?;
    let sockets = ways::open_all(settings, ops::inherited()?)?;
    fabric.run(Serve {
        settings,
        options: plan::server_options(settings)?,
        ops: Ops::take(&settings.ops, &socket_files(settings, &listeners))?,
        listeners,
        sockets,
        signals,
    })
}

/// Socket files that the user of `-u` must be able to remove at the end, and its group to use.
pub(super) fn socket_files(settings: &Settings, listeners: &[ControlListener]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = settings.unix_socket.value.iter().cloned().collect();
    for listener in listeners {
        if let Endpoint::Path(path) = listener.addr().place() {
            let mut lock = path.as_os_str().to_owned();
            lock.push(".lock");
            files.extend([path.clone(), PathBuf::from(lock)]);
        }
    }
    files
}

/// Everything acquired before the first thread starts.
struct Serve<'a> {
    settings: &'a Settings,
    options: ServerOptions,
    /// Control listeners; the first is the fabric's.
    listeners: Vec<ControlListener>,
    /// Listeners for memcached clients.
    sockets: Vec<Listener>,
    ops: Ops,
    signals: Signals,
}

impl Job for Serve<'_> {
    type Answer = Result<(), Failure>;

    fn run<P: Provider<Cpu = NativeCpu>>(mut self, device: &P::Device) -> Result<(), Failure> {
        plan::announce(self.settings, &self.options, device.caps());
        let mut ways: Vec<String> = self.listeners.iter().map(|way| way.addr().to_string()).collect();
        ways.extend(
            self.sockets
                .iter()
                .map(|way| format!("memcached {}", way.address())),
        );
        let fabric = self.listeners.remove(0);
        let cores = self.settings.cores.value.clone();
        let pin = move |worker: usize| pin_worker(worker, cores.as_deref());
        let now_unix_s = self.prepare_items::<P>(device)?;
        let memcached = self.memcached(now_unix_s)?;
        let front = memcached.as_ref().map(|memcached| memcached.front());
        let co_actors = memcached.map(Memcached::co_actors::<P>);
        let server = Server::<P>::start_with(device, Some(fabric), &self.options, pin, co_actors)
            .map_err(Failure::from)?;
        let status = format!("serving at {}", ways.join(" and "));
        tracing::info!("{status}");
        let files = self.ops.files();
        let source = Whole {
            server: &server,
            clients_max: self.options.clients_max,
            front,
        };
        let warm = self.options.warm.as_deref();
        let end = std::thread::scope(|scope| {
            let _while_it_serves = self.ops.start(scope, &source, &status)?;
            wait(&server, &self.signals, &files, &self.listeners, warm.is_some())
        })?;
        conclude(server, end)?;
        warm.map_or(Ok(()), memory_file::seal)
    }
}

impl Serve<'_> {
    /// Chooses the hash seed of keys, because memcached clients and the next start must find the same items, and opens
    /// the memory file. Reads the server's clock and the wall clock at the same moment and returns the latter: however
    /// long the start takes, items expire when their client said.
    fn prepare_items<P: Provider<Cpu = NativeCpu>>(&mut self, device: &P::Device) -> Result<u64, Failure> {
        let now_unix_s = unix_time_s();
        if self.sockets.is_empty() && self.settings.memory_file.value.is_none() {
            return Ok(now_unix_s);
        }
        let context = device
            .context()
            .map_err(|error| Failure::new(exit::OS_ERROR, format!("hash seed: {error}")))?;
        let seed = HashSeed::new(context.cpu().random(), context.cpu().random());
        self.options.hash_seed = Some(seed);
        let now_unix_s = unix_time_s();
        self.options.started = Some(context.cpu().refresh());
        memory_file::open(self.settings, &mut self.options, seed, now_unix_s)?;
        Ok(now_unix_s)
    }

    /// The memcached side, if it has listeners.
    fn memcached(&mut self, now_unix_s: u64) -> Result<Option<Arc<Memcached>>, Failure> {
        let Some(seed) = self.options.hash_seed.filter(|_| !self.sockets.is_empty()) else {
            return Ok(None);
        };
        let system =
            |error: &dyn std::fmt::Display| Failure::new(exit::OS_ERROR, format!("sockets: {error}"));
        let (count, sockets) = (self.options.partition_count, std::mem::take(&mut self.sockets));
        let memcached = Memcached::new(
            self.settings,
            self.ops.files(),
            seed,
            (now_unix_s, self.options.start_s),
            count,
            sockets,
        );
        Ok(Some(Arc::new(memcached.map_err(|error| system(&error))?)))
    }
}

/// Stops the server, or reports why it has stopped.
fn conclude<P: Provider>(server: Server<P>, end: End) -> Result<(), Failure> {
    match end {
        End::Asked => {
            tracing::info!("stopping: notifying clients and freeing memory");
            server.stop();
            Ok(())
        }
        End::Alone => {
            let why = server.why().unwrap_or_default();
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
    /// The server ended unexpectedly.
    Alone,
}

/// Passes clients of the additional listeners to the server until a signal comes. `saves`: there is a memory file.
fn wait<P: Provider>(
    server: &Server<P>,
    signals: &Signals,
    files: &Files,
    listeners: &[ControlListener],
    saves: bool,
) -> Result<End, Failure> {
    // After a failed accept (no descriptors) the listeners are ignored for a while, or this thread would spin.
    let mut deaf = false;
    loop {
        let mut fds = vec![PollFd::from_borrowed_fd(server.ended(), PollFlags::IN)];
        fds.extend(signals.interests());
        if !deaf {
            fds.extend(
                listeners
                    .iter()
                    .map(|listener| PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN)),
            );
        }
        match poll(&mut fds, deaf.then_some(&DEAF)) {
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
        deaf = !adopt_all(server, listeners);
    }
}

/// Pause in accepting after the system refused an accept.
const DEAF: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Passes on one client of each listener; returns `false` if the system refuses an accept.
fn adopt_all<P: Provider>(server: &Server<P>, listeners: &[ControlListener]) -> bool {
    let mut well = true;
    for listener in listeners {
        match listener.accept() {
            Ok(Some(stream)) => server.adopt(stream),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!("accepting at {}: {error}", listener.addr());
                well = false;
            }
        }
    }
    well
}

pub(super) fn pin_worker(worker: usize, cores: Option<&[usize]>) {
    let Some(core) = cores.and_then(|cores| cores.get(worker)) else {
        return;
    };
    if let Err(error) = drover_rt::cores::pin(*core) {
        tracing::warn!("worker {worker} is not pinned to core {core}: {error}");
    }
}

pub(super) fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => tracing::Level::INFO,
        1 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level)
        .with_target(verbose > 0);
    let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
    lines.with_ansi(colour).without_time().init(); // service managers add the time
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_kv_herd::server::{Mistake, ServerOptions, Variant};
    use drover_store::PartitionOptions;
    use drover_verbs_shm::{Shm, ShmDevice};

    /// Workers that panic whenever they begin to poll.
    #[derive(Clone, Copy)]
    struct Panics;

    impl Variant for Panics {
        fn makes(self, mistake: Mistake) -> bool {
            mistake == Mistake::PanicsAlways
        }
    }

    #[test]
    fn a_server_that_ends_by_itself_is_not_waited_for_and_is_a_bug_of_ours() {
        let doomed = ServerOptions {
            partition: PartitionOptions {
                log_bytes: 1 << 16,
                bucket_count: 1 << 8,
                ..PartitionOptions::default()
            },
            ..ServerOptions::default()
        };
        let device = ShmDevice::default();
        let server =
            Server::<Shm>::start_as(&device, None, &doomed, |_| {}, None, Panics).expect("it starts");
        let (signals, _never) = Signals::by_hand();
        assert_eq!(
            wait(&server, &signals, &Files::default(), &[], false).expect("no system error"),
            End::Alone
        );
        let failure = conclude(server, End::Alone).expect_err("nobody asked it to end");
        assert_eq!(failure.code, exit::SOFTWARE);
        assert_eq!(
            failure.text,
            "the server has ended: worker 0 gave up: it panicked 16 times"
        );
    }
}
