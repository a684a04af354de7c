//! [`ServiceClient`]: a client of a whole service; [`connect`] waits until it has its sessions.

use crate::{Channels, Facts, KvClient, Reads, SetupError};
use drover_base::{Cpu, Ns};
use drover_rt::control::{ControlAddr, ControlStream, Dial, DialError, service};
use drover_verbs::{Context, OpenError, Provider};
use std::error::Error;
use std::rc::Rc;

/// How long a client that waits for its sessions sleeps between two looks.
const LOOK_EVERY: Ns = Ns::from_us(200);

/// How a client wants to work.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Operations under way at each shard.
    pub window: usize,
    /// An operation that has no result after this time fails.
    pub deadline: Ns,
    /// The caller may rest for seconds between two polls: the session must outlive that.
    pub rests: bool,
    /// What the server's operator asks for, at most 256 bytes.
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
    /// A client that starts to connect at its first poll: by one channel to the service, or by one to each shard in
    /// their order, as the system's [`Channels`] say.
    fn open(ctx: Rc<P::Context>, dials: Vec<Dial>, options: &ConnectOptions) -> Self;

    /// Whether it has all its sessions.
    fn is_ready(&mut self) -> bool;

    /// Why a session could not be had, if there was a reason since the last call.
    fn take_error(&mut self) -> Option<SetupError>;

    /// What it has read so far, if it READs and counts that.
    fn reads(&self) -> Option<Reads> {
        None
    }
}

/// Why a client is not connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address has no listener.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The server does not say what it is.
    #[error("{0}")]
    Service(Box<dyn Error + Send + Sync>),
    /// The server speaks a system that this program does not have.
    #[error("the server speaks {name}, which this program does not")]
    UnknownSystem {
        /// As the server said.
        name: String,
    },
    /// A service without shards.
    #[error("the server says that it has no shards")]
    NoShards,
    /// The fabric has no context for it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No session could be had.
    #[error(transparent)]
    Setup(SetupError),
    /// The sessions were not there in time.
    #[error("the server did not answer in time")]
    Timeout,
}

/// What a server said of its service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceInfo {
    /// Name of its system.
    pub system: String,
    /// Its shards.
    pub shard_count: usize,
}

/// Asks the server at the other end what its service is; `patience` for the answer.
///
/// # Errors
/// No answer, or another one.
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

/// The channels that a client of a service at `addr` opens. `first` is used for the first attempt if there is one
/// and only one channel.
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
            let (mut first, addr) = (first, addr.clone());
            let attempt = move || {
                let again = || ControlStream::connect(&addr, drover_rt::control::ATTEMPT_MAX);
                first.take().map_or_else(again, Ok)
            };
            vec![Dial::new(attempt)]
        }
    }
}

/// A client that has its sessions.
///
/// # Errors
/// Why it does not: at once if another attempt would not help, else after `timeout`.
pub fn connect<P: Provider, C: ServiceClient<P>>(
    ctx: &Rc<P::Context>,
    dials: Vec<Dial>,
    options: &ConnectOptions,
    timeout: Ns,
) -> Result<C, ConnectError> {
    if dials.is_empty() {
        return Err(ConnectError::NoShards);
    }
    let mut client = C::open(ctx.clone(), dials, options);
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
