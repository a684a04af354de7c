//! A gateway, which answers memcached's clients from items of others; and `serve --connect ADDR`: those of the service at another
//! address.

use super::memcached::{Items, Memcached, unix_time_s};
use super::ops::{self, Files};
use super::run::{Running, Start};
use super::settings::Settings;
use super::ways;
use super::worker::{Worker, WorkerStart};
use crate::access::over_tls;
use crate::admin::{AskDevice, HostingSnapshot, Snapshot, SocketStats, Source, ask_device};
use crate::auth;
use crate::exit::{self, Failure};
use drover_base::{Cpu, HashKind, HashSeed, Ns};
use drover_client::{Fabric, Service as Remote};
use drover_control::{ControlAddr, ControlListener};
use drover_gateway::{Backend, OnContext, refusals};
use drover_kv::{
    ConnectError, ConnectOptions, Facts, OnCore, Service, ServiceStats, StartError, System, SystemJob,
    SystemTable, connect, dials,
};
use drover_mem::NativeCpu;
use drover_memcached::GatewayInfo;
use drover_net::Listener;
use drover_shards::{Hello, ThreadGroup, wait_for_all};
use drover_verbs::{Context, Device, DeviceCounters, Provider, Waker};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time for each step of connecting.
const PATIENCE: Ns = Ns::from_s(5);
/// Operations in flight per worker and shard that a worker asks for.
const WINDOW: usize = 64;

/// A gateway that is to start.
pub(super) struct Gateway<'a, T> {
    settings: &'a Settings,
    addr: ControlAddr,
    system: T,
    shard_count: usize,
    sockets: Vec<Listener>,
}

impl<'a, T: SystemTable> Gateway<'a, T> {
    /// Opens sockets, and asks the server at `addr` for its system.
    ///
    /// # Errors
    /// Nobody answers there, the table has no such system, or a socket cannot be opened.
    pub(super) fn prepare(settings: &'a Settings, addr: &str) -> Result<(Fabric, Gateway<'a, T>), Failure> {
        let addr: ControlAddr = addr.parse().map_err(|error| Failure::new(exit::USAGE, error))?;
        let credentials = match &settings.service.connect_auth_file.value {
            Some(path) => Some(auth::of_file("--connect-auth-file", path)?),
            None => auth::of_environment()?,
        };
        let tls = settings.service.connect_tls()?;
        let addr = over_tls(addr.with_credentials(credentials), tls.as_ref())?;
        let sockets = ways::open_all(settings, ops::inherited()?)?;
        if sockets.is_empty() {
            let text = "--connect: a gateway without -p and -s serves nobody";
            return Err(Failure::new(exit::USAGE, text));
        }
        let no_server =
            |error: ConnectError| Failure::new(exit::UNAVAILABLE, format!("--connect {addr}: {error}"));
        let remote = Remote::<T>::at(addr.clone(), PATIENCE).map_err(no_server)?;
        let fabric = Fabric::towards(&addr).map_err(|error| Failure::new(exit::USAGE, error))?;
        let gateway = Gateway {
            settings,
            system: remote.system(),
            shard_count: remote.shard_count(),
            sockets,
            addr,
        };
        Ok((fabric, gateway))
    }
}

impl<T: SystemTable> Start for Gateway<'_, T> {
    fn socket_addresses(&self) -> Vec<String> {
        ways::addresses(&self.sockets)
    }

    fn start<P: Provider<Cpu = NativeCpu>>(
        self,
        device: &P::Device,
        _: Vec<ControlListener>,
        on_core: OnCore,
        files: Arc<Files>,
    ) -> Result<Box<dyn Running>, Failure> {
        let (system, addr, shard_count) = (self.system, self.addr, self.shard_count);
        let (ask_device, device, address) = (ask_device::<P>(device), device.clone(), addr.to_string());
        let enter = move || {
            let ctx: Rc<P::Context> = Rc::new(device.context()?);
            let open = Open::<P> {
                ctx: ctx.clone(),
                addr: &addr,
                shard_count,
            };
            match system.run(open) {
                Ok(backend) => Ok((ctx, backend)),
                Err(error) => Err(no_client(format!("{addr}: {error}"))),
            }
        };
        let to = Target::<P> {
            facts: system.facts(),
            address,
            device: ask_device,
            enter: Arc::new(enter),
        };
        let gateways = Gateways::start(self.settings, to, self.sockets, on_core, files)?;
        Ok(Box::new(gateways))
    }
}

/// A worker's context and client, made on its thread.
pub(super) type Entered<P> = Result<(Rc<<P as Provider>::Context>, Box<dyn Backend>), StartError>;

/// Whose items a gateway serves.
pub(super) struct Target<P: Provider> {
    pub(super) facts: &'static Facts,
    /// For people.
    pub(super) address: String,
    pub(super) device: AskDevice,
    /// Called by each worker.
    pub(super) enter: Arc<dyn Fn() -> Entered<P> + Send + Sync>,
}

/// Failure of a worker that has no client, because of `reason`.
pub(super) fn no_client(reason: String) -> StartError {
    StartError::Thread {
        name: "gateway worker".to_owned(),
        reason,
    }
}

/// Opens the client of a worker.
struct Open<'a, P: Provider> {
    ctx: Rc<P::Context>,
    addr: &'a ControlAddr,
    shard_count: usize,
}

impl<P: Provider> SystemJob for Open<'_, P> {
    type Answer = Result<Box<dyn Backend>, ConnectError>;

    fn run<S: System>(self) -> Self::Answer {
        let options = ConnectOptions {
            window: WINDOW,
            ..ConnectOptions::default()
        };
        let dials = dials(&S::FACTS, self.addr, self.shard_count, None);
        let client: S::Client<P> = connect::<P, _>(&self.ctx, dials, &options, PATIENCE)?;
        Ok(Box::new(OnContext::<P, _>::new(self.ctx, client)))
    }
}

/// The workers of a gateway that run.
pub(super) struct Gateways {
    group: ThreadGroup,
    sockets: SocketStats,
    facts: &'static Facts,
    started: Ns,
    device: AskDevice,
}

impl Gateways {
    /// Starts the workers of a gateway with clients at `sockets`.
    ///
    /// # Errors
    /// A worker cannot start.
    pub(super) fn start<P: Provider<Cpu = NativeCpu>>(
        settings: &Settings,
        to: Target<P>,
        sockets: Vec<Listener>,
        on_core: OnCore,
        files: Arc<Files>,
    ) -> Result<Gateways, Failure> {
        let Target {
            facts,
            address,
            device,
            enter,
        } = to;
        let offers = facts.offers.operations;
        let info = GatewayInfo {
            system: facts.name.to_owned(),
            address,
            refuses: refusals(&offers),
        };
        tracing::info!(
            "gateway to {} at {}; refuses {}",
            info.system,
            info.address,
            info.refuses
        );
        let (cpu, now_unix_s) = (NativeCpu::new(0), unix_time_s());
        let started = cpu.refresh();
        let memcached = Memcached::new(
            settings,
            files,
            HashSeed::drawn(HashKind::default(), &cpu),
            (now_unix_s, 0),
            Items::Elsewhere {
                info,
                flush: offers.flush,
            },
            sockets,
        );
        let memcached =
            Arc::new(memcached.map_err(|error| Failure::new(exit::OS_ERROR, format!("sockets: {error}")))?);
        let start = WorkerStart {
            memcached: memcached.clone(),
            worker_count: settings.capacity.threads.value,
            offers,
            item_bytes_max: settings.capacity.max_item_bytes.value,
            started,
            start_unix_s: now_unix_s,
        };
        let on_core = Arc::new(on_core);
        let mut group = ThreadGroup::new()?;
        let mut starting = Vec::new();
        for index in 0..start.worker_count {
            let (enter, on_core, start) = (enter.clone(), on_core.clone(), start.clone());
            let idle = super::plan::idle_of(settings);
            let work = move |hello: &Hello<Waker>| {
                on_core(index);
                let opened = enter().and_then(|(ctx, backend)| {
                    let worker = Worker::new(&start, index, ctx.waker(), backend);
                    let worker = worker.map_err(|source| StartError::System {
                        what: "sockets",
                        source,
                    })?;
                    Ok((ctx, worker))
                });
                match opened {
                    Ok((ctx, worker)) => worker.run::<P>(&ctx, idle, hello),
                    Err(error) => {
                        hello.say(Err(error));
                        Ok(())
                    }
                }
            };
            starting.push(group.start(format!("drover-gateway-{index}"), work));
        }
        let (stoppers, result) = wait_for_all(starting);
        stoppers.into_iter().for_each(|stopper| group.stop_by(stopper));
        result.map_err(|(_, error)| error)?;
        Ok(Gateways {
            group,
            sockets: memcached.front(),
            facts,
            started,
            device,
        })
    }
}

impl Gateways {
    /// Where the counters of the sockets are.
    pub(super) fn sockets(&self) -> &SocketStats {
        &self.sockets
    }
}

impl Service for Gateways {
    fn ended(&self) -> BorrowedFd<'_> {
        self.group.ended()
    }

    fn why(&self) -> String {
        self.group.why().unwrap_or_else(|| "it was stopped".to_owned())
    }

    fn counters(&self, _: Duration) -> Result<Vec<Vec<u64>>, String> {
        Err(format!("the counters of {} are its server's", self.facts.name))
    }

    fn stop(mut self: Box<Self>) {
        self.group.stop();
    }
}

impl Source for Gateways {
    fn snapshot(&self, _: Duration) -> Result<Snapshot, String> {
        Ok(Snapshot::Hosting(Box::new(HostingSnapshot {
            service: ServiceStats {
                uptime_s: NativeCpu::new(0).refresh().since(self.started).as_s(),
                ..ServiceStats::default()
            },
            sockets: self.sockets.read(),
            ..HostingSnapshot::default()
        })))
    }

    fn device(&self) -> Option<DeviceCounters> {
        (self.device)()
    }
}

impl Running for Gateways {
    fn service(&self) -> &dyn Service {
        self
    }

    fn stop(self: Box<Self>) -> Result<(), Failure> {
        Service::stop(self);
        Ok(())
    }
}
