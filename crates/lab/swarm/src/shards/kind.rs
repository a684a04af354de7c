//! [`Kind`]: the kinds of trouble of services of shards; a seed switches each of them on or off as a whole.
//!
//! **Fault model.** Trouble begins with the cluster and ends at its *horizon*; afterwards every machine runs, the
//! network delivers everything, and no core is stopped.
//!
//! *Messages* all travel over reliable connections, so none is lost, duplicated or overtaken. The network may lose
//! single packets, which a connection retransmits until it gives up. Connections may break, before or after a request
//! was executed. The lines of a READ may be sampled one by one, and those of a WRITE land one by one, in ascending
//! order, with any time between them; for systems that allow it, the words of 8 bytes instead of lines. Bytes are never changed or
//! invented.
//!
//! *Machines* crash between two steps of their cores. Messages that have left their card arrive; everything else and
//! their memory is lost, control channels end, and a client that dials in the meantime is refused. Later they restart,
//! empty. A *service* crashes with all its shards and restarts with another hash seed, like a new process. A *shard*
//! may crash alone, if each shard has its own machine; the other shards and the seed stay. Operations of a client that
//! are in flight when it crashes may or may not happen. Clients may start at any time. A client's *process* may die alone: its queue
//! pairs and its control channels end at once, its machine and the other clients there go on, and another client takes its place.
//!
//! *Cores* stop for microseconds to milliseconds, or for seconds, until the other end considers them dead; then they
//! continue where they were. Some stop for about as long as a timer runs ([`TIMERS`]). Clocks of cores differ by a
//! constant. Slow shards pause after each step that found work, from beginning to end.

use super::options::{Options, Tear};
use crate::draw::{between, pick, rate, time};
use crate::load::Conditions;
use crate::subject::{Trouble, troubles};
use drover_base::Ns;
use drover_sim::Stream;

troubles! {
    /// A kind of trouble, of tight limits, or of load. A seed draws how much of it a run gets.
    pub enum Kind {
        /// The network loses packets, which connections retransmit.
        Packets = "packets",
        /// Connections break, before or after a request was executed.
        Breaks = "breaks",
        /// Lines of a READ are sampled, and those of a WRITE land, one by one.
        Tearing = "tearing",
        /// The service crashes, all shards at once, and restarts empty.
        Service = "service",
        /// Shards, each on a machine of its own, crash one at a time and restart empty.
        Shards = "shards",
        /// Clients' machines crash and restart.
        Clients = "clients",
        /// Some clients start later than the others.
        Arrivals = "arrivals",
        /// Cores stop, each time for at most 40 ms.
        Stalls = "stalls",
        /// Cores stop for about as long as one of [`TIMERS`] runs.
        Pauses = "pauses",
        /// Cores stop, each time for at most 2 to 8 s, often so long that the other end considers them dead.
        Silence = "silence",
        /// Clocks of cores differ by at most 5 ms.
        Skew = "skew",
        /// A shard has only 32 to 128 KiB of memory for items.
        Pressure = "pressure",
        /// Tables of 32 to 128 entries for many keys; some may grow.
        SmallTables = "small-tables",
        /// Some or all items expire, after 1 or 2 s.
        Expiry = "expiry",
        /// Windows of one or two operations.
        Narrow = "narrow",
        /// Some values are longer than a message: up to 100,000 bytes.
        Large = "large",
        /// Some values are longer than the service accepts.
        Oversize = "oversize",
        /// One to four keys, and at least half of the operations are updates.
        Conflicts = "conflicts",
        /// Ten to fourteen clients (at most six if the trouble lasts over 300 ms) that pause after every operation.
        Crowd = "crowd",
        /// Shards pause for 1 to 40 us after each step that found work.
        Slow = "slow",
        /// Processes of clients die while their machines live; each time another client takes the place.
        Deaths = "deaths",
        /// Words of a READ or WRITE are seen one by one, not whole lines; only in systems that allow it.
        TornWords = "torn-words",
        /// Some updates have conditions.
        Conditions = "conditions",
    }
}

impl Kind {
    /// Whether operations may end indeterminate or be refused as unavailable because of this kind.
    pub fn is_trouble(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Packets | Breaks | Service | Shards | Clients | Stalls | Pauses | Silence | Deaths
        )
    }

    /// Changes `options` as this kind requires, with values that `seed` draws. Every kind draws from its own random
    /// stream, so that leaving one out changes no other.
    pub fn apply(self, options: &mut Options, seed: u64) {
        let dice = &Stream::new(seed, self as u64, "shards");
        let (machines, load, plan) = (&mut options.machines, &mut options.load, &mut options.plan);
        match self {
            Kind::Packets => options.loss = rate(dice),
            Kind::Breaks => options.messages.rc_break = dice.log_uniform(1e-4, 3e-2),
            Kind::Tearing => options.tear = Some(Tear::of_lines(time(dice, Ns(20), Ns::from_us(2)))),
            Kind::Service => {
                machines.service_crashes = between(dice, 1, 3) as u32;
                machines.down_max = time(dice, Ns::from_us(100), Ns::from_ms(50));
            }
            Kind::Shards => {
                options.is_apart = true;
                plan.shard_count = between(dice, 2, 4) as usize;
                machines.shard_crashes = between(dice, 1, 4) as u32;
            }
            Kind::Clients => machines.client_crashes = between(dice, 1, 4) as u32,
            Kind::Arrivals => machines.arrivals = between(dice, 1, 4) as u32,
            Kind::Stalls => {
                machines.stalls = between(dice, 1, 30) as u32;
                machines.stall_max = time(dice, Ns::from_us(10), Ns::from_ms(40));
            }
            Kind::Pauses => {
                machines.pauses = between(dice, 1, 12) as u32;
                machines.horizon = time(dice, Ns::from_ms(50), Ns::from_s(2));
                slow(options);
            }
            Kind::Silence => {
                machines.stalls = between(dice, 1, 4) as u32;
                machines.stall_max = Ns::from_s(between(dice, 2, 8));
                machines.horizon = time(dice, Ns::from_s(1), Ns::from_s(8));
                slow(options);
            }
            Kind::Skew => options.skew_max = time(dice, Ns(100), Ns::from_ms(5)),
            Kind::Pressure => {
                plan.record_bytes = 1 << between(dice, 15, 17);
                load.keys = between(dice, 8, 200);
            }
            Kind::SmallTables => small_tables(options, dice),
            Kind::Expiry => {
                load.expire(dice);
                machines.horizon = time(dice, Ns::from_s(1), Ns::from_s(4));
                slow(options);
            }
            Kind::Narrow => options.connect.window = pick(dice, &[1, 2]),
            Kind::Large => {
                load.add_large_values(dice);
                options.make_space_for(load_bytes_max(options));
            }
            Kind::Oversize => {
                let item_bytes_max = pick(dice, &[300, 1_500, 20_000]);
                load.values.refused_above = item_bytes_max - ITEM_BYTES_BESIDE;
                load.values.large_percent = pick(dice, &[5, 30]);
                load.values.large_bytes_max = 2 * item_bytes_max;
                options.make_space_for(load_bytes_max(options));
                options.plan.item_bytes_max = item_bytes_max as usize;
            }
            Kind::Conflicts => load.conflict(dice),
            Kind::Slow => machines.shard_pause = time(dice, Ns::from_us(1), Ns::from_us(40)),
            Kind::Deaths => machines.deaths = between(dice, 1, 8) as u32,
            Kind::TornWords => options.tear = Some(Tear::of_words(time(dice, Ns(5), Ns(300)))),
            Kind::Conditions => {
                load.conditions = Conditions {
                    percent: pick(dice, &[20, 50, 90]),
                    versions: true,
                }
            }
            Kind::Crowd => {
                options.clients = between(dice, 10, 14) as usize;
                options.connect.window = options.connect.window.min(4);
                load.be_idle();
            }
        }
    }
}

/// Longest key of the load plus longest header of an item, bytes.
const ITEM_BYTES_BESIDE: u64 = 60 + 24;

fn load_bytes_max(options: &Options) -> usize {
    (options.load.values.large_bytes_max + ITEM_BYTES_BESIDE) as usize
}

/// Timers of the protocols; pauses are about as long as one of them.
pub const TIMERS: [Ns; 9] = [
    Ns::from_us(200), // a client polls its control channels
    Ns::from_us(500), // a shard polls its control channels; a connection retransmits
    Ns::from_ms(1),   // the grace of a record that was replaced
    Ns::from_ms(4),   // a connection gives up its peer
    Ns::from_ms(100), // longest wait before another attempt to connect
    Ns::from_s(1),    // the lease of a table that was replaced; a heartbeat
    Ns::from_s(2),    // a handshake times out
    Ns::from_s(3),    // a silent peer is considered dead
    Ns::from_s(4),    // the same, a heartbeat later
];

/// For a cluster that runs for seconds: polls the control channels less often.
fn slow(options: &mut Options) {
    let longest = Ns(options.connect.deadline.0 / 16);
    options.plan.look_every = (options.plan.look_every * 4).min(longest);
}

/// Keys are inserted, deleted and moved in nearly full tables. Where nothing is evicted, any miss of an existing key
/// is a wrong answer.
fn small_tables(options: &mut Options, dice: &Stream) {
    let (load, plan) = (&mut options.load, &mut options.plan);
    plan.table.entry_count = pick(dice, &[32, 64, 128]);
    plan.table.entry_count_max = plan.table.entry_count << pick(dice, &[0, 1, 4]);
    plan.evicts = dice.chance(0.2);
    let places = plan.entry_count() as u64;
    load.keys = places * between(dice, 60, 130) / 100;
    load.put_percent = pick(dice, &[30, 40]);
    load.delete_percent = pick(dice, &[10, 20, 30]);
    load.skew = 1.0;
    load.ops = between(dice, 300, 800) as usize;
    load.in_flight = between(dice, 4, 16) as usize;
    load.pause_percent = pick(dice, &[0, 5]);
}

/// Applies the rules that depend on the whole set of `kinds`; call it once, after applying all of them. With `Large` or
/// `Oversize` the shards evict, because it is not specified how many large values fit. With `Crowd` and a horizon over
/// 300 ms at most 6 clients start, because a larger crowd takes too long to simulate.
pub fn reconcile(options: &mut Options, kinds: &[Kind]) {
    let has = |kind| kinds.contains(&kind);
    // The number of large values that fit is not specified, so only caches get them.
    if has(Kind::Large) || has(Kind::Oversize) {
        options.plan.evicts = true;
    }
    // A crowd that waits for seconds costs a minute of real time and shows nothing new.
    if has(Kind::Crowd) && options.machines.horizon > CROWD_HORIZON_MAX {
        options.clients = options.clients.min(6);
    }
    // What all clients ask at once in the end takes slow shards longer than the shortest deadlines.
    if has(Kind::Slow) {
        options.connect.deadline = options.connect.deadline.max(SLOW_DEADLINE_MIN);
    }
}

/// Shortest deadline of operations where shards are slow.
const SLOW_DEADLINE_MIN: Ns = Ns::from_ms(100);

/// Longest horizon of a crowd.
const CROWD_HORIZON_MAX: Ns = Ns::from_ms(300);
