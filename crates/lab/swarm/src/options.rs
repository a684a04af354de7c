//! [`Options`]: the parameters of a run that a seed draws: first the sizes, which the kinds of trouble then change.

use crate::planted::SimVariant;
use drover_base::Ns;
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::control::Format;
use drover_kv_herd::server::{ClientLimits, ServeMode, ServerOptions};
use drover_mem::PageWish;
use drover_sim::Stream;
use drover_store::{Mode, PartitionOptions};
use drover_verbs_suite::faulty::FaultOptions;

/// All parameters of a run except its seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the profile with the costs of cards and hosts.
    pub profile: &'static str,
    /// Options of the server.
    pub server: ServerOptions,
    /// How the server differs from the shipped one.
    pub variant: SimVariant,
    /// Options of every client.
    pub client: ClientOptions,
    /// Request format of every client.
    pub format: Format,
    /// Number of clients.
    pub clients: usize,
    /// Number of machines with clients; the server has its own machine.
    pub client_machines: usize,
    /// Load of each client.
    pub load: Load,
    /// What the network does to messages.
    pub network: Network,
    /// The server accepts no more clients than there are.
    pub full_house: bool,
    /// Faults of machines and cores.
    pub machines: Machines,
    /// Interval between two polls of the acceptor's control channels, which are not part of the modelled network.
    pub look_every: Ns,
}

/// Load of a client.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Operations per client, as far as time allows.
    pub ops: usize,
    /// Maximum number of operations in flight.
    pub in_flight: usize,
    /// Number of distinct keys.
    pub keys: u64,
    /// 1: all keys are equally likely; 3: an eighth of the keys gets half of the operations.
    pub skew: f64,
    /// Percentage of PUTs.
    pub put_percent: u64,
    /// Percentage of DELETEs.
    pub delete_percent: u64,
    /// Percentage of PUTs with a time to live.
    pub ttl_percent: u64,
    /// Longest time to live, seconds.
    pub ttl_s_max: u32,
    /// Lengths of the values.
    pub values: ValueLengths,
    /// Percentage of operations before which the client requests statistics from the server.
    pub stats_percent: u64,
    /// Percentage of operations that follow a pause; the others are submitted as soon as an earlier one completes.
    pub pause_percent: u64,
}

/// Lengths of the values that a client writes.
#[derive(Clone, Copy, Debug)]
pub struct ValueLengths {
    /// Longest ordinary value, bytes.
    pub bytes_max: u64,
    /// Percentage of PUTs with a large value.
    pub large_percent: u64,
    /// Longest large value, bytes.
    pub large_bytes_max: u64,
    /// The server refuses values longer than this, bytes.
    pub refused_above: u64,
}

impl ValueLengths {
    /// Ordinary values only, of up to `bytes_max` bytes. The server refuses none.
    pub fn ordinary(bytes_max: u64) -> ValueLengths {
        ValueLengths {
            bytes_max,
            large_percent: 0,
            large_bytes_max: 0,
            refused_above: u64::MAX,
        }
    }
}

/// What the network does to messages.
#[derive(Clone, Debug)]
pub struct Network {
    /// Faults of single messages.
    pub messages: FaultOptions,
    /// Probability that the network loses a packet (RC retransmits it).
    pub loss: f64,
    /// Lines of a message become visible one by one, in ascending order.
    pub torn: bool,
    /// The fabric promises that WRITEs are neither lost nor overtaken, unless message faults are injected.
    pub lossless: bool,
}

/// Faults of machines and cores, and their end.
#[derive(Clone, Copy, Debug)]
pub struct Machines {
    /// End of the trouble.
    pub horizon: Ns,
    /// Crashes of the server's machine, each followed by a restart.
    pub server_crashes: u32,
    /// Crashes of clients' machines.
    pub client_crashes: u32,
    /// Clients that close properly, each replaced by another one.
    pub goodbyes: u32,
    /// Proper shutdowns of the server, each followed by another server.
    pub shutdowns: u32,
    /// Peers that connect and are no clients.
    pub non_clients: u32,
    /// Maximum downtime of a crashed machine.
    pub down_max: Ns,
    /// Faults of workers.
    pub workers: WorkerFaults,
    /// Number of times that a core stops.
    pub stalls: u32,
    /// Maximum duration of such a stop.
    pub stall_max: Ns,
    /// Number of times that a core stops for about as long as one of [`TIMERS`](crate::kind::TIMERS).
    pub pauses: u32,
    /// Maximum difference between clocks of cores.
    pub skew_max: Ns,
}

/// Faults of workers: how many of each kind.
#[derive(Clone, Copy, Default, Debug)]
pub struct WorkerFaults {
    /// Restarts of workers with an empty partition, as after a panic.
    pub restarts: u32,
    /// Number of times that a worker stops for longer than clients wait before they give up a request.
    pub hangs: u32,
    /// Number of times that a worker stops for a while and then restarts with an empty partition.
    pub relapses: u32,
}

/// One of `choices`, at random.
pub fn pick<T: Copy>(dice: &Stream, choices: &[T]) -> T {
    choices[dice.below(choices.len() as u64) as usize]
}

/// A number from `low` to `high`, both included.
pub fn between(dice: &Stream, low: u64, high: u64) -> u64 {
    low + dice.below(high - low + 1)
}

/// A time from `low` to `high`; all factors of two are equally likely.
pub fn time(dice: &Stream, low: Ns, high: Ns) -> Ns {
    Ns(dice.log_uniform(low.0 as f64, high.0 as f64) as u64)
}

/// A probability from 0.001 to 0.1.
pub fn rate(dice: &Stream) -> f64 {
    dice.log_uniform(1e-3, 1e-1)
}

impl Options {
    /// Parameters without trouble; `seed` draws the sizes.
    pub fn calm(seed: u64) -> Options {
        let dice = &Stream::new(seed, 0, "sizes");
        let horizon = time(dice, Ns::from_ms(5), Ns::from_ms(250));
        let window = 1 << between(dice, 0, 5);
        Options {
            profile: pick(dice, &["apt", "apt", "susitna_ib", "rfp", "cx6"]),
            clients: between(dice, 1, 6) as usize,
            client_machines: between(dice, 1, 3) as usize,
            client: ClientOptions {
                window,
                slot_bytes: pick(dice, &[128, 320, 1024, 1024]),
                crc: dice.chance(0.1),
                deadline: time(dice, Ns::from_ms(20), Ns::from_ms(400)),
                post_batch: pick(dice, &[0, 1, 8]),
                ..ClientOptions::default()
            },
            server: server(dice),
            variant: SimVariant::default(),
            format: Format::D,
            load: load(dice),
            network: Network {
                messages: FaultOptions::quiet(seed),
                loss: 0.0,
                torn: false,
                lossless: false,
            },
            full_house: false,
            machines: Machines {
                horizon,
                server_crashes: 0,
                client_crashes: 0,
                goodbyes: 0,
                shutdowns: 0,
                non_clients: 0,
                down_max: Ns::from_ms(20),
                workers: WorkerFaults::default(),
                stalls: 0,
                stall_max: Ns::ZERO,
                pauses: 0,
                skew_max: Ns::ZERO,
            },
            look_every: time(dice, Ns::from_us(20), Ns::from_us(200)),
        }
    }

    /// Whether items may disappear without a DELETE.
    pub fn forgets(&self) -> bool {
        let machines = &self.machines;
        let small = self.server.partition.log_bytes < LARGE_LOG_BYTES
            || self.server.partition.bucket_count < LARGE_BUCKETS
            || self.load.values.large_percent > 0;
        (small && self.server.partition.mode != Mode::Store)
            || self.load.ttl_percent > 0
            || machines.server_crashes + machines.shutdowns > 0
            || machines.workers.restarts + machines.workers.relapses > 0
    }
}

/// No load here fills a log of this size with small values ...
const LARGE_LOG_BYTES: usize = 2 << 20;
/// ... or this many buckets.
const LARGE_BUCKETS: usize = 1 << 12;

fn server(dice: &Stream) -> ServerOptions {
    ServerOptions {
        partition_count: between(dice, 1, 3) as usize,
        partition: PartitionOptions {
            mode: match dice.chance(0.25) {
                true => Mode::Store,
                false => Mode::Cache {
                    move_to_head: pick(dice, &[1.0, 0.5]),
                },
            },
            log_bytes: LARGE_LOG_BYTES,
            bucket_count: LARGE_BUCKETS,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        },
        clients: ClientLimits {
            count_max: 32,
            ..ClientLimits::default()
        },
        mode: ServeMode::Batch {
            batch: pick(dice, &[1, 4, 32, 32]),
        },
        idle_sweeps: 1,
        ..ServerOptions::default()
    }
}

fn load(dice: &Stream) -> Load {
    Load {
        ops: between(dice, 30, 250) as usize,
        in_flight: between(dice, 1, 8) as usize,
        keys: between(dice, 2, 48),
        skew: pick(dice, &[1.0, 1.0, 3.0]),
        put_percent: pick(dice, &[5, 30, 50, 90]),
        delete_percent: pick(dice, &[0, 3, 10]),
        ttl_percent: 0,
        ttl_s_max: 1,
        values: ValueLengths::ordinary(pick(dice, &[8, 40, 200, 700])),
        stats_percent: 0,
        pause_percent: pick(dice, &[5, 30, 100]),
    }
}
