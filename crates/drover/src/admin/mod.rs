//! The admin port: `/metrics` for Prometheus and `/healthz` for health checks.
//!
//! It runs on its own thread and asks the workers only when a monitor asks it; otherwise it costs them nothing. Its
//! port is never the data port, so that it can be closed to clients and stays reachable when clients fill all
//! connections.

mod cluster;
mod connection;
mod device;
mod exposition;
mod http;
mod members;
mod metrics;
mod pools;
mod process;
pub mod sample;
mod shards;
mod sockets;
#[cfg(test)]
mod strict;
#[cfg(test)]
mod tests;

pub use cluster::{ClusterSnapshot, Forwarding};
pub use members::{AskMember, MemberSnapshot, ask_member};
use metrics::Memberships;
pub use metrics::{HostingSnapshot, Snapshot};
pub use pools::NodeSnapshot;
pub use shards::{ShardsSnapshot, metric_of};
pub use sockets::SocketStats;

use crate::advice;
use crate::auth::{Doors, Failures};
use crate::exit::{self, Failure};
use connection::{Caller, Connection, Reply};
use drover_base::{Cpu, Ns};
use drover_mem::NativeCpu;
use drover_verbs::{Device, DeviceCounters, Provider};
use http::Status;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{PipeReader, PipeWriter};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// Source of the numbers that the admin port and the watchdog ask for.
pub trait Source: Sync {
    /// Asks all workers at once and returns their numbers. Waits at most `patience` for each next answer; a hosting
    /// service (HERD) then waits as long again, at least a second, for its control thread.
    ///
    /// # Errors
    /// Text that names the workers or shards that did not answer, or the control thread.
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String>;

    /// What the process has done with its RDMA device; `None` (the default): it has none.
    fn device(&self) -> Option<DeviceCounters> {
        None
    }

    /// What the process does in a service of several members; `None` (the default): it is in none.
    fn cluster(&self) -> Option<ClusterSnapshot> {
        None
    }

    /// What the process does in a pool of memory nodes; `None` (the default): it is in none.
    fn member(&self) -> Option<MemberSnapshot> {
        None
    }
}

/// Asks an opened device what was done with it.
pub type AskDevice = Box<dyn Fn() -> Option<DeviceCounters> + Send + Sync>;

/// The question for this device.
pub fn ask_device<P: Provider>(device: &P::Device) -> AskDevice {
    let device = device.clone();
    Box::new(move || device.counters())
}

/// The [`patience`](Source::snapshot) of the admin port; a worker that takes longer counts as hanging. Workers answer
/// between two steps.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of monitors at a time; a further one replaces the oldest.
const CONNECTIONS_MAX: usize = 16;
/// Pause in accepting after a failure (mostly out of descriptors), so that the thread does not spin.
const DEAF: Ns = Ns::from_s(1);
/// Time after which a monitor's connection is closed, finished or not.
const CONNECTION_LIFE: Ns = Ns::from_s(5);

/// An admin port that is bound but not served yet.
pub struct Admin {
    listener: TcpListener,
    stop: PipeReader,
    doors: Option<Arc<Doors>>,
}

/// Ends [`Admin::run`] when dropped.
pub struct Stopper {
    _held: PipeWriter,
}

impl Admin {
    /// Binds the admin port to `addr`. Dropping the [`Stopper`] ends [`run`](Admin::run).
    ///
    /// # Errors
    /// The address cannot be bound, or no descriptor is left.
    pub fn bind(addr: SocketAddr) -> Result<(Admin, Stopper), Failure> {
        let refuse = |error| {
            let text = advice::of_address("--metrics-listen", addr, &error);
            Failure::new(exit::UNAVAILABLE, text)
        };
        let listener = TcpListener::bind(addr).map_err(refuse)?;
        listener.set_nonblocking(true).map_err(refuse)?;
        let (stop, held) = std::io::pipe().map_err(refuse)?;
        let admin = Admin {
            listener,
            stop,
            doors: None,
        };
        Ok((admin, Stopper { _held: held }))
    }

    /// Answers only users of `doors`, if there are some, but tells everybody whether the server is healthy.
    pub fn guard(&mut self, doors: Option<Arc<Doors>>) {
        self.doors = doors;
    }

    /// Address that the admin port is bound to, with the actual port number.
    ///
    /// # Errors
    /// The system call fails.
    pub fn addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests on the calling thread, with numbers from `source`, until the [`Stopper`] is dropped or `poll`
    /// fails.
    pub fn run(self, source: &dyn Source) {
        let cpu = NativeCpu::new(0);
        let mut connections: Vec<Connection> = Vec::new();
        let mut deaf_until = Ns::ZERO;
        while self.wait(&connections, cpu.refresh(), deaf_until) {
            let now = cpu.refresh();
            if now >= deaf_until && !self.accept(&mut connections, now) {
                deaf_until = now + DEAF;
            }
            connections.retain_mut(|connection| {
                connection.step(now, |path, caller| self.answer(source, path, caller, now))
            });
        }
    }

    /// Accepts all waiting connections; returns `false` if the system refuses.
    fn accept(&self, connections: &mut Vec<Connection>, now: Ns) -> bool {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    if connections.len() == CONNECTIONS_MAX {
                        connections.remove(0);
                    }
                    connections.extend(Connection::new(stream, peer.ip(), now + CONNECTION_LIFE));
                }
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Waits for work; returns `false` when the thread is to end.
    fn wait(&self, connections: &[Connection], now: Ns, deaf_until: Ns) -> bool {
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        let is_deaf = now < deaf_until;
        if !is_deaf {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        fds.extend(connections.iter().map(Connection::interest));
        let ends = connections.iter().map(Connection::deadline);
        let deadline = ends.chain(is_deaf.then_some(deaf_until)).min();
        let timeout = deadline.map(|deadline| timespec(deadline.since(now)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => fds[0].revents().is_empty(),
            Err(rustix::io::Errno::INTR) => true,
            Err(error) => {
                tracing::error!("admin port stops: poll failed: {error}");
                false
            }
        }
    }
}

/// Converts to a timespec, plus 1 ms so that the deadline has passed after the wait.
fn timespec(ns: Ns) -> Timespec {
    let ns = ns + Ns::from_ms(1);
    Timespec {
        tv_sec: ns.as_s() as i64,
        tv_nsec: (ns.0 % 1_000_000_000) as i64,
    }
}

/// Path that everybody may ask for: it says only whether the server is well.
const HEALTH: &str = "/healthz";
const TEXT: &str = "text/plain; charset=utf-8";

impl Admin {
    fn log_refusal(&self, caller: &Caller) {
        let at = self.listener.local_addr();
        let listener = std::fmt::from_fn(|f| at.as_ref().map_or(Ok(()), |at| write!(f, " {at}")));
        tracing::info!(
            "host {} at the admin port{listener}: login refused: wrong user or password",
            caller.ip
        );
    }

    /// The answer to a GET of `path` by `caller`.
    fn answer(&self, source: &dyn Source, path: &str, caller: &Caller, now: Ns) -> Reply {
        let guarded = self.doors.as_ref().filter(|_| path != HEALTH);
        if let Some(guard) = guarded.map(|doors| doors.admin()) {
            let Some(login) = &caller.login else {
                let body = "log in as a user of the server's file (-Y): basic authentication\n";
                return Reply::Now(http::response(Status::Unauthorized, TEXT, body));
            };
            let at = guard.host_may_try_at(caller.ip, caller.asked_at);
            if now < at {
                return Reply::At(at);
            }
            if !guard.judge_host(caller.ip, login.user(), login.secret(), now) {
                self.log_refusal(caller);
                let body = "wrong user or password\n";
                return Reply::Now(http::response(Status::Unauthorized, TEXT, body));
            }
        }
        let failures = self.doors.as_ref().map(|doors| doors.failures());
        Reply::Now(answer(source, path, failures.unwrap_or_default()))
    }
}

fn answer(source: &dyn Source, path: &str, failures: Failures) -> Vec<u8> {
    match path {
        "/metrics" => {
            let (snapshot, device) = (source.snapshot(PATIENCE).ok(), source.device());
            let text = metrics::render(
                snapshot.as_ref(),
                device.as_ref(),
                &Memberships {
                    pool: source.member(),
                    cluster: source.cluster(),
                },
                &process::figures(),
                failures,
            );
            http::response(Status::Ok, exposition::CONTENT_TYPE, &text)
        }
        HEALTH => match source.snapshot(PATIENCE) {
            Ok(_) => http::response(Status::Ok, TEXT, "ok\n"),
            Err(why) => {
                let body = format!("{why} within {} s\n", PATIENCE.as_secs());
                http::response(Status::Unavailable, TEXT, &body)
            }
        },
        _ => http::response(Status::NotFound, TEXT, "there are /metrics and /healthz\n"),
    }
}
