//! A system whose workers have native clients only, as `serve` starts it; if it is a pool of memory nodes, with a gateway beside it, which
//! is one of these clients.

use super::announce::core_list;
use super::ops::{self, Files};
use super::plan::{NoPlan, plan_of};
use super::pool::{Entrants, Member};
use super::run::{Prepare, Running, Start};
use super::settings::Settings;
use super::shortage::start_failure;
use super::ways;
use crate::admin::{
    AskDevice, AskMember, MemberSnapshot, ShardsSnapshot, Snapshot, SocketStats, Source, ask_device,
};
use crate::exit::{self, Failure};
use crate::pool::tables::POOL_KIND;
use drover_base::{Cpu, Ns};
use drover_control::{ControlAddr, ControlListener, TlsConnector};
use drover_kv::{Facts, OnCore, Service, System, dials};
use drover_mem::NativeCpu;
use drover_memnode::PoolOptions;
use drover_net::Listener;
use drover_verbs::{Device, DeviceCounters, Provider};
use rustix::event::epoll;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// A service of `S` that is to start.
pub(super) struct Native<'a, S: System> {
    settings: &'a Settings,
    plan: S::Plan,
    /// Listeners for memcached clients, of a gateway.
    sockets: Vec<Listener>,
}

impl<'a, S: System> Prepare<'a> for Native<'a, S> {
    fn prepare(settings: &'a Settings) -> Result<Native<'a, S>, Failure> {
        let inherited = ops::inherited()?;
        let has_gateway = S::FACTS.offers.gateway;
        if !inherited.is_empty() && !has_gateway {
            let text = format!(
                "sockets of a service manager do not apply to --system {}",
                S::FACTS.name
            );
            return Err(Failure::new(exit::USAGE, text));
        }
        let mut plan = plan_of::<S>(settings).map_err(|why| refusal(settings, why))?;
        // memcached's default may be too large.
        let (most, longest) = S::item_bytes_max(&mut plan);
        *longest = most.min(*longest);
        let sockets = match has_gateway {
            true => ways::open_all(settings, inherited)?,
            false => Vec::new(),
        };
        Ok(Native {
            settings,
            plan,
            sockets,
        })
    }
}

impl<S: System> Native<'_, S> {
    /// The gateway to the nodes that serve at `addr`, if there are sockets for it.
    fn gateway<P: Provider<Cpu = NativeCpu>>(
        settings: &Settings,
        sockets: Vec<Listener>,
        addr: ControlAddr,
        device: &P::Device,
        on_core: OnCore,
        files: Arc<Files>,
    ) -> Result<Option<Entrants<P>>, Failure> {
        if sockets.is_empty() {
            return Ok(None);
        }
        let (text, shard_count) = (addr.to_string(), settings.capacity.threads.value);
        // Its own nodes are guarded, too, and may speak TLS.
        let doors = files.auth.clone();
        let dials = move || {
            let own = doors.as_ref().and_then(|doors| doors.any_user());
            dials(&S::FACTS, &addr.clone().with_credentials(own), shard_count, None)
        };
        let member = Member::<P>::enter(device, dials, PoolOptions::new(POOL_KIND))?;
        member.serve(settings, text, sockets, on_core, files).map(Some)
    }
}

impl<S: System> Start for Native<'_, S> {
    fn socket_addresses(&self) -> Vec<String> {
        ways::addresses(&self.sockets)
    }

    fn start<P: Provider<Cpu = NativeCpu>>(
        self,
        device: &P::Device,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
        files: Arc<Files>,
    ) -> Result<Box<dyn Running>, Failure> {
        let facts = &S::FACTS;
        if !(facts.fits)(device.caps()) {
            let text = format!(
                "--system {} needs {}, which this fabric lacks",
                facts.name, facts.needs
            );
            return Err(Failure::new(exit::UNAVAILABLE, text));
        }
        announce(self.settings, facts, &S::describe(&self.plan));
        let addr = own_addr(&listeners[0])?;
        let on_core = Arc::new(on_core);
        let of_nodes = on_core.clone();
        let nodes = S::start::<P>(
            device,
            &self.plan,
            listeners,
            Box::new(move |index| of_nodes(index)),
        )
        .map_err(|error| start_failure(self.settings, error))?;
        let on_core = Box::new(move |index| on_core(index));
        let gateway = Self::gateway::<P>(self.settings, self.sockets, addr, device, on_core, files);
        let (service, gateway) = match gateway {
            Ok(None) => (nodes, None),
            Ok(Some(gateway)) => {
                let beside = GatewayNumbers {
                    member: gateway.ask_member(),
                    sockets: gateway.sockets().clone(),
                };
                (Beside::boxed(Box::new(gateway), nodes)?, Some(beside))
            }
            Err(failure) => {
                nodes.stop();
                return Err(failure);
            }
        };
        Ok(Box::new(NativeService {
            service,
            facts,
            began: NativeCpu::new(0).refresh(),
            device: ask_device::<P>(device),
            gateway,
        }))
    }
}

/// A gateway beside its nodes.
struct Beside {
    gateway: Box<dyn Service>,
    nodes: Box<dyn Service>,
    /// Ready when one of them has ended.
    ended: OwnedFd,
}

impl Beside {
    fn boxed(gateway: Box<dyn Service>, nodes: Box<dyn Service>) -> Result<Box<dyn Service>, Failure> {
        let ended = epoll::create(epoll::CreateFlags::CLOEXEC).and_then(|ended| {
            for (number, service) in [&gateway, &nodes].into_iter().enumerate() {
                let data = epoll::EventData::new_u64(number as u64);
                epoll::add(&ended, service.ended(), data, epoll::EventFlags::IN)?;
            }
            Ok(ended)
        });
        let ended = ended.map_err(|error| Failure::new(exit::OS_ERROR, format!("epoll: {error}")))?;
        Ok(Box::new(Beside {
            gateway,
            nodes,
            ended,
        }))
    }
}

impl Service for Beside {
    fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    fn why(&self) -> String {
        format!("nodes: {}; gateway: {}", self.nodes.why(), self.gateway.why())
    }

    fn counters(&self, patience: Duration) -> Result<Vec<Vec<u64>>, String> {
        self.nodes.counters(patience)
    }

    fn stop(self: Box<Self>) {
        self.gateway.stop();
        self.nodes.stop();
    }
}

/// The address of a listener of this process, for clients of this process.
///
/// # Errors
/// The certificate that it shows cannot be read.
pub fn own_addr(listener: &ControlListener) -> Result<ControlAddr, Failure> {
    let own = listener
        .tls()
        .cloned()
        .map(TlsConnector::to_own_server)
        .transpose();
    let own = own.map_err(|error| Failure::new(exit::NO_INPUT, error))?;
    Ok(listener.addr().clone().with_tls(own.map(Arc::new)))
}

/// Refusal of settings without a plan.
fn refusal(settings: &Settings, why: NoPlan) -> Failure {
    let (mib, item_bytes) = (
        settings.capacity.memory_mib.value,
        settings.capacity.max_item_bytes.value,
    );
    let text = match why {
        NoPlan::Memory(why) => format!("-m {mib}: {why}"),
        NoPlan::TooMuch => format!("-m {mib}: too much"),
        NoPlan::Item { most } => format!(
            "-I: items of {item_bytes} bytes are longer than half of a shard's records, {most} bytes: more memory \
             (-m) or fewer shards (-t)"
        ),
    };
    Failure::new(exit::USAGE, text)
}

/// A service that runs.
struct NativeService {
    service: Box<dyn Service>,
    facts: &'static Facts,
    began: Ns,
    device: AskDevice,
    /// Counters of the gateway in front of it, if there is one.
    gateway: Option<GatewayNumbers>,
}

/// What the admin port tells of a gateway beside its nodes.
struct GatewayNumbers {
    /// Asks what it does in its pool.
    member: AskMember,
    sockets: SocketStats,
}

impl Source for NativeService {
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String> {
        Ok(Snapshot::Shards(Box::new(ShardsSnapshot {
            facts: self.facts,
            shards: self.service.counters(patience)?,
            uptime_s: NativeCpu::new(0).refresh().since(self.began).as_s(),
            sockets: self.gateway.as_ref().map(|gateway| gateway.sockets.read()),
        })))
    }

    fn device(&self) -> Option<DeviceCounters> {
        (self.device)()
    }

    fn member(&self) -> Option<MemberSnapshot> {
        self.gateway.as_ref().and_then(|gateway| (gateway.member)())
    }
}

impl Running for NativeService {
    fn service(&self) -> &dyn Service {
        &*self.service
    }

    fn stop(self: Box<Self>) -> Result<(), Failure> {
        self.service.stop();
        Ok(())
    }
}

/// Logs the choices and their reasons.
fn announce(settings: &Settings, facts: &Facts, plan: &[String]) {
    for line in plan {
        tracing::info!("{}: {line}", facts.name);
    }
    let (count, memory) = (settings.capacity.threads.value, &settings.capacity.memory_mib);
    tracing::info!("memory: {} MiB requested ({})", memory.value, memory.origin);
    match &settings.workers.cores.value {
        Some(cores) => tracing::info!(
            "shards: {count}, on cores {} ({})",
            core_list(cores),
            settings.workers.cores.origin
        ),
        None => tracing::info!("shards: {count}, not pinned ({})", settings.workers.cores.origin),
    }
    match settings.workers.spin_us.value {
        0 => tracing::info!("idle shards poll for ever (--spin-us 0)"),
        us => tracing::info!(
            "idle shards poll for {us} us, then sleep ({})",
            settings.workers.spin_us.origin
        ),
    }
}
