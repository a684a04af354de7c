//! [`Options`]: the parameters of a run of a service of shards that a seed draws: first the sizes, which the kinds of
//! trouble then change.

use super::kind::{Kind, reconcile};
use crate::draw::{between, pick, time};
use crate::load::Load;
use drover_base::Ns;
use drover_kv::{Capacity, Channels, ConnectOptions, FetchChoice, ShardPlan, Sizes, System, TablePlan};
use drover_mem::PageWish;
use drover_sim::Stream;
use drover_verbs_suite::faulty::FaultOptions;

/// All parameters of a run except its seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the profile with the costs of cards and hosts.
    pub profile: &'static str,
    /// Sizes and options of the service and its shards.
    pub plan: ShardPlan,
    /// Options with which every client connects, such as its window and deadline.
    pub connect: ConnectOptions,
    /// Number of clients at the start, distributed over the machines with clients.
    pub clients: usize,
    /// Number of machines with clients, which have no shards.
    pub client_machines: usize,
    /// Whether every shard has its own machine; otherwise all shards share one.
    pub is_apart: bool,
    /// Load of each client.
    pub load: Load,
    /// Faults that the clients' and shards' devices inject: of these only breaks of connections. Its `seed` is that of
    /// the run, from which loads and hash seeds are drawn, too.
    pub messages: FaultOptions,
    /// Probability, 0 to 1, that the network loses a packet (connections retransmit it).
    pub loss: f64,
    /// How messages become visible piece by piece, and READs are sampled; `None`: all at once.
    pub tear: Option<Tear>,
    /// Maximum difference between clocks of cores.
    pub skew_max: Ns,
    /// Faults of machines and cores.
    pub machines: Machines,
}

/// How messages become visible, and READs are sampled.
#[derive(Clone, Copy, Debug)]
pub struct Tear {
    /// Longest time between two pieces.
    pub apart_max: Ns,
    /// Whether the pieces are words of 8 bytes; otherwise lines.
    pub is_of_words: bool,
}

impl Tear {
    /// Line by line.
    pub fn of_lines(apart_max: Ns) -> Tear {
        let is_of_words = false;
        Tear {
            apart_max,
            is_of_words,
        }
    }

    /// Word by word.
    pub fn of_words(apart_max: Ns) -> Tear {
        let is_of_words = true;
        Tear {
            apart_max,
            is_of_words,
        }
    }
}

/// Numbers of faults of machines and cores, their durations, and the time at which they end. A crash of a machine that
/// is down at that time is left out.
#[derive(Clone, Copy, Debug)]
pub struct Machines {
    /// Virtual time until which faults begin; the trouble ends earlier if all operations do, and later if a core is
    /// still stopped.
    pub horizon: Ns,
    /// Number of crashes of all shards at once, each followed by a restart.
    pub service_crashes: u32,
    /// Number of crashes of single shards, each followed by a restart.
    pub shard_crashes: u32,
    /// Number of crashes of clients' machines, each followed by a restart.
    pub client_crashes: u32,
    /// Number of clients, in addition to those at the start, that start later.
    pub arrivals: u32,
    /// Number of deaths of single clients, each of whom is replaced at once.
    pub deaths: u32,
    /// Maximum downtime of a crashed machine.
    pub down_max: Ns,
    /// Number of times that a core stops.
    pub stalls: u32,
    /// Maximum duration of one of these `stalls`.
    pub stall_max: Ns,
    /// Number of further times that a core stops, for about as long as one of [`TIMERS`](super::kind::TIMERS).
    pub pauses: u32,
    /// Time that passes between a shard's step that found work and its next step; not only before the horizon.
    pub shard_pause: Ns,
}

/// Small values hardly fill a records' memory of this size ...
const LARGE_RECORD_BYTES: usize = 2 << 20;
/// ... or a table with this many entries.
const LARGE_ENTRIES: usize = 1 << 12;

impl Options {
    /// Draws the parameters of a run of a service of `S` from `seed`: first the sizes, then the changes of `kinds`, in
    /// this order.
    pub fn draw<S: System<Plan = ShardPlan>>(seed: u64, kinds: &[Kind]) -> Options {
        let mut options = Options::calm::<S>(seed);
        for kind in kinds {
            kind.apply(&mut options, seed);
        }
        reconcile(&mut options, kinds);
        let offers = &S::FACTS.offers;
        options.plan.evicts &= offers.evicts;
        let values = &mut options.load.values;
        let longest = offers.operations.value_bytes_max as u64;
        values.large_bytes_max = values.large_bytes_max.min(longest);
        let operations = &offers.operations;
        if !operations.conditions {
            options.load.conditions.percent = 0;
        }
        // Shards that come back empty begin with the same versions.
        options.load.conditions.versions &= operations.versions && !options.loses_servers();
        if let Some(tear) = &mut options.tear {
            tear.is_of_words &= S::FACTS.reads_words;
        }
        // Shards that share memory are threads of one process.
        if S::FACTS.channels == Channels::OneShard {
            options.is_apart = false;
            let machines = &mut options.machines;
            machines.service_crashes += std::mem::take(&mut machines.shard_crashes);
        }
        options
    }

    /// Parameters without trouble; `seed` draws the sizes.
    fn calm<S: System<Plan = ShardPlan>>(seed: u64) -> Options {
        let dice = &Stream::new(seed, 0, "sizes");
        let horizon = time(dice, Ns::from_ms(5), Ns::from_ms(250));
        Options {
            profile: pick(dice, &["apt", "apt", "susitna_ib", "rfp", "cx6"]),
            plan: plan::<S>(dice),
            connect: ConnectOptions {
                window: 1 << between(dice, 0, 5),
                deadline: time(dice, Ns::from_ms(20), Ns::from_ms(400)),
                fetch: fetch(seed),
                ..ConnectOptions::default()
            },
            clients: between(dice, 1, 6) as usize,
            client_machines: between(dice, 1, 3) as usize,
            is_apart: dice.chance(0.2),
            load: Load::draw(dice),
            messages: FaultOptions::quiet(seed),
            loss: 0.0,
            tear: None,
            skew_max: Ns::ZERO,
            machines: Machines {
                horizon,
                service_crashes: 0,
                shard_crashes: 0,
                client_crashes: 0,
                arrivals: 0,
                deaths: 0,
                down_max: Ns::from_ms(20),
                stalls: 0,
                stall_max: Ns::ZERO,
                pauses: 0,
                shard_pause: Ns::ZERO,
            },
        }
    }

    /// Number of machines with shards; machines with clients follow them.
    pub fn shard_machines(&self) -> usize {
        match self.is_apart {
            true => self.plan.shard_count,
            false => 1,
        }
    }

    /// Raises the item limit to at least `item_bytes` and sets the record memory to 4 MiB per shard, so that some items
    /// of up to 100,000 bytes fit.
    pub fn make_space_for(&mut self, item_bytes: usize) {
        self.plan.item_bytes_max = self.plan.item_bytes_max.max(item_bytes);
        self.plan.record_bytes = 4 << 20;
    }

    /// Whether items may disappear without a DELETE or an eviction: because they expire or shards crash.
    pub fn forgets(&self) -> bool {
        self.load.ttl.percent > 0 || self.loses_servers()
    }

    /// Whether shards crash, and restart without knowing anything.
    pub fn loses_servers(&self) -> bool {
        self.machines.service_crashes + self.machines.shard_crashes > 0
    }
}

/// How clients READ results, if they do not measure that themselves. Where verbs are simulated, none is so fast that calls
/// would take turns by themselves.
fn fetch(seed: u64) -> Option<FetchChoice> {
    let dice = &Stream::new(seed, 0, "fetch");
    dice.chance(0.4).then(|| FetchChoice {
        slow_reads: pick(dice, &[2, 5, 32, u32::MAX]),
        first_bytes: pick(dice, &[0, 32, 256, 1000]),
        takes_turns: dice.chance(0.7),
    })
}

/// Systems choose a table's form by the capacity, so both forms of capacity are drawn.
fn plan<S: System<Plan = ShardPlan>>(dice: &Stream) -> ShardPlan {
    let shard_count = between(dice, 1, 3) as usize;
    let sizes = Sizes {
        shard_count,
        capacity: match dice.chance(0.5) {
            true => Capacity::Memory {
                bytes: shard_count << 22,
            },
            false => Capacity::Items {
                count: 1000,
                key_bytes: 60,
            },
        },
        value_bytes_max: 1000,
        window: 1,
    };
    let usual = S::plan(&sizes).expect("enough memory for so few shards");
    ShardPlan {
        table: TablePlan::fixed(usual.table.shape, LARGE_ENTRIES),
        record_bytes: LARGE_RECORD_BYTES,
        evicts: dice.chance(0.6),
        pages: PageWish::Small,
        look_every: time(dice, Ns::from_us(20), Ns::from_us(500)),
        ..usual
    }
}
