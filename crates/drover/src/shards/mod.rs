//! Services of one-sided systems: a shard per core, one address for all of them.
//!
//! ```text
//! client --SelectShard{shard}--> reception (a thread, all listeners) --the channel, by mail--> shard (a thread, a core)
//! client ==READs, messages=====================================================> shard's memory, its queue pairs
//! ```
//! A system takes part by implementing [`Shard`] for its server: adding one is that, and a line in every `match` on
//! [`System`].

pub mod client;
mod farm;
mod pilaf;
mod plan;
mod reception;
mod threads;

pub use farm::FarmShard;
pub use plan::{ShardPlan, TableShape};
pub use threads::Shards;

use drover_base::{Actor, HashSeed};
use drover_rt::control::ControlStream;
use drover_verbs::Provider;
use std::fmt;
use std::rc::Rc;

/// Longest value that FaRM keeps in its table.
const FARM_INLINE_BYTES: usize = 32;

/// A key-value system, as `--system` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// Requests by WRITE, replies by SEND, a worker per partition.
    Herd,
    /// GETs by READ of a cuckoo table and of records.
    Pilaf,
    /// GETs by READ of a neighbourhood of a hopscotch table, in which short values are.
    Farm,
}

impl System {
    /// All there are, in the order in which they are listed.
    pub const ALL: [System; 3] = [System::Herd, System::Pilaf, System::Farm];

    /// As typed, and as services announce themselves.
    pub fn name(self) -> &'static str {
        match self {
            System::Herd => drover_kv_herd::control::SYSTEM,
            System::Pilaf => drover_kv_pilaf::control::SYSTEM,
            System::Farm => drover_kv_farm::control::SYSTEM,
        }
    }

    /// The system called `name`.
    pub fn named(name: &str) -> Option<System> {
        System::ALL.into_iter().find(|system| system.name() == name)
    }

    /// What it needs of a fabric beyond what every fabric has, where one lacks it.
    pub fn needs(self) -> &'static str {
        match self {
            System::Herd => "UC and UD queue pairs",
            System::Pilaf | System::Farm => "RC queue pairs with READ",
        }
    }

    /// What a table for values of up to `value_bytes_max` consists of.
    pub fn table(self, value_bytes_max: usize) -> TableShape {
        match self {
            System::Herd | System::Pilaf => TableShape::SINGLE,
            System::Farm if value_bytes_max <= FARM_INLINE_BYTES => TableShape::WIDE,
            System::Farm => TableShape::NARROW,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a shard has done and holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShardStats {
    /// GETs that came as messages: misses to confirm, and readers who gave up. Other GETs no server sees.
    pub gets: u64,
    /// PUTs.
    pub puts: u64,
    /// DELETEs.
    pub deletes: u64,
    /// Values fetched from clients.
    pub pulls: u64,
    /// Keys.
    pub items: u64,
    /// Bytes of their records, where the system counts them.
    pub bytes: Option<u64>,
    /// Keys forgotten to make space, where the system counts them.
    pub evictions: Option<u64>,
    /// Places of the table.
    pub places: u64,
    /// Clients.
    pub clients: u64,
}

impl ShardStats {
    /// Names and values, in the order of `drover stats`; those that the system counts.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let all = [
            ("get_messages", Some(self.gets)),
            ("puts", Some(self.puts)),
            ("deletes", Some(self.deletes)),
            ("pulls", Some(self.pulls)),
            ("items", Some(self.items)),
            ("bytes", self.bytes),
            ("evictions", self.evictions),
            ("places", Some(self.places)),
            ("clients", Some(self.clients)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

/// Lines `name value`: of the service, and of each shard.
pub fn text_of(system: System, shards: &[ShardStats]) -> String {
    let mut text = format!("system {system}\nshards {}\n", shards.len());
    let names = shards.first().map(ShardStats::rows);
    for (name, _) in names.into_iter().flatten() {
        let rows = shards.iter().flat_map(ShardStats::rows);
        let values = rows.filter(|(row, _)| *row == name).map(|(_, value)| value);
        // A client has a session with every shard: adding those up would count it several times.
        let total = match name {
            "clients" => values.max().unwrap_or(0),
            _ => values.sum(),
        };
        text.push_str(&format!("{name} {total}\n"));
    }
    for (shard, figures) in shards.iter().enumerate() {
        for (name, value) in figures.rows() {
            text.push_str(&format!("shard{shard}_{name} {value}\n"));
        }
    }
    text
}

/// A server that is one shard: an actor with its own memory and clients.
pub trait Shard<P: Provider>: Actor<P::Cpu> + Sized {
    /// Shard `index` of a service of `plan`, on the core that calls this. All shards hash under `seed`.
    ///
    /// # Errors
    /// Why it cannot be, for people.
    fn open(device: &P::Device, plan: &ShardPlan, index: usize, seed: HashSeed) -> Result<Self, String>;

    /// Its view of the fabric.
    fn context(&self) -> Rc<P::Context>;

    /// Serves the client at the other end.
    fn adopt(&mut self, stream: ControlStream);

    /// Clients, those on their way in included.
    fn client_count(&self) -> usize;

    /// What it has done and holds.
    fn figures(&self) -> ShardStats;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_is_found_by_its_name_and_no_other() {
        for system in System::ALL {
            assert_eq!(System::named(&system.to_string()), Some(system));
        }
        assert_eq!(System::named("redis"), None);
    }

    #[test]
    fn shards_add_up_and_clients_are_counted_once() {
        let shard = |items, clients| ShardStats {
            items,
            clients,
            bytes: Some(10),
            ..ShardStats::default()
        };
        let text = text_of(System::Pilaf, &[shard(3, 2), shard(4, 2)]);
        for line in [
            "system pilaf",
            "shards 2",
            "items 7",
            "bytes 20",
            "clients 2",
            "shard0_items 3",
            "shard1_items 4",
        ] {
            assert!(text.lines().any(|has| has == line), "{line} in\n{text}");
        }
        assert!(!text.contains("evictions"), "nobody counted them:\n{text}");
    }
}
