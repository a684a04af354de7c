//! The systems of the RFP paper as our own code, in its set-up.

use crate::figure::Point;
use crate::in_cluster::{Form, InCluster};
use drover_kv::FetchChoice;
use drover_simcluster::{Load, Servers};
use drover_verbs_sim::Doorbells;

/// The machines of the paper.
pub const PROFILE: &str = "rfp";
/// Machines with clients, and clients of each, which are threads of one process. `[RFP §4.1]`
pub const MACHINES: usize = 7;
pub const THREADS: usize = 5;
/// Cores of the server where requests take long. `[RFP §3.2]`
pub const MANY_CORES: usize = 16;
/// R and F of the set-up. `[RFP §4.1]`
pub const SLOW_READS: u32 = 5;
pub const FIRST_BYTES: usize = 256;
/// A first READ that never gives up on a result.
pub const NEVER_SLOW: u32 = u32::MAX;
/// *(our choice; the paper's 128 million take too much memory)*
const KEYS: u64 = 24_576;

/// A system in the figures.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name of its curve.
    pub name: &'static str,
    /// The name of its form in the table of systems.
    form: &'static str,
    /// Cores of the server with which it is published to be fastest. `[RFP §4.4]`
    cores: usize,
    /// Doorbell registers of the server's process.
    doorbells: Doorbells,
    /// Whether items are kept in the order of their use.
    evicts: bool,
}

/// All systems: a line for each.
pub const SYSTEMS: &[Entry] = &[JAKIRO, SERVER_REPLY, TUNED, MEMCACHED];

/// The paper's own.
pub const JAKIRO: Entry = Entry {
    name: "Jakiro",
    form: "Jakiro",
    cores: 6,
    doorbells: Doorbells::Driver,
    evicts: false,
};
/// As published: cores of the server wait for the completion of each WRITE.
pub const SERVER_REPLY: Entry = Entry {
    name: "ServerReply",
    form: "ServerReply faithful",
    cores: 6,
    doorbells: Doorbells::Driver,
    evicts: false,
};
/// ServerReply as we ship it, where every context opens the device and so has registers of its own.
pub const TUNED: Entry = Entry {
    name: "ServerReply tuned",
    form: "ServerReply",
    cores: 6,
    doorbells: Doorbells::PerContext,
    evicts: false,
};

/// Its peak is at 16 threads `[RFP Fig. 12]`. All serve all keys, and a client is that of one thread. As memcached, it has a
/// list of items in the order of their use, which is part of what it is measured for.
pub const MEMCACHED: Entry = Entry {
    name: "RDMA-Memcached",
    form: "RDMA-Memcached",
    cores: 16,
    doorbells: Doorbells::Driver,
    evicts: true,
};

impl Entry {
    /// The set-up of the paper: seven machines with five client threads each, one operation outstanding, 5 % PUTs, keys
    /// of 16 B, values of 32 B, F = 256, R = 5. `[RFP §4.1]`
    pub fn plan(self) -> InCluster {
        InCluster {
            form: Form::named(self.form),
            servers: Servers {
                shard_count: self.cores,
                doorbells: self.doorbells,
                ..Servers::new()
            },
            clients: MACHINES * THREADS,
            machines: MACHINES,
            threads: THREADS,
            depth: 1,
            window: 1,
            load: Load {
                keys: KEYS,
                ..Load::new()
            },
            fetch: Some(FetchChoice {
                slow_reads: SLOW_READS,
                first_bytes: FIRST_BYTES,
                takes_turns: false,
            }),
            slot_value_bytes: 0,
            evicts: self.evicts,
            handler_us: 0.0,
            modes_settle: false,
        }
    }

    /// The point of the set-up as `change` modifies it.
    pub fn point(self, x: f64, change: impl FnOnce(&mut InCluster)) -> Point {
        let mut plan = self.plan();
        change(&mut plan);
        plan.point(PROFILE, self.name, x)
    }
}

/// Points of every system at each of `xs`, in its set-up as `change` modifies it for that x.
pub fn curves(xs: &[usize], change: impl Fn(&mut InCluster, usize)) -> Vec<Point> {
    let curve = |entry: &Entry| {
        let point = |x: &usize| entry.point(*x as f64, |plan| change(plan, *x));
        xs.iter().map(point).collect::<Vec<_>>()
    };
    SYSTEMS.iter().flat_map(curve).collect()
}
