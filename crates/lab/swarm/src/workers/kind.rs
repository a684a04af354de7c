//! [`Kind`]: the kinds of trouble of services of workers; a seed switches each of them on or off as a whole.
//!
//! **Fault model.** Trouble begins with the cluster and ends at its *horizon*; afterwards every machine runs, the
//! network delivers everything, and no core is stopped.
//!
//! *Messages* that are unreliable by contract (WRITEs over UC, datagrams) may be lost, arrive twice, arrive late or
//! after later ones. The lines of a WRITE may land separately, in any order and at any time; in that case the fabric
//! reports that it does not keep the order of bytes. Duplicates and late messages carry the bytes as they were when
//! posted. The sender notices nothing. Reliable connections may break, before or after a request was executed. The
//! network may lose single packets, which reliable connections retransmit. Bytes are never changed or invented.
//!
//! *Machines* crash between two steps of their cores. Messages that have left their card arrive; everything else and
//! their memory is lost, control channels end, and clients that dial in the meantime are refused. Later they restart:
//! a server with empty partitions, another epoch and another secret; clients without any state. A *worker* may restart
//! alone, as after a panic, with its clients and without its items. Operations of a client that are in flight when it
//! crashes may or may not happen.
//!
//! *Cores* stop for microseconds to milliseconds, or for seconds, until the other end considers them dead; then they
//! continue where they were. Some stop for about as long as a [timer of the protocol](super::WorkerSystem::TIMERS)
//! runs, a little shorter or longer. Clocks of cores differ by a constant.
//!
//! *Control channels* are reliable, ordered streams, like TCP and Unix sockets; they end when one end does. Peers that
//! are no clients may connect; they send nothing, malformed messages, or too little to be admitted.
//!
//! *Shutdowns* are not crashes: the server notifies all clients, and another server takes its place.

use super::options::{Options, Overlap};
use crate::draw::{between, pick, rate, time};
use crate::subject::{Trouble, troubles};
use drover_base::Ns;
use drover_sim::Stream;
use drover_store::{Mode, item_bytes};

troubles! {
    /// A kind of trouble, of tight limits, or of load. A seed draws how much of it a run gets.
    pub enum Kind {
        /// Messages over UC and UD are lost.
        Loss = "loss",
        /// The network loses packets, including those of reliable connections, which retransmit them.
        Packets = "packets",
        /// Messages over UC and UD arrive twice.
        Duplicates = "duplicates",
        /// Messages over UC and UD arrive late, or after later ones.
        Delays = "delays",
        /// WRITEs land line by line, in ascending or any order.
        Tearing = "tearing",
        /// Reliable connections break.
        Breaks = "breaks",
        /// The server's machine crashes and restarts.
        Servers = "servers",
        /// Workers restart with an empty partition, as after a panic.
        Workers = "workers",
        /// Clients' machines crash and restart.
        Clients = "clients",
        /// Cores stop, each time for at most 40 ms.
        Stalls = "stalls",
        /// Cores stop, each time for at most 2 to 8 s, often so long that the other end considers them dead.
        Silence = "silence",
        /// Clocks of cores differ by at most 5 ms.
        Skew = "skew",
        /// A partition has only 2.5 to 32 KiB of memory for items, and 1 to 8 buckets, or 64 times as many.
        /// In some runs one client reads one key after each of its PUTs, with one partition that has memory for 64 to 160 items, and buckets for all.
        Pressure = "pressure",
        /// Some or all items expire, after 1 or 2 s.
        Expiry = "expiry",
        /// Windows of one or two requests, slots of one or two lines.
        Narrow = "narrow",
        /// Some or all clients send datagrams.
        Datagrams = "datagrams",
        /// Some values are longer than slots: up to 100,000 bytes.
        Large = "large",
        /// One to four keys, and at least half of the operations are updates.
        Conflicts = "conflicts",
        /// Workers use the pipeline of the system's paper instead of batches.
        Pipeline = "pipeline",
        /// Send queues hardly longer than a batch.
        ShortQueues = "short-queues",
        /// Clients close properly while operations are in flight, and others take their place.
        Goodbyes = "goodbyes",
        /// Clients use the format of the system's paper, which has neither retransmission nor DELETE. Messages may be
        /// lost, but do not arrive late or twice, and their lines land in ascending order.
        Paper = "paper",
        /// Cores stop for about as long as a timer runs.
        Pauses = "pauses",
        /// Workers stop for at most 4 ms and then restart, again and again, while many messages are lost, or arrive
        /// once more later.
        Restarts = "restarts",
        /// 30 to 90 % of the messages are lost: clients give up requests although these were executed.
        Storm = "storm",
        /// The fabric promises that no WRITE is lost or overtaken, unless another kind breaks the promise.
        Ordered = "ordered",
        /// Ten to fourteen clients (at most six if the trouble lasts over 300 ms) that pause after every operation.
        Crowd = "crowd",
        /// The server's limit of clients is the number of clients in the run: a new client waits until an old one has
        /// left.
        FullHouse = "full-house",
        /// The server shuts down properly, and another one takes its place.
        Shutdowns = "shutdowns",
        /// Peers that are no clients connect. In some runs clients request statistics, or must send a secret.
        NonClients = "non-clients",
        /// Some values are longer than the server accepts.
        Oversize = "oversize",
        /// At most one, two or eight operations may wait in a client.
        ShortWaits = "short-waits",
        /// Workers stop for 50 to 400 ms while many datagrams arrive, often so long that clients give up requests.
        Backlog = "backlog",
    }
}

impl Kind {
    /// Whether operations may end indeterminate or be refused as unavailable because of this kind.
    pub fn is_trouble(self) -> bool {
        use Kind::*;
        !matches!(
            self,
            Skew | Pressure
                | Expiry
                | Narrow
                | Datagrams
                | Large
                | Conflicts
                | Pipeline
                | ShortQueues
                | Paper
                | Ordered
                | Crowd
                | FullHouse
                | Oversize
                | ShortWaits
        )
    }

    /// Changes `options` as this kind requires, with values that `seed` draws. Every kind draws from its own random
    /// stream, so that leaving one out changes no other.
    pub fn apply(self, options: &mut Options, seed: u64) {
        let dice = &Stream::new(seed, self as u64, "kind");
        match self {
            Kind::Loss => options.network.messages.drop = rate(dice),
            Kind::Packets => options.network.loss = rate(dice),
            Kind::Duplicates => {
                options.network.messages.duplicate = rate(dice);
                late(options, dice);
            }
            Kind::Delays => {
                options.network.messages.delay = rate(dice);
                options.network.messages.reorder = rate(dice);
                late(options, dice);
            }
            Kind::Tearing => tear(options, dice),
            Kind::Breaks => options.network.messages.rc_break = rate(dice),
            Kind::Servers => {
                options.machines.server_crashes = between(dice, 1, 3) as u32;
                options.machines.down_max = time(dice, Ns::from_us(100), Ns::from_ms(50));
            }
            Kind::Workers => options.machines.workers.restarts = between(dice, 1, 4) as u32,
            Kind::Clients => options.machines.client_crashes = between(dice, 1, 4) as u32,
            Kind::Stalls => {
                options.machines.stalls = between(dice, 1, 30) as u32;
                options.machines.stall_max = time(dice, Ns::from_us(10), Ns::from_ms(40));
            }
            Kind::Silence => silence(options, dice),
            Kind::Skew => options.machines.skew_max = time(dice, Ns(100), Ns::from_ms(5)),
            Kind::Pressure => {
                options.server.partition.log_bytes = 64 * between(dice, 40, 512) as usize;
                options.server.partition.bucket_count = between(dice, 1, 8) as usize;
                options.load.keys = between(dice, 8, 200);
                options.load.hot_key = dice.chance(0.2);
                // Then memory is what is short, and not slots of the index.
                if dice.chance(0.4) {
                    options.server.partition.bucket_count *= 64;
                }
            }
            Kind::Expiry => {
                options.load.expire(dice);
                options.machines.horizon = time(dice, Ns::from_s(1), Ns::from_s(4));
                slow(options);
            }
            Kind::Goodbyes => options.machines.goodbyes = between(dice, 1, 6) as u32,
            Kind::Paper => options.client.paper_format = true,
            Kind::Pauses => {
                options.machines.pauses = between(dice, 1, 12) as u32;
                options.machines.horizon = time(dice, Ns::from_ms(50), Ns::from_s(2));
                slow(options);
            }
            Kind::Restarts => restarts(options, dice),
            Kind::Backlog => backlog(options, dice),
            Kind::Narrow => {
                options.client.window = pick(dice, &[1, 2]);
                options.client.slot_bytes = pick(dice, &[64, 128]);
            }
            Kind::Datagrams => datagrams(options, dice),
            Kind::Large => {
                options.load.add_large_values(dice);
                options.server.partition.log_bytes = 4 << 20;
                options.client.bulk_chunks = pick(dice, &[1, 4]);
            }
            Kind::Conflicts => options.load.conflict(dice),
            Kind::Pipeline => {
                options.server.overlap = Overlap::Pipeline {
                    drain: dice.chance(0.5),
                };
            }
            Kind::ShortQueues => {
                options.server.signal_period = pick(dice, &[1, 2, 5]);
                options.server.overlap = Overlap::Batch(pick(dice, &[1, 2, 32]));
            }
            Kind::Storm => options.network.messages.drop = 0.3 + 0.6 * dice.unit(),
            Kind::Ordered => options.network.lossless = true,
            Kind::Crowd => {
                options.clients = between(dice, 10, 14) as usize;
                options.client.window = options.client.window.min(4);
                options.load.be_idle();
            }
            Kind::FullHouse => options.server.full_house = true,
            Kind::Shutdowns => options.machines.shutdowns = between(dice, 1, 3) as u32,
            Kind::NonClients => non_clients(options, dice),
            Kind::Oversize => {
                options.server.item_bytes_max = pick(dice, &[300, 1_500, 20_000]);
                options.server.partition.log_bytes = 4 << 20;
                options.load.values.refused_above = options.server.item_bytes_max as u64;
                options.load.values.large_percent = pick(dice, &[5, 30]);
                options.load.values.large_bytes_max = 2 * options.load.values.refused_above;
            }
            Kind::ShortWaits => options.client.waiting_max = pick(dice, &[1, 2, 8]),
        }
    }
}

/// Draws how late late messages are.
fn late(options: &mut Options, dice: &Stream) {
    options.network.messages.late_polls_max = pick(dice, &[1, 8, 64]);
    options.network.messages.late_max = time(dice, Ns(100), Ns::from_ms(30));
}

fn tear(options: &mut Options, dice: &Stream) {
    options.network.torn = true;
    // Otherwise lines land in ascending order.
    if dice.chance(0.8) {
        options.network.messages.tear = rate(dice) * 3.0;
        late(options, dice);
    }
}

/// A peer is considered dead although it is not.
fn silence(options: &mut Options, dice: &Stream) {
    let machines = &mut options.machines;
    machines.stalls = between(dice, 1, 4) as u32;
    machines.stall_max = Ns::from_s(between(dice, 2, 8));
    machines.horizon = time(dice, Ns::from_s(1), Ns::from_s(8));
    slow(options);
}

/// For a cluster that runs for seconds: polls the control channels less often. Several kinds may request this. Even
/// then, a client's first long value needs two answers of the acceptor, and a request that was given up needs one
/// more, all within the deadline.
fn slow(options: &mut Options) {
    options.look_every = (options.look_every * 4).min(Ns(options.client.deadline.0 / 8));
}

/// Peers that are no clients connect and leave; in some clusters they stay until the server closes them.
fn non_clients(options: &mut Options, dice: &Stream) {
    options.machines.non_clients = between(dice, 1, 12) as u32;
    options.load.stats_percent = pick(dice, &[0, 3, 20]);
    if dice.chance(0.5) {
        options.secret = b"open";
    }
    if dice.chance(0.1) {
        options.machines.horizon = Ns::from_s(11);
        options.look_every = Ns::from_ms(5);
    }
}

fn datagrams(options: &mut Options, dice: &Stream) {
    options.server.datagram_recvs = 64 << between(dice, 0, 4);
    match dice.below(3) {
        // Only clients that get no slots.
        0 => options.server.slot_clients_max = dice.below(3) as usize,
        _ => options.client.datagrams = true,
    }
}

/// At any moment some client waits for a reply that was lost, and older copies of its requests have not landed yet.
fn restarts(options: &mut Options, dice: &Stream) {
    let (machines, messages) = (&mut options.machines, &mut options.network.messages);
    machines.workers.relapses = between(dice, 40, 120) as u32;
    machines.horizon = time(dice, Ns::from_ms(60), Ns::from_ms(300));
    messages.drop = 0.05 + 0.15 * dice.unit();
    messages.duplicate = 0.1 + 0.3 * dice.unit();
    (messages.late_polls_max, messages.late_max) = (1, time(dice, Ns::from_us(300), Ns::from_ms(5)));
    options.client.window = 1;
    options.clients = between(dice, 4, 6) as usize;
    options.load.ops = 400;
    options.load.pause_percent = 5;
    options.load.keys = between(dice, 1, 3);
    options.load.put_percent = pick(dice, &[20, 50]);
}

fn backlog(options: &mut Options, dice: &Stream) {
    options.server.datagram_recvs = 1024;
    options.server.overlap = Overlap::Batch(pick(dice, &[1, 1, 4]));
    options.client.datagrams = true;
    options.client.window = 16;
    options.clients = between(dice, 3, 6) as usize;
    options.load.in_flight = 32;
    options.load.ops = 250;
    options.load.pause_percent = 10;
    options.machines.workers.hangs = between(dice, 3, 10) as u32;
    options.machines.horizon = time(dice, Ns::from_ms(50), Ns::from_ms(500));
}

/// Applies the rules that depend on the whole set of `kinds`; call it once, after applying all of them. With `Large` or
/// `Oversize` the server evicts, because it is not specified how many large values fit. With `Paper` load and faults
/// are restricted to what the paper's format supports. With `Crowd` and a horizon over 300 ms at most 6 clients start,
/// because a larger crowd takes too long to simulate.
pub fn reconcile(options: &mut Options, kinds: &[Kind]) {
    let has = |kind| kinds.contains(&kind);
    // The number of large values that fit is not specified, so only caches get them.
    let has_large = has(Kind::Large) || has(Kind::Oversize);
    if has_large && options.server.partition.mode == Mode::Store {
        options.server.partition.mode = Mode::S3_FIFO;
    }
    if options.load.hot_key {
        heat(options, kinds);
    }
    if has(Kind::Paper) {
        speak_as_the_paper(options);
    }
    // A crowd that waits for seconds costs a minute of real time and shows nothing new.
    if has(Kind::Crowd) && options.machines.horizon > CROWD_HORIZON_MAX {
        options.clients = options.clients.min(6);
    }
}

/// Makes the load one of a hot key, and the server one that must keep it, unless other `kinds` may make it forget or are
/// about other loads.
fn heat(options: &mut Options, kinds: &[Kind]) {
    use Kind::*;
    let may_be = |kind: &Kind| {
        let quiet = [
            Pressure,
            Loss,
            Duplicates,
            Expiry,
            Large,
            Pipeline,
            Skew,
            ShortQueues,
        ];
        quiet.contains(kind)
    };
    if !kinds.iter().all(may_be) {
        options.load.hot_key = false;
        return;
    }
    options.load.heat();
    options.clients = 1;
    let item_bytes = item_bytes(KEY_BYTES, options.load.values.bytes_max as usize);
    let server = &mut options.server;
    server.partition_count = 1;
    server.partition.mode = Mode::S3_FIFO;
    server.partition.bucket_count = HOT_BUCKETS;
    server.partition.log_bytes = server
        .partition
        .log_bytes
        .clamp(64 * item_bytes, 160 * item_bytes)
        & !63;
}

/// Longest key of any load.
const KEY_BYTES: usize = 60;
/// So many buckets that none is ever full.
const HOT_BUCKETS: usize = 1 << 12;

/// Longest horizon of a crowd.
const CROWD_HORIZON_MAX: Ns = Ns::from_ms(300);

/// Restricts load and faults to those that the paper's format supports.
fn speak_as_the_paper(options: &mut Options) {
    let (messages, load) = (&mut options.network.messages, &mut options.load);
    (
        messages.duplicate,
        messages.delay,
        messages.reorder,
        messages.tear,
    ) = (0.0, 0.0, 0.0, 0.0);
    (load.delete_percent, load.ttl.percent, load.values.large_percent) = (0, 0, 0);
    load.values.bytes_max = load.values.bytes_max.min(40);
    options.client.checksum = false;
    options.client.slot_bytes = options.client.slot_bytes.max(128);
    options.client.datagrams = false;
    options.server.slot_clients_max = usize::MAX;
}
