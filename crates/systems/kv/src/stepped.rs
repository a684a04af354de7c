//! [`SteppedSystem`]: a system whose servers and clients can run as actors that the caller steps, so that a simulated
//! cluster can measure it.

use crate::{
    Capacity, ConnectOptions, ServiceClient, Shard, ShardPlan, ShardedSystem, Sizes, StartError, System,
    TablePlan, TableShape, Trial,
};
use drover_base::{Actor, Cpu, HashSeed, Ns, Progress};
use drover_control::{ControlStream, Dial, LocalListener};
use drover_mem::PageWish;
use drover_verbs::Provider;
use std::fmt::Debug;
use std::rc::Rc;

/// A system whose servers can run without threads, as actors that the caller steps. Every [`ShardedSystem`] is one;
/// other systems implement this trait themselves.
pub trait SteppedSystem: System {
    /// A variant of servers and clients that figures compare with others.
    type Form: Copy + Debug + Send + Sync + 'static;
    /// A client of any form.
    type FormClient<P: Provider>: ServiceClient<P>;

    /// All forms, each with the name of its curve in figures. The first is the usual one.
    const FORMS: &'static [(&'static str, Self::Form)];

    /// Opens the servers of a service. A system that can fill its servers directly stores `items` (keys and values) in
    /// them, which takes no time on any core; other systems ignore `items`, and clients must PUT them.
    /// [`SteppedService::is_filled`] says which.
    ///
    /// # Errors
    /// [`StartError`] if a server cannot be opened.
    fn open_service<'a, P: Provider>(
        device: &P::Device,
        form: Self::Form,
        sizes: &SteppedSizes,
        items: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<SteppedService<P>, StartError>;

    /// Creates a client of a service of this form; `dials` are as for [`ServiceClient::open`].
    fn open_client<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        form: Self::Form,
        options: &ConnectOptions,
    ) -> Self::FormClient<P>;
}

/// Sizes of a service whose speed is measured. The number of items is known, so servers choose tables that neither grow
/// nor evict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SteppedSizes {
    /// Number of shards (partitions), at least 1; each has its own core.
    pub shard_count: usize,
    /// Number of clients that will connect.
    pub client_count: usize,
    /// Number of keys, all shards together.
    pub key_count: u64,
    /// Length of each key, bytes.
    pub key_bytes: usize,
    /// Length of each value, bytes.
    pub value_bytes: usize,
    /// Longest value that a reply contains inline, bytes; the card fetches longer ones from memory. Ignored by systems
    /// whose servers send no values.
    pub inline_bytes_max: usize,
    /// Seed of the key hash.
    pub hash_seed: HashSeed,
    /// Epoch of the servers; ignored by systems without epochs.
    pub epoch: u64,
    /// What the measurement prescribes about requests.
    pub trial: Trial,
}

/// The servers of a service, as actors that the caller must step, and the listeners at which clients connect.
pub struct SteppedService<P: Provider> {
    /// All actors of the service, each with the context whose core must step it.
    pub actors: Vec<CoreActor<P>>,
    /// Listeners for clients: one, or one per shard, as the system's [`Channels`](crate::Channels) require.
    pub listeners: Vec<LocalListener>,
    /// Whether the servers hold the items that [`open_service`](SteppedSystem::open_service) was given. If not, clients
    /// must PUT them.
    pub is_filled: bool,
}

/// An actor and the context whose core must step it.
pub type CoreActor<P> = (Rc<<P as Provider>::Context>, Box<dyn Actor<<P as Provider>::Cpu>>);

/// A computation that is generic over stepped systems. [`SystemTable::stepped`](crate::SystemTable::stepped) runs it
/// with the type of one of them.
pub trait SteppedJob {
    /// Result of the job.
    type Answer;

    /// Runs the job with system `S`.
    fn run<S: SteppedSystem>(self) -> Self::Answer;
}

/// Owns a server and accepts its clients from a [`LocalListener`] at the start of each step. Asks to be stepped at
/// least every 20 microseconds.
///
/// Control channels within a process are not part of a modelled network: a message takes no virtual time until the next
/// step.
pub struct Accepting<A> {
    server: A,
    adopt: fn(&mut A, ControlStream),
    listener: LocalListener,
}

impl<A> Accepting<A> {
    /// Wraps `server`; `adopt` hands it the control channel of each new client.
    pub fn new(server: A, adopt: fn(&mut A, ControlStream), listener: &LocalListener) -> Accepting<A> {
        let listener = listener.clone();
        Accepting {
            server,
            adopt,
            listener,
        }
    }
}

impl<C: Cpu, A: Actor<C>> Actor<C> for Accepting<A> {
    fn step(&mut self, cpu: &C) -> Progress {
        while let Some(stream) = self.listener.accept() {
            (self.adopt)(&mut self.server, stream);
        }
        let wake_at = cpu.now() + LOOK_EVERY;
        self.server.step(cpu).and(Progress::Idle { wake_at })
    }
}

/// Minimum record memory of a shard, bytes: enough for chunks of every size.
const RECORD_BYTES_MIN: usize = 64 << 20;
/// Maximum item size, bytes: longer than any item whose speed is measured.
const ITEM_BYTES_MAX: usize = 1 << 20;
/// Interval between two polls of control channels; connecting is not measured.
const LOOK_EVERY: Ns = Ns::from_us(20);

/// A form is a kind of table.
impl<S: ShardedSystem> SteppedSystem for S {
    type Form = TableShape;
    type FormClient<P: Provider> = S::Client<P>;

    const FORMS: &'static [(&'static str, TableShape)] = S::TABLES;

    fn open_service<'a, P: Provider>(
        device: &P::Device,
        table: TableShape,
        sizes: &SteppedSizes,
        _: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<SteppedService<P>, StartError> {
        let plan = plan::<S>(table, sizes);
        let mut service = SteppedService {
            actors: Vec::new(),
            listeners: Vec::new(),
            is_filled: false,
        };
        let common = <S::Shard<P> as Shard<P>>::Common::default();
        for index in 0..sizes.shard_count {
            let shard = <S::Shard<P> as Shard<P>>::open(device, &plan, index, sizes.hash_seed, &common)?;
            let (ctx, listener) = (shard.context(), LocalListener::new());
            let accepting = Accepting::new(shard, Shard::adopt, &listener);
            service.actors.push((ctx, Box::new(accepting)));
            service.listeners.push(listener);
        }
        Ok(service)
    }

    fn open_client<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        _: TableShape,
        options: &ConnectOptions,
    ) -> S::Client<P> {
        S::Client::<P>::open(ctx, dials, options)
    }
}

/// A plan with tables that never grow. The number of entries is a power of two for which the keys fill the tables at most
/// three quarters on average `[HERD §5.1]`; the records have memory for four times the entries.
fn plan<S: ShardedSystem>(table: TableShape, sizes: &SteppedSizes) -> ShardPlan {
    let share = sizes.key_count as usize / sizes.shard_count;
    let entry_count = (share * 4).div_ceil(3).next_power_of_two();
    let usual = S::plan(&Sizes {
        shard_count: sizes.shard_count,
        capacity: Capacity::Items {
            count: sizes.key_count,
            key_bytes: sizes.key_bytes,
        },
        value_bytes_max: sizes.value_bytes,
        window: ConnectOptions::default().window,
    });
    let usual = usual.expect("a plan by items has the memory it needs");
    let record_bytes = S::record_bytes(sizes.key_bytes, sizes.value_bytes);
    ShardPlan {
        table: TablePlan::fixed(table, entry_count),
        record_bytes: (4 * entry_count * record_bytes).max(RECORD_BYTES_MIN),
        item_bytes_max: ITEM_BYTES_MAX,
        evicts: sizes.trial.evicts,
        pages: PageWish::Small,
        look_every: LOOK_EVERY,
        trial: sizes.trial,
        clients_max: usual.clients_max.max(sizes.client_count),
        ..usual
    }
}
