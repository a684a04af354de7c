//! [`ServiceClient`]: a client of a whole service; [`connect`] waits until the client has all its sessions.

use crate::secret::SECRET_BYTES_MAX;
use crate::{
    Calls, Channels, Completion, Facts, FetchChoice, FetchObjective, KvClient, Op, Reads, ResultTransfer,
    SetupError, SizeLimits, Verbs,
};
use drover_base::{Cpu, Ns};
use drover_control::{ControlAddr, ControlStream, Dial, DialError, service};
use drover_verbs::{Context, OpenError, Provider};
use std::error::Error;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// First interval between two polls of a client that waits for its sessions.
const LOOK_EVERY: Ns = Ns::from_us(200);
/// Longest such interval: hundreds of clients that connect at once must leave their server time to answer.
const LOOK_EVERY_MAX: Ns = Ns::from_ms(10);

/// Options of a client's connections.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Operations in flight per shard that the client asks for; 0 counts as 1
    /// ([`effective_window`](ConnectOptions::effective_window)). A system may round it up, grant less, or share the sum
    /// among all shards.
    pub window: usize,
    /// Most operations in flight over all shards, if that is less than the windows of all shards together: systems that
    /// share the sum have no slots for more at any shard, which servers would look at without result. 0: no such limit.
    pub depth: usize,
    /// Time after which an operation without a result completes as `Indeterminate` or `Refused(Unavailable)`, counted
    /// from [`submit`](KvClient::submit).
    pub deadline: Ns,
    /// Whether the caller may pause for seconds between two polls. A client of HERD then has a thread that sends
    /// heartbeats, so that the session survives the pause; other systems ignore this.
    pub rests: bool,
    /// Shared secret that the server's operator requires, at most [`SECRET_BYTES_MAX`] ([`connect`] refuses a longer
    /// one); empty: none.
    pub secret: Vec<u8>,
    /// How results come to the client, in systems that know several ways.
    pub transfer: ResultTransfer,
    /// How the client READs results, if it does; `None`: as it chooses itself.
    pub fetch: Option<FetchChoice>,
    /// What the client aims at if it chooses itself.
    pub objective: FetchObjective,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            window: 16,
            depth: 0,
            deadline: Ns::from_s(5),
            rests: false,
            secret: Vec::new(),
            transfer: ResultTransfer::Auto,
            fetch: None,
            objective: FetchObjective::default(),
        }
    }
}

impl ConnectOptions {
    /// The window that clients of all systems ask for: at least 1.
    pub fn effective_window(&self) -> usize {
        self.window.max(1)
    }
}

/// A client of a service, with a session at each of its shards.
pub trait ServiceClient<P: Provider>: KvClient<P> + Sized + 'static {
    /// Creates a client, which starts to connect at its first poll. `dials` has one dialer for the service, or one per
    /// shard in the order of the shards, or one for any shard, as the system's [`Channels`] require; it must not be empty.
    fn open(ctx: Rc<P::Context>, dials: Vec<Dial>, options: &ConnectOptions) -> Self;

    /// Whether the client has a session with every shard, and is not about to replace one.
    fn is_ready(&mut self) -> bool;

    /// Takes an error of setting up or losing a session that was not taken yet; `None` if there is none. The client
    /// keeps trying.
    fn take_error(&mut self) -> Option<SetupError>;

    /// Ends all operations, and the session with them: updates that may have been executed complete as `Indeterminate`, all
    /// others as `Refused(Unavailable)`. For systems whose services can [span members](crate::Facts::cluster); the others' clients
    /// do nothing.
    fn close(&mut self, sink: &mut dyn FnMut(Completion<'_>)) {
        let _ = sink;
    }

    /// What the service takes of operations such as `op`, under its key; `None` if the client does not know that, or has no
    /// session now.
    fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        let _ = op;
        None
    }

    /// Counts of this client's GETs and READs since it was opened; `None` if the system's clients issue no READs, as
    /// HERD's.
    fn reads(&self) -> Option<Reads> {
        None
    }

    /// Whether [`verbs`](ServiceClient::verbs) counts.
    const COUNTS_VERBS: bool = false;

    /// What this client has asked the fabric for in its present session; `None` if it does not count that, or has no session
    /// now.
    fn verbs(&self) -> Option<Verbs> {
        None
    }

    /// What this client's calls have taken since it was opened, except the last ones of lost sessions; `None` if the system's
    /// results come in one way only.
    fn calls(&mut self) -> Option<Calls> {
        None
    }
}

/// Why a client is not connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The control address cannot be dialed: no server listens there, or the attempt failed.
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
    /// The client's secret is longer than any server accepts.
    #[error("the secret has {bytes} bytes, more than the {SECRET_BYTES_MAX} that any server accepts")]
    SecretTooLong {
        /// Length of the secret, bytes.
        bytes: usize,
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
    /// The client had no session with every shard within the timeout, and no attempt reported an error.
    #[error("the server did not answer in time")]
    Timeout,
}

/// A server's description of its service: name of the system and number of shards. Sizes, addresses and keys come
/// later, with each session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceInfo {
    /// Name of the service's system.
    pub system: String,
    /// Number of shards that a client must select one by one; 0 if it selects none, as in HERD, whose clients open one
    /// channel for the whole service.
    pub shard_count: usize,
}

/// Asks the server at the other end of `stream` to describe its service; blocks for at most `patience`.
///
/// # Errors
/// [`ConnectError::Service`] if no answer arrives within `patience`, the answer is malformed, or the server closes or
/// refuses the channel.
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

/// Creates the dialers of a client of the service at `addr`: one, or one for each of `shard_count` shards, or for one of
/// them, as the [`Channels`] of `facts` require. The clients of this process take turns at the shards. `first` is a channel to the service that is already open: a single dialer returns
/// it at its first attempt; with one dialer per shard, it is closed.
pub fn dials(
    facts: &Facts,
    addr: &ControlAddr,
    shard_count: usize,
    first: Option<ControlStream>,
) -> Vec<Dial> {
    match facts.channels {
        Channels::PerShard | Channels::OneShard => {
            let ways = (0..shard_count as u16)
                .map(|shard| Dial::to_shard(addr.clone(), shard))
                .collect();
            facts.channels.of_client(ways, client_number())
        }
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

/// Number of a client: those of a process in succession, those of another process from elsewhere on.
fn client_number() -> usize {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: only the number matters.
    std::process::id() as usize + TAKEN.fetch_add(1, Ordering::Relaxed)
}

/// Opens a client and blocks until it has a session with every shard.
///
/// # Errors
/// [`ConnectError::NoShards`] if `dials` is empty; [`ConnectError::SecretTooLong`]; [`ConnectError::Setup`] at once if an error [is
/// final](SetupError::is_final), or with the last error after `timeout`; [`ConnectError::Timeout`] if there was none.
pub fn connect<P: Provider, C: ServiceClient<P>>(
    ctx: &Rc<P::Context>,
    dials: Vec<Dial>,
    options: &ConnectOptions,
    timeout: Ns,
) -> Result<C, ConnectError> {
    if dials.is_empty() {
        return Err(ConnectError::NoShards);
    }
    let bytes = options.secret.len();
    if bytes > SECRET_BYTES_MAX {
        return Err(ConnectError::SecretTooLong { bytes });
    }
    wait_for_sessions(ctx, C::open(ctx.clone(), dials, options), timeout)
}

/// Polls `client` until it has a session with every shard; blocks. Outcomes of operations that complete meanwhile are
/// dropped.
///
/// # Errors
/// As [`connect`], except [`ConnectError::NoShards`] and [`ConnectError::SecretTooLong`].
pub fn wait_for_sessions<P: Provider, C: ServiceClient<P>>(
    ctx: &Rc<P::Context>,
    mut client: C,
    timeout: Ns,
) -> Result<C, ConnectError> {
    let began = ctx.cpu().refresh();
    let deadline = began + timeout;
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
        let interval = Ns(now.since(began).0 / 4).clamp(LOOK_EVERY, LOOK_EVERY_MAX);
        ctx.park((now + interval).min(deadline));
    }
}
