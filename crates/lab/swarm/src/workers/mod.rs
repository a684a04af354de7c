//! Services of workers, of any system: one acceptor, a worker per partition, and clients as actors in a simulated
//! cluster. Requests and replies may be messages that get lost.
//!
//! Any [`WorkerSystem`] can be simulated, and is a [`Subject`]. Kinds of trouble and **the fault model** are in
//! [`kind`], sizes in [`mod@options`], scenarios in [`scenario`]. The checks are those of every system: the rules of
//! [`check`](crate::check), and the phases after the trouble.

mod cluster;
mod faults;
pub mod kind;
pub mod non_client;
pub mod options;
pub mod scenario;

use crate::actors::{Core, Fabric};
use crate::case::Case;
use crate::outcome::Outcome;
use crate::run::{self, RunParams};
use crate::scenario::Scenario;
use crate::subject::{Planted, Subject};
use cluster::Cluster;
use drover_base::{Actor, Ns};
use drover_control::{ControlStream, Dial};
use drover_kv::{Completion, KvClient, SetupError};
use drover_sim::VirtualCpu;
use drover_store::Mode;
use drover_verbs_sim::Sim;
use drover_verbs_suite::faulty::FaultyDevice;
use faults::plan;
use kind::Kind;
use non_client::Behaviour;
use options::Options;
use std::fmt::Debug;

/// A system whose service has one acceptor and a worker per partition.
pub trait WorkerSystem: Copy + Debug + Send + Sync + 'static {
    /// Name of the system on the command line.
    const NAME: &'static str;
    /// Deliberate mistakes that the server can be made to make.
    type Mistake: Copy + Debug + Send + Sync + 'static;
    /// All mistakes that campaigns must find.
    const PLANTED: &'static [Planted<Wrong<Self::Mistake>>];

    /// Actor that accepts clients.
    type Acceptor: SimAcceptor;
    /// Actor that executes the requests for a partition.
    type Worker: SimWorker;
    /// Client of the service.
    type Client: SimClient;
    /// Counters of a client. Their sums over all clients are in the result of a run.
    const COUNTERS: &'static [ClientCounter<Self::Client>];

    /// Timers of the protocol; pauses are about as long as one of them.
    const TIMERS: &'static [Ns];
    /// Maximum time until clients have sessions again after the trouble, when no attempt to connect blocks.
    const READY_MAX: Ns;
    /// Name of the cost that workers charge for polling a slot.
    const POLL_COST: &'static str;
    /// Peers that connect and are no clients, in addition to those that every system meets.
    const NON_CLIENTS: &'static [Behaviour];

    /// Opens a server on a machine, and returns its acceptor and its workers, by partition. `start` counts the starts
    /// of servers in a run, from 1: it is the server's epoch, and gives every start another hash seed. The server makes
    /// `mistake`, if there is one.
    ///
    /// # Panics
    /// If the fabric cannot host a server with these options.
    fn open(
        device: &FaultyDevice<Sim>,
        options: &Options,
        start: u64,
        mistake: Option<Self::Mistake>,
    ) -> (Self::Acceptor, Vec<Self::Worker>);

    /// Creates a client on a core, which connects to the server at `dial`.
    fn connect(core: Core, dial: Dial, options: &Options) -> Self::Client;
}

/// Name of a counter of clients, and the function that reads it.
pub type ClientCounter<C> = (&'static str, fn(&C) -> u64);

/// The acceptor of a simulated server.
pub trait SimAcceptor: Actor<VirtualCpu> + 'static {
    /// Context of the acceptor's core.
    fn context(&self) -> Core;

    /// Takes over the server's end of a new control channel.
    fn adopt(&mut self, stream: ControlStream);

    /// Number of sessions with clients, including channels on which no session has begun yet, and sessions that have
    /// ended and are not cleared away yet.
    fn session_count(&self) -> usize;

    /// Begins to shut the server down: notifies the clients and refuses new ones.
    fn stop(&mut self);
}

/// A worker of a simulated server.
pub trait SimWorker: Actor<VirtualCpu> + 'static {
    /// Context of the worker's core.
    fn context(&self) -> Core;

    /// Number of clients that the worker knows, whether or not they send requests.
    fn client_count(&self) -> usize;

    /// Restarts the worker with an empty partition, as after a panic.
    fn restart(&mut self);
}

/// A client of a simulated server.
pub trait SimClient: KvClient<Fabric> + 'static {
    /// Whether the client has a session, and is not about to replace it.
    fn is_ready(&self) -> bool;

    /// Takes the last error of setting up or losing a session; `None` if there was none since the last call.
    fn take_error(&mut self) -> Option<SetupError>;

    /// Epoch of the server with which the client has a session; `None` without a session.
    fn epoch(&self) -> Option<u64>;

    /// Number of the server's partitions; `None` without a session.
    fn partition_count(&self) -> Option<usize>;

    /// Closes the client properly, which ends its operations in flight.
    fn close(&mut self, sink: &mut impl FnMut(Completion<'_>));

    /// Sends a request for the server's statistics.
    fn ask_server_stats(&mut self);

    /// Takes the reply with the server's statistics; `None` if none has arrived since the last call.
    fn take_server_stats(&mut self) -> Option<String>;
}

/// A mistake that a campaign plants, by the place where it is made.
#[derive(Clone, Copy, Debug)]
pub enum Wrong<M> {
    /// The server makes this mistake.
    Server(M),
    /// The fabric makes the mistake
    /// [`FaultOptions::splits_late`](drover_verbs_suite::faulty::FaultOptions::splits_late), with enough faults to show
    /// it.
    Fabric,
}

impl<M: Copy> Wrong<M> {
    /// Switches on a mistake of the fabric. Returns a mistake of the server.
    fn plant(self, options: &mut Options) -> Option<M> {
        match self {
            Wrong::Server(mistake) => Some(mistake),
            Wrong::Fabric => {
                options.network.messages.splits_late = true;
                // Frequent enough to be found in a few hundred seeds.
                (options.network.messages.delay, options.network.loss) = (0.1, 0.1);
                None
            }
        }
    }
}

/// Time within which the server excludes the execution of requests that were given up.
const RULED_OUT: Ns = Ns::from_ms(5);

impl<T: WorkerSystem> Subject for T {
    const NAME: &'static str = T::NAME;
    type Trouble = Kind;
    type Mistake = Wrong<T::Mistake>;
    const SCENARIOS: &'static [Scenario<Kind>] = scenario::ALL;
    const PLANTED: &'static [Planted<Wrong<T::Mistake>>] = T::PLANTED;

    fn sizes(case: &Case<T>) -> (usize, usize) {
        let options = options(case);
        (options.load.ops, options.clients)
    }

    fn run(case: &Case<T>) -> Outcome {
        let mut options = options(case);
        let planted = case.planted.map(|planted| planted.mistake);
        let mistake = planted.and_then(|wrong| wrong.plant(&mut options));
        let cluster = Cluster::<T>::new(&options, case.seed, mistake);
        let params = RunParams {
            troubled: case.kinds.iter().any(|kind| kind.is_trouble()),
            horizon: options.machines.horizon,
            deadline: options.client.deadline,
            window: options.client.window,
            load: &options.load,
            evicts: options.server.partition.mode != Mode::Store,
            forgets: options.forgets(),
            expiry_lag: Ns::ZERO,
            sends_again: false,
            ready_max: T::READY_MAX,
            ruled_out: RULED_OUT,
        };
        run::run(cluster, &plan::<T>(&options, case.seed), &params)
    }
}

/// Draws the options of a case, with its reductions.
fn options<T: WorkerSystem>(case: &Case<T>) -> Options {
    let mut options = Options::draw(case.seed, &case.kinds);
    options.load.ops = case.ops.unwrap_or(options.load.ops);
    options.clients = case.clients.unwrap_or(options.clients);
    options
}
