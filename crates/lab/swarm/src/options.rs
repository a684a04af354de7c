//! [`Options`]: what one seed drew. Sizes first; the kinds of trouble change them afterwards.

use crate::planted::SimVariant;
use drover_base::Ns;
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::control::Format;
use drover_kv_herd::server::{ServeMode, ServerOptions};
use drover_mem::PageWish;
use drover_sim::Stream;
use drover_store::{Mode, PartitionOptions};
use drover_verbs_suite::faulty::FaultOptions;

/// Everything about a run but its seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// What cards and hosts cost.
    pub profile: &'static str,
    /// The server's.
    pub server: ServerOptions,
    /// How it differs from the one that is shipped.
    pub variant: SimVariant,
    /// Every client's.
    pub client: ClientOptions,
    /// What every client speaks.
    pub format: Format,
    /// How many clients.
    pub clients: usize,
    /// On how many machines they are; the server has one of its own.
    pub client_machines: usize,
    /// What they ask.
    pub load: Load,
    /// What happens to single messages.
    pub messages: FaultOptions,
    /// Probability that the network loses a packet (RC sends it again).
    pub loss: f64,
    /// Lines of a message become visible one by one, in ascending order.
    pub torn: bool,
    /// The fabric promises that WRITEs are neither lost nor overtaken, unless messages go wrong.
    pub lossless: bool,
    /// The server takes no more clients than there are.
    pub full_house: bool,
    /// Clocks of cores differ by up to this.
    pub skew_max: Ns,
    /// What happens to machines and cores.
    pub machines: Machines,
    /// How often the acceptor looks at its channels, which are no part of the modelled network.
    pub look_every: Ns,
}

/// What clients ask.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Operations per client, if there is time for them.
    pub ops: usize,
    /// Of those at a time, at most.
    pub in_flight: usize,
    /// Distinct keys.
    pub keys: u64,
    /// 1: all keys alike; 3: an eighth of them gets half of the operations.
    pub skew: f64,
    /// Of 100 operations.
    pub put_percent: u64,
    /// Of 100 operations.
    pub delete_percent: u64,
    /// Of 100 PUTs, so many expire.
    pub ttl_percent: u64,
    /// Longest time to live, seconds.
    pub ttl_s_max: u32,
    /// Longest ordinary value, bytes.
    pub value_bytes_max: u64,
    /// Of 100 PUTs, so many are large.
    pub large_percent: u64,
    /// Longest large value, bytes.
    pub large_bytes_max: u64,
    /// Values longer than this are refused.
    pub refused_above: u64,
    /// Before so many of 100 operations the server is asked for its statistics.
    pub stats_percent: u64,
    /// Of 100 operations, so many come after a pause; the others follow the completion of one before.
    pub pause_percent: u64,
}

/// What happens to machines and cores, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Machines {
    /// Trouble ends here.
    pub horizon: Ns,
    /// Crashes of the server's machine, each followed by a restart.
    pub server_crashes: u32,
    /// Crashes of clients' machines.
    pub client_crashes: u32,
    /// Clients that say goodbye, each followed by another one.
    pub goodbyes: u32,
    /// Servers that say goodbye to everybody, each followed by another one.
    pub shutdowns: u32,
    /// Peers that connect and are no clients.
    pub non_clients: u32,
    /// A crashed machine is away for so long at most.
    pub down_max: Ns,
    /// Workers that begin again with an empty partition, as after a panic.
    pub worker_restarts: u32,
    /// Cores that do nothing for a while.
    pub stalls: u32,
    /// The longest while.
    pub stall_max: Ns,
    /// Cores that do nothing for about as long as one of [`TIMERS`](crate::kind::TIMERS).
    pub pauses: u32,
    /// Workers that do nothing for longer than clients wait before they give a request up.
    pub worker_hangs: u32,
    /// Workers that do nothing for a while, and then begin again with an empty partition.
    pub worker_relapses: u32,
}

/// One of `choices`.
pub fn pick<T: Copy>(dice: &Stream, choices: &[T]) -> T {
    choices[dice.below(choices.len() as u64) as usize]
}

/// From `low` to `high`, both included.
pub fn between(dice: &Stream, low: u64, high: u64) -> u64 {
    low + dice.below(high - low + 1)
}

/// A time from `low` to `high`, every factor of two as likely as any other.
pub fn time(dice: &Stream, low: Ns, high: Ns) -> Ns {
    Ns(dice.log_uniform(low.0 as f64, high.0 as f64) as u64)
}

/// A probability from one in a thousand to one in ten.
pub fn rate(dice: &Stream) -> f64 {
    dice.log_uniform(1e-3, 1e-1)
}

impl Options {
    /// A cluster without trouble, of sizes that `seed` draws.
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
            messages: FaultOptions::quiet(seed),
            loss: 0.0,
            torn: false,
            lossless: false,
            full_house: false,
            skew_max: Ns::ZERO,
            machines: Machines {
                horizon,
                server_crashes: 0,
                client_crashes: 0,
                goodbyes: 0,
                shutdowns: 0,
                non_clients: 0,
                down_max: Ns::from_ms(20),
                worker_restarts: 0,
                stalls: 0,
                stall_max: Ns::ZERO,
                pauses: 0,
                worker_hangs: 0,
                worker_relapses: 0,
            },
            look_every: time(dice, Ns::from_us(20), Ns::from_us(200)),
        }
    }

    /// Whether an item may vanish without anybody deleting it.
    pub fn forgets(&self) -> bool {
        let machines = &self.machines;
        let small = self.server.partition.log_bytes < LARGE_LOG_BYTES
            || self.server.partition.bucket_count < LARGE_BUCKETS
            || self.load.large_percent > 0;
        (small && self.server.partition.mode != Mode::Store)
            || self.load.ttl_percent > 0
            || machines.server_crashes + machines.shutdowns > 0
            || machines.worker_restarts + machines.worker_relapses > 0
    }
}

/// Nothing that runs here fills a log of this size with small values ...
const LARGE_LOG_BYTES: usize = 2 << 20;
/// ... or so many buckets.
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
        clients_max: 32,
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
        value_bytes_max: pick(dice, &[8, 40, 200, 700]),
        large_percent: 0,
        large_bytes_max: 0,
        refused_above: u64::MAX,
        stats_percent: 0,
        pause_percent: pick(dice, &[5, 30, 100]),
    }
}
