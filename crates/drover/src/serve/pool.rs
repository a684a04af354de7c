//! `serve --pool ADDR,...`: a gateway whose workers are the threads of one compute process of a pool; and the gateway of a service that is
//! a pool itself.

use super::gateway::{Entered, Gateways, Target, no_client};
use super::ops::{self, Files};
use super::run::{Running, Start};
use super::settings::Settings;
use super::ways;
use crate::access::over_tls;
use crate::admin::{
    AskDevice, AskMember, MemberSnapshot, Snapshot, SocketStats, Source, ask_device, ask_member,
};
use crate::auth;
use crate::exit::{self, Failure};
use crate::pool::read_secret;
use crate::pool::tables::{POOL_KIND, RaceClient, RaceOptions, RaceSystem};
use drover_base::Ns;
use drover_client::Fabric;
use drover_control::{ControlAddr, ControlListener, Dial};
use drover_gateway::OnContext;
use drover_kv::{ConnectOptions, OnCore, Service, System, wait_for_sessions};
use drover_mem::NativeCpu;
use drover_memnode::{Keeper, PoolOptions};
use drover_net::Listener;
use drover_verbs::{Device, DeviceCounters, DomainOptions, Provider};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time within which all nodes must answer, and a worker be connected with them.
const PATIENCE: Ns = Ns::from_s(5);
/// Operations in flight per worker and node.
const WINDOW: usize = 64;

/// A gateway to a pool that is to start.
pub(super) struct PoolGateway<'a> {
    settings: &'a Settings,
    nodes: Vec<ControlAddr>,
    sockets: Vec<Listener>,
}

impl<'a> PoolGateway<'a> {
    /// Opens sockets and the fabric.
    ///
    /// # Errors
    /// An address has no fabric, or a socket cannot be opened.
    pub(super) fn prepare(settings: &'a Settings) -> Result<(Fabric, PoolGateway<'a>), Failure> {
        let nodes = settings.service.pool.value.iter().map(|addr| addr.parse());
        let nodes: Result<Vec<ControlAddr>, _> = nodes.collect();
        let service = &settings.service;
        let credentials = match (&service.secret_file.value, &service.connect_auth_file.value) {
            (Some(path), _) => Some(read_secret(path)?),
            (None, Some(path)) => Some(auth::of_file("--connect-auth-file", path)?),
            (None, None) => auth::of_environment()?,
        };
        let nodes = nodes.map_err(|error| Failure::new(exit::USAGE, error))?;
        let tls = service.connect_tls()?;
        let reached = |node: ControlAddr| over_tls(node.with_credentials(credentials.clone()), tls.as_ref());
        let nodes = nodes.into_iter().map(reached).collect::<Result<Vec<_>, _>>()?;
        let fabric = Fabric::towards_pool(&nodes[0])?;
        let sockets = ways::open_all(settings, ops::inherited()?)?;
        if sockets.is_empty() {
            let text = "--pool: a gateway without -p and -s serves nobody";
            return Err(Failure::new(exit::USAGE, text));
        }
        let gateway = PoolGateway {
            settings,
            nodes,
            sockets,
        };
        Ok((fabric, gateway))
    }
}

impl Start for PoolGateway<'_> {
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
        let nodes = self.nodes;
        let address = nodes.iter().map(ControlAddr::to_string).collect::<Vec<_>>();
        let dials = move || nodes.iter().cloned().map(Dial::to).collect();
        let options = PoolOptions {
            timeout: PATIENCE,
            ..PoolOptions::new(POOL_KIND)
        };
        let member = Member::<P>::enter(device, dials, options)?;
        let running = member.serve(self.settings, address.join(","), self.sockets, on_core, files)?;
        Ok(Box::new(running))
    }
}

/// This process, as one of a pool.
pub(super) struct Member<P: Provider> {
    keeper: Arc<Keeper<P>>,
    device: AskDevice,
}

impl<P: Provider<Cpu = NativeCpu>> Member<P> {
    /// Enters the pool whose nodes `dials` makes dialers of.
    ///
    /// # Errors
    /// These are not all nodes of a pool, or they do not let us in.
    pub(super) fn enter(
        device: &P::Device,
        dials: impl Fn() -> Vec<Dial> + Send + Sync + 'static,
        options: PoolOptions,
    ) -> Result<Member<P>, Failure> {
        let unavailable = |error: &dyn std::fmt::Display| Failure::new(exit::UNAVAILABLE, error);
        let domain = device.domain(&DomainOptions::default());
        let domain = domain.map_err(|error| unavailable(&error))?;
        let keeper = Keeper::<P>::start(&domain, dials, options).map_err(|error| unavailable(&error))?;
        Ok(Member {
            keeper: Arc::new(keeper),
            device: ask_device::<P>(device),
        })
    }

    /// Starts the workers of a gateway to the pool, which people know by `address`.
    ///
    /// # Errors
    /// A worker cannot start, or has no connection with the nodes in time.
    pub(super) fn serve(
        self,
        settings: &Settings,
        address: String,
        sockets: Vec<Listener>,
        on_core: OnCore,
        files: Arc<Files>,
    ) -> Result<Entrants<P>, Failure> {
        let pool = self.keeper.pool();
        tracing::info!(client = %pool.client(), "in a pool of {} memory node(s)", pool.node_count());
        drop(pool);
        let race = RaceOptions {
            evicts: !settings.capacity.disable_evictions.value,
            ..RaceOptions::default()
        };
        let keeper = self.keeper.clone();
        let enter = move || open(&keeper, race);
        let to = Target::<P> {
            facts: &RaceSystem::FACTS,
            address,
            device: self.device,
            enter: Arc::new(enter),
        };
        Ok(Entrants {
            workers: Box::new(Gateways::start(settings, to, sockets, on_core, files)?),
            keeper: self.keeper,
        })
    }
}

/// Opens the client of a worker, on its thread.
fn open<P: Provider<Cpu = NativeCpu>>(keeper: &Arc<Keeper<P>>, race: RaceOptions) -> Entered<P> {
    let ctx = Rc::new(keeper.pool().context()?);
    let options = ConnectOptions {
        window: WINDOW,
        ..ConnectOptions::default()
    };
    let client = RaceClient::in_pool(keeper, ctx.clone(), &options, race);
    let client = wait_for_sessions::<P, _>(&ctx, client, PATIENCE);
    let client = client.map_err(|error| no_client(error.to_string()))?;
    Ok((ctx.clone(), Box::new(OnContext::<P, _>::new(ctx, client))))
}

/// A gateway that runs, and its process's place in the pool.
pub(super) struct Entrants<P: Provider> {
    workers: Box<Gateways>,
    keeper: Arc<Keeper<P>>,
}

impl<P: Provider> Entrants<P> {
    /// Where the counters of the sockets are.
    pub(super) fn sockets(&self) -> &SocketStats {
        self.workers.sockets()
    }

    /// Asks what the process does in the pool.
    pub(super) fn ask_member(&self) -> AskMember {
        ask_member(&self.keeper)
    }
}

impl<P: Provider> Service for Entrants<P> {
    fn ended(&self) -> BorrowedFd<'_> {
        self.workers.ended()
    }

    fn why(&self) -> String {
        self.workers.why()
    }

    fn counters(&self, patience: Duration) -> Result<Vec<Vec<u64>>, String> {
        self.workers.counters(patience)
    }

    fn stop(self: Box<Self>) {
        Service::stop(self.workers);
        // The workers have dropped what they had of the pool, and their handles of the keeper.
        if let Some(keeper) = Arc::into_inner(self.keeper) {
            keeper.leave();
        }
    }
}

impl<P: Provider> Source for Entrants<P> {
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String> {
        self.workers.snapshot(patience)
    }

    fn device(&self) -> Option<DeviceCounters> {
        self.workers.device()
    }

    fn member(&self) -> Option<MemberSnapshot> {
        ask_member(&self.keeper)()
    }
}

impl<P: Provider> Running for Entrants<P> {
    fn service(&self) -> &dyn Service {
        self
    }

    fn stop(self: Box<Self>) -> Result<(), Failure> {
        Service::stop(self);
        Ok(())
    }
}
