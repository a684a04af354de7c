//! [`ServiceClient`]: a client of a whole service; [`connect`] waits until the client has all its sessions.

use crate::{Channels, Facts, KvClient, Reads, SetupError};
use drover_base::{Cpu, Ns};
use drover_control::{ControlAddr, ControlStream, Dial, DialError, service};
use drover_verbs::{Context, OpenError, Provider};
use std::error::Error;
use std::rc::Rc;

/// Interval between two polls of a client that waits for its sessions.
const LOOK_EVERY: Ns = Ns::from_us(200);

/// Options of a client's connections.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Operations in flight per shard that the client asks for. A system may round it up, grant less, or share the sum
    /// among all shards.
    pub window: usize,
    /// Time after which an operation without a result fails, counted from [`submit`](KvClient::submit).
    pub deadline: Ns,
    /// The caller may pause for seconds between two polls; the session must survive such a pause.
    pub rests: bool,
    /// Shared secret that the server's operator requires, at most 256 bytes; empty: none.
    pub secret: Vec<u8>,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            window: 16,
            deadline: Ns::from_s(5),
            rests: false,
            secret: Vec::new(),
        }
    }
}

/// A client of a service, with a session at each of its shards.
pub trait ServiceClient<P: Provider>: KvClient<P> + Sized + 'static {
    /// Creates a client, which starts to connect at its first poll. `dials` has one dialer for the service, or one per
    /// shard in the order of the shards, as the system's [`Channels`] require.
    fn open(ctx: Rc<P::Context>, dials: Vec<Dial>, options: &ConnectOptions) -> Self;

    /// Whether the client has a session with every shard.
    fn is_ready(&mut self) -> bool;

    /// Takes the last error of setting up a session; `None` if there was none since the last call.
    fn take_error(&mut self) -> Option<SetupError>;

    /// Counts of this client's GETs and READs so far; `None` if the system issues or counts no READs.
    fn reads(&self) -> Option<Reads> {
        None
    }
}

/// Why a client is not connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address cannot be dialed: nobody listens there, or the attempt failed.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The server did not describe its service, for the given reason.
    #[error("{0}")]
    Service(Box<dyn Error + Send + Sync>),
    /// This program does not have the server's system.
    #[error("the server's system is {name}, which this program does not have")]
    UnknownSystem {
        /// Name of the system, from the server.
        name: String,
    },
    /// The service has no shards.
    #[error("the server reports a service without shards")]
    NoShards,
    /// The fabric could not create a context.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A session with a shard could not be set up.
    #[error(transparent)]
    Setup(SetupError),
    /// The sessions were not complete within the timeout.
    #[error("the server did not answer in time")]
    Timeout,
}

/// A server's description of its service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceInfo {
    /// Name of the service's system.
    pub system: String,
    /// Number of shards that the server reported; 0 if a client selects none.
    pub shard_count: usize,
}

/// Asks the server at the other end of `stream` to describe its service; blocks for at most `patience`.
///
/// # Errors
/// [`ConnectError::Service`] if no answer arrives within `patience`, or a malformed one.
pub fn ask_service(
    stream: &mut ControlStream,
    cpu: &impl Cpu,
    patience: Ns,
) -> Result<ServiceInfo, ConnectError> {
    let said: Result<service::ServiceInfo, _> = service::ask(stream, cpu, &service::ServiceQuery, patience);
    let said = said.map_err(|error| ConnectError::Service(error.to_string().into()))?;
    Ok(ServiceInfo {
        system: said.system,
        shard_count: usize::from(said.shard_count),
    })
}

/// Creates the dialers of a client of the service at `addr`: one, or one per shard, as `facts` requires. `first` is a
/// channel that is already open: a single dialer returns it at its first attempt; otherwise it is closed.
pub fn dials(
    facts: &Facts,
    addr: &ControlAddr,
    shard_count: usize,
    first: Option<ControlStream>,
) -> Vec<Dial> {
    match facts.channels {
        Channels::PerShard => (0..shard_count as u16)
            .map(|shard| Dial::to_shard(addr.clone(), shard))
            .collect(),
        Channels::One => {
            let (mut first, addr, addr_text) = (first, addr.clone(), addr.to_string());
            let attempt = move || {
                let again = || ControlStream::connect(&addr, drover_control::ATTEMPT_MAX);
                first.take().map_or_else(again, Ok)
            };
            vec![Dial::new(addr_text, attempt)]
        }
    }
}

/// Opens a client and blocks until it has a session with every shard.
///
/// # Errors
/// [`ConnectError`] with the last reason: at once if further attempts are useless, otherwise after `timeout`.
pub fn connect<P: Provider, C: ServiceClient<P>>(
    ctx: &Rc<P::Context>,
    dials: Vec<Dial>,
    options: &ConnectOptions,
    timeout: Ns,
) -> Result<C, ConnectError> {
    if dials.is_empty() {
        return Err(ConnectError::NoShards);
    }
    wait_for_sessions(ctx, C::open(ctx.clone(), dials, options), timeout)
}

/// Waits until `client` has all its sessions.
///
/// # Errors
/// As [`connect`].
pub fn wait_for_sessions<P: Provider, C: ServiceClient<P>>(
    ctx: &Rc<P::Context>,
    mut client: C,
    timeout: Ns,
) -> Result<C, ConnectError> {
    let deadline = ctx.cpu().refresh() + timeout;
    let mut last = None;
    loop {
        let now = ctx.cpu().refresh();
        client.poll(ctx.cpu(), &mut |_| {});
        if client.is_ready() {
            return Ok(client);
        }
        match client.take_error() {
            Some(error) if error.is_final() => return Err(ConnectError::Setup(error)),
            Some(error) => last = Some(error),
            None => {}
        }
        if now >= deadline {
            return Err(last.map_or(ConnectError::Timeout, ConnectError::Setup));
        }
        ctx.arm();
        ctx.park((now + LOOK_EVERY).min(deadline));
    }
}
