//! [`Options`]: the parameters of a run that a seed draws: first the sizes, which the kinds of trouble then change.

use super::kind::{Kind, reconcile};
use crate::draw::{between, pick, time};
use crate::load::Load;
use drover_base::Ns;
use drover_mem::PageWish;
use drover_sim::Stream;
use drover_store::{Mode, PartitionOptions};
use drover_verbs_suite::faulty::FaultOptions;

/// All parameters of a run except its seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the profile with the costs of cards and hosts.
    pub profile: &'static str,
    /// Sizes and limits of the server.
    pub server: ServerSizes,
    /// Sizes and limits of every client.
    pub client: ClientSizes,
    /// Secret that clients must send; empty: clients need none.
    pub secret: &'static [u8],
    /// Number of clients at the start, distributed over the machines with clients.
    pub clients: usize,
    /// Number of machines with clients; the server has its own machine.
    pub client_machines: usize,
    /// Load of each client.
    pub load: Load,
    /// Faults and promises of the network.
    pub network: Network,
    /// Faults of machines and cores.
    pub machines: Machines,
    /// Interval between two polls of the acceptor's control channels, which are not part of the modelled network.
    pub look_every: Ns,
}

/// Sizes and limits of the server.
#[derive(Clone, Debug)]
pub struct ServerSizes {
    /// Number of partitions, each with its own worker.
    pub partition_count: usize,
    /// Options of each partition's store, such as its memory.
    pub partition: PartitionOptions,
    /// Longest value that clients may store, bytes.
    pub item_bytes_max: usize,
    /// Whether the server's limit of clients is the number of clients at the start; otherwise it is 32.
    pub full_house: bool,
    /// Maximum number of clients with request slots; further ones send datagrams, or are refused without
    /// `datagram_recvs`.
    pub slot_clients_max: usize,
    /// Number of RECVs for request datagrams, per worker; 0: clients cannot send datagrams.
    pub datagram_recvs: usize,
    /// How workers overlap requests: in batches or in a pipeline.
    pub overlap: Overlap,
    /// One reply in this many is signaled.
    pub signal_period: usize,
}

/// How a worker overlaps the memory accesses of requests.
#[derive(Clone, Copy, Debug)]
pub enum Overlap {
    /// In batches of up to this many requests.
    Batch(usize),
    /// In a pipeline.
    Pipeline {
        /// Whether to finish all requests in the pipeline when no new one arrives.
        drain: bool,
    },
}

/// Sizes and limits of every client.
#[derive(Clone, Debug)]
pub struct ClientSizes {
    /// Maximum number of requests in flight per partition.
    pub window: usize,
    /// Bytes of a request slot.
    pub slot_bytes: usize,
    /// Whether requests are datagrams instead of WRITEs into slots.
    pub datagrams: bool,
    /// Whether requests have the format of the system's paper.
    pub paper_format: bool,
    /// Whether requests have a checksum even if the fabric keeps the order of a WRITE's bytes.
    pub checksum: bool,
    /// Timeout of an operation, from its submission.
    pub deadline: Ns,
    /// Number of staged requests at which the client posts them without waiting for its next poll; 0: the client's
    /// default.
    pub post_batch: usize,
    /// Maximum number of long values moved at a time.
    pub bulk_chunks: u8,
    /// Maximum number of operations that wait in the client for a session or for an earlier operation on their key.
    pub waiting_max: usize,
}

/// Faults and promises of the network.
#[derive(Clone, Debug)]
pub struct Network {
    /// Faults of single messages. Its `seed` is that of the run, from which loads and hash seeds are drawn, too.
    pub messages: FaultOptions,
    /// Probability, 0 to 1, that the network loses a packet (RC retransmits it).
    pub loss: f64,
    /// Whether the lines of a message become visible one by one, in ascending order.
    pub torn: bool,
    /// Whether the fabric promises that WRITEs are neither lost nor overtaken. It does not in any case if faults that
    /// break the promise may be injected.
    pub lossless: bool,
}

/// Numbers of faults of machines and cores, their durations, and the time at which they end. A crash of a machine that
/// is down at that time is left out.
#[derive(Clone, Copy, Debug)]
pub struct Machines {
    /// Virtual time until which faults begin; the trouble ends earlier if all operations do, and later if a core is
    /// still stopped.
    pub horizon: Ns,
    /// Number of crashes of the server's machine, each followed by a restart.
    pub server_crashes: u32,
    /// Number of crashes of clients' machines, each followed by a restart.
    pub client_crashes: u32,
    /// Number of times that a client closes properly, and another one takes its place.
    pub goodbyes: u32,
    /// Number of proper shutdowns of the server, each followed by the start of another server.
    pub shutdowns: u32,
    /// Number of peers that connect and are no clients.
    pub non_clients: u32,
    /// Maximum downtime of a crashed machine.
    pub down_max: Ns,
    /// Faults of workers.
    pub workers: WorkerFaults,
    /// Number of times that a core stops.
    pub stalls: u32,
    /// Maximum duration of one of these `stalls`.
    pub stall_max: Ns,
    /// Number of further times that a core stops, for about as long as one of the
    /// [timers](super::WorkerSystem::TIMERS).
    pub pauses: u32,
    /// Maximum difference between clocks of cores.
    pub skew_max: Ns,
}

/// Numbers of faults of workers, by kind.
#[derive(Clone, Copy, Default, Debug)]
pub struct WorkerFaults {
    /// Number of restarts of a worker with an empty partition, as after a panic.
    pub restarts: u32,
    /// Number of times that a worker's core stops for 50 to 400 ms.
    pub hangs: u32,
    /// Number of times that a worker's core stops for 0.5 to 4 ms, after which the worker restarts with an empty
    /// partition.
    pub relapses: u32,
}

/// No load here fills a log of this size with small values ...
const LARGE_LOG_BYTES: usize = 2 << 20;
/// ... or this many buckets.
const LARGE_BUCKETS: usize = 1 << 12;

impl Options {
    /// Draws the parameters of a run from `seed`: first the sizes, then the changes of `kinds`, in this order.
    pub fn draw(seed: u64, kinds: &[Kind]) -> Options {
        let mut options = Options::calm(seed);
        for kind in kinds {
            kind.apply(&mut options, seed);
        }
        reconcile(&mut options, kinds);
        options
    }

    /// Parameters without trouble; `seed` draws the sizes.
    fn calm(seed: u64) -> Options {
        let dice = &Stream::new(seed, 0, "sizes");
        let horizon = time(dice, Ns::from_ms(5), Ns::from_ms(250));
        let window = 1 << between(dice, 0, 5);
        Options {
            profile: pick(dice, &["apt", "apt", "susitna_ib", "rfp", "cx6"]),
            clients: between(dice, 1, 6) as usize,
            client_machines: between(dice, 1, 3) as usize,
            client: ClientSizes {
                window,
                slot_bytes: pick(dice, &[128, 320, 1024, 1024]),
                datagrams: false,
                paper_format: false,
                checksum: dice.chance(0.1),
                deadline: time(dice, Ns::from_ms(20), Ns::from_ms(400)),
                post_batch: pick(dice, &[0, 1, 8]),
                bulk_chunks: 4,
                waiting_max: 256,
            },
            server: server(dice),
            secret: b"",
            load: Load::draw(dice),
            network: Network {
                messages: FaultOptions::quiet(seed),
                loss: 0.0,
                torn: false,
                lossless: false,
            },
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

    /// Whether items may disappear without a DELETE: because they expire, are evicted, or a server or worker restarts.
    pub fn forgets(&self) -> bool {
        let machines = &self.machines;
        let small = self.server.partition.log_bytes < LARGE_LOG_BYTES
            || self.server.partition.bucket_count < LARGE_BUCKETS
            || self.load.values.large_percent > 0;
        (small && self.server.partition.mode != Mode::Store)
            || self.load.ttl.percent > 0
            || machines.server_crashes + machines.shutdowns > 0
            || machines.workers.restarts + machines.workers.relapses > 0
    }
}

fn server(dice: &Stream) -> ServerSizes {
    ServerSizes {
        partition_count: between(dice, 1, 3) as usize,
        partition: PartitionOptions {
            mode: match dice.chance(0.25) {
                true => Mode::Store,
                false => pick(dice, &[Mode::S3_FIFO, Mode::S3_FIFO, Mode::FIFO]),
            },
            log_bytes: LARGE_LOG_BYTES,
            bucket_count: LARGE_BUCKETS,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        },
        item_bytes_max: 1 << 20,
        full_house: false,
        slot_clients_max: usize::MAX,
        datagram_recvs: 0,
        overlap: Overlap::Batch(pick(dice, &[1, 4, 32, 32])),
        signal_period: 64,
    }
}
