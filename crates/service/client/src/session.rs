//! [`Connected`]: a client of any system on any fabric, behind one type.

use crate::core::{Core, Rest};
use crate::fabric::{Fabric, Job};
use crate::{Error, Options, cluster};
use drover_base::Ns;
use drover_cluster_etcd::ServiceUrl;
use drover_control::{ControlAddr, ControlStream};
use drover_kv::{
    Calls, Completion, ConnectError, KvClient, Op, ServiceClient, ServiceInfo, SizeLimits, SubmitError,
    System, SystemJob, SystemTable, Token, ask_service, connect, dials,
};
use drover_mem::NativeCpu;
use drover_systems::System as Named;
use drover_verbs::{Context, Device, Provider, Waker};
use std::rc::Rc;

/// A connected client of any system on any fabric; it cannot move to another thread. Convert it into a
/// [`Client`](crate::Client) or an [`AsyncClient`](crate::AsyncClient) to use it.
pub struct Connected(pub(crate) Box<dyn Session>);

impl Connected {
    /// Connects to the service at `addr`. Blocks until there is a session with every shard; each step of connecting
    /// takes at most `options.connect_timeout`, and an address without a listener fails at once. At a service of several members
    /// (`etcd://...`) it blocks until the members are known; each is connected to when it is first asked.
    ///
    /// # Errors
    /// The address is malformed, no service answers there, the fabric is missing, or no session can be set up.
    pub fn to(addr: &str, options: &Options) -> Result<Connected, Error> {
        if addr.starts_with(ServiceUrl::SCHEME) {
            return Ok(Connected::to_service(&addr.parse()?, options)?);
        }
        Ok(Connected::to_addr(addr.parse()?, options)?)
    }

    /// As [`to`](Connected::to), with a parsed address.
    ///
    /// # Errors
    /// No service answers there, the fabric is missing, or no session can be set up.
    pub fn to_addr(addr: ControlAddr, options: &Options) -> Result<Connected, ConnectError> {
        Connected::to_one_of::<Named>(addr, options)
    }

    /// As [`to`](Connected::to), with the parsed address of a service of several members.
    ///
    /// # Errors
    /// A file that the URL names cannot be used, etcd does not answer, the service has no members yet, or none has an address that this machine can use.
    pub fn to_service(url: &ServiceUrl, options: &Options) -> Result<Connected, ConnectError> {
        cluster::connect(url, options)
    }

    /// As [`to_addr`](Connected::to_addr), but the service's system must be one of table `T`. For programs with a table
    /// of their own.
    ///
    /// # Errors
    /// Those of `to_addr`, or the service's system is not in the table.
    pub fn to_one_of<T: SystemTable>(
        addr: ControlAddr,
        options: &Options,
    ) -> Result<Connected, ConnectError> {
        let addr = match &options.credentials {
            Some(credentials) => addr.with_credentials(Some(credentials.clone())),
            None => addr,
        };
        let addr = match &options.tls {
            Some(tls) => addr.with_tls(Some(tls.clone())),
            None => addr,
        };
        let first = ControlStream::connect(&addr, options.connect_timeout)?;
        // Before the server is asked: a fabric that is missing here is the clearer error.
        let fabric = Fabric::towards(&addr).map_err(|error| ConnectError::Service(error.into()))?;
        let service = Service::<T>::ask(addr, first, options.connect_timeout)?;
        fabric.run(Connect { service, options })
    }

    /// Wraps `client`, whose queue pairs are in the verbs context `ctx`. For programs that choose system and fabric
    /// themselves.
    pub fn over<P: Provider, C: KvClient<P> + 'static>(ctx: Rc<P::Context>, client: C) -> Connected {
        Connected::telling(
            ctx,
            client,
            Tells {
                calls: |_| None,
                size_limits: |_, _| None,
            },
        )
    }

    /// As [`over`](Connected::over), with what the client says of itself.
    fn telling<P: Provider, C: KvClient<P> + 'static>(
        ctx: Rc<P::Context>,
        client: C,
        tells: Tells<C>,
    ) -> Connected {
        Connected(Box::new(Running::<P, C> {
            client,
            core: Core::new(ctx),
            tells,
        }))
    }
}

/// A service whose server has reported its system, one of table `T`; it owns the control channel used for that. No
/// session exists yet.
pub struct Service<T = Named> {
    addr: ControlAddr,
    first: ControlStream,
    info: ServiceInfo,
    system: T,
}

impl<T: SystemTable> Service<T> {
    /// Opens a control channel to the server at `addr` and asks for its system; each of the two takes at most
    /// `patience`. Opens no RDMA device.
    ///
    /// # Errors
    /// No listener there, no answer in time, or a system that is not in the table.
    pub fn at(addr: ControlAddr, patience: Ns) -> Result<Service<T>, ConnectError> {
        let first = ControlStream::connect(&addr, patience)?;
        Service::ask(addr, first, patience)
    }

    fn ask(addr: ControlAddr, mut first: ControlStream, patience: Ns) -> Result<Service<T>, ConnectError> {
        let info = ask_service(&mut first, &NativeCpu::new(0), patience)?;
        let system = T::named(&info.system).ok_or_else(|| ConnectError::UnknownSystem {
            name: info.system.clone(),
        })?;
        Ok(Service {
            addr,
            first,
            info,
            system,
        })
    }

    /// The service's system, as the server reported it.
    pub fn system(&self) -> T {
        self.system
    }

    /// Number of shards that a client selects one by one; 0 if it selects none.
    pub fn shard_count(&self) -> usize {
        self.info.shard_count
    }

    /// Returns the control channel over which the server was asked.
    pub fn into_channel(self) -> ControlStream {
        self.first
    }
}

struct Connect<'a, T> {
    service: Service<T>,
    options: &'a Options,
}

impl<T: SystemTable> Job for Connect<'_, T> {
    type Answer = Result<Connected, ConnectError>;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Self::Answer {
        let ctx = Rc::new(device.context()?);
        self.service.system.run(ConnectIn::<P, T> { ctx, connect: self })
    }
}

struct ConnectIn<'a, P: Provider, T> {
    ctx: Rc<P::Context>,
    connect: Connect<'a, T>,
}

impl<P: Provider, T: SystemTable> SystemJob for ConnectIn<'_, P, T> {
    type Answer = Result<Connected, ConnectError>;

    fn run<S: System>(self) -> Self::Answer {
        let (service, options) = (self.connect.service, self.connect.options);
        let dials = dials(
            &S::FACTS,
            &service.addr,
            service.info.shard_count,
            Some(service.first),
        );
        let timeout = options.connect_timeout;
        let client: S::Client<P> = connect::<P, _>(&self.ctx, dials, &options.of_connection(), timeout)?;
        let tells = Tells {
            calls: |client: &mut S::Client<P>| client.calls(),
            size_limits: |client, op| client.size_limits(op),
        };
        Ok(Connected::telling::<P, _>(self.ctx, client, tells))
    }
}

/// A [`KvClient`] with its context, for any provider. One virtual call per list of operations or poll for replies.
pub(crate) trait Session {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError>;
    fn poll(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize;
    fn next_timer(&self) -> Ns;
    fn refresh(&self) -> Ns;
    /// Does what is due after a poll with results: lets other threads use the core for a while.
    fn worked(&mut self);
    /// Does what is due after a poll without results: goes on polling, lets others use the core, or sleeps. Before
    /// it sleeps, asks `ready` whether there is other work. Returns the number of operations that finished.
    fn rest(&mut self, ready: &mut dyn FnMut() -> Ready, sink: &mut dyn FnMut(Completion<'_>)) -> usize;
    fn waker(&self) -> Waker;
    fn calls(&mut self) -> Option<Calls>;
    fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits>;
}

/// What a caller knows when its session is about to sleep.
pub(crate) enum Ready {
    /// There is work: do not sleep.
    Work,
    /// Nothing; sleep for at most this time.
    Nothing(Ns),
}

struct Running<P: Provider, C> {
    /// Declared before the context: its queue pairs must be destroyed first.
    client: C,
    core: Core<P>,
    tells: Tells<C>,
}

/// What a client says of itself beside [`KvClient`], if it is a [`ServiceClient`].
struct Tells<C> {
    calls: fn(&mut C) -> Option<Calls>,
    size_limits: fn(&mut C, &Op<'_>) -> Option<SizeLimits>,
}

impl<P: Provider, C: KvClient<P>> Session for Running<P, C> {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        self.client.submit(self.core.ctx.cpu(), op, token)
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        self.client
            .poll(self.core.ctx.cpu(), &mut |completion: Completion<'_>| {
                sink(completion)
            })
    }

    fn next_timer(&self) -> Ns {
        self.client.next_timer()
    }

    fn refresh(&self) -> Ns {
        self.core.refresh()
    }

    fn worked(&mut self) {
        self.core.worked();
    }

    fn rest(&mut self, ready: &mut dyn FnMut() -> Ready, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let (client, cpu) = (&mut self.client, self.core.ctx.clone());
        let mut poll = || {
            let finished = client.poll(cpu.cpu(), &mut |completion: Completion<'_>| sink(completion));
            (finished, client.next_timer())
        };
        self.core.rest(&mut poll, ready)
    }

    fn waker(&self) -> Waker {
        self.core.waker()
    }

    fn calls(&mut self) -> Option<Calls> {
        (self.tells.calls)(&mut self.client)
    }

    fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        (self.tells.size_limits)(&mut self.client, op)
    }
}
