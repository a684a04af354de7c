//! [`Owners`]: which member has which key, as etcd says.

use super::copies::Copies;
use super::load::KEYS;
use crate::deployed::process::PATIENCE;
use drover_base::Ns;
use drover_cluster::{Map, Registry, RegistryEvent, RegistryReply, RegistryRequest, ShardId, Standing, View};
use drover_cluster_etcd::{EtcdOptions, EtcdRegistry};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A reader of the service's map.
pub struct Owners {
    registry: EtcdRegistry,
    /// The shard of each key.
    shards: Vec<ShardId>,
}

impl Owners {
    /// Waits until the service has settings and a map.
    pub fn open() -> Owners {
        let options = EtcdOptions::new("cache", &["http://etcd:2379"]);
        let mut registry = EtcdRegistry::open(options).expect("a proper name");
        let settings = loop {
            // On a busy machine etcd may take longer than a request waits. A test that hangs is ended by its runner.
            match registry.settings(None) {
                Ok(settings) => break settings,
                Err(error) => println!("etcd does not answer: {error}"),
            }
        };
        let seed = settings.expect("a service with members").hash_seed;
        let shard = |key: u32| {
            ShardId::of(
                seed.hash(format!("key-{key}").as_bytes()),
                drover_cluster::SHARD_COUNT,
            )
        };
        let shards = (0..KEYS).map(shard).collect();
        Owners { registry, shards }
    }

    /// Registered members and the map.
    fn look(&mut self) -> View {
        loop {
            self.registry.submit(Ns::ZERO, 1, RegistryRequest::Look);
            loop {
                match self.registry.wait(PATIENCE).expect("an event") {
                    RegistryEvent::Reply {
                        reply: RegistryReply::View(view),
                        ..
                    } => return view,
                    RegistryEvent::Failed { .. } => break,
                    _ => {}
                }
            }
        }
    }

    /// The newest map.
    pub fn map(&mut self) -> Arc<Map> {
        self.look().map.expect("a service with members")
    }

    /// Whether these members, and no others, are registered, and each has its share of the shards, none of which moves, all with complete
    /// copies, if they have any. Between two sets of moves none moves either, but then a member is still joining.
    pub fn is_settled(&mut self, names: &[String], copies: Copies) -> bool {
        let view = self.look();
        let Some(map) = view.map else { return false };
        let registered = view.members.iter().map(|member| member.advert.name().to_string());
        let owners: BTreeSet<Option<String>> = map.shards().map(|shard| owner(&map, shard)).collect();
        let wanted: BTreeSet<Option<String>> = names.iter().cloned().map(Some).collect();
        let is_safe = |shard| copies == Copies::One || map.copy(shard).is_some_and(|copy| copy.is_complete);
        map.moves().is_empty()
            && map.members().iter().all(|it| it.standing == Standing::Settled)
            && map.shards().all(is_safe)
            && registered.eq(names.iter().cloned())
            && owners == wanted
    }

    /// What keeps the service from being [settled](Owners::is_settled): who is registered, and the copies that lack something.
    pub fn summary(&mut self) -> String {
        let view = self.look();
        let members: Vec<String> = view
            .members
            .iter()
            .map(|member| member.id().to_string())
            .collect();
        let Some(map) = view.map else {
            return format!("{members:?} without a map");
        };
        let name = |index: u16| map.members()[usize::from(index)].member.id().to_string();
        let mut incomplete: BTreeMap<String, u64> = BTreeMap::new();
        for shard in map.shards() {
            let owner = map
                .owner(shard)
                .map_or("nobody".to_owned(), |owner| owner.id().to_string());
            let copy = match map.copy(shard) {
                Some(copy) if copy.is_complete => continue,
                Some(copy) => name(copy.keeper),
                None => "nobody".to_owned(),
            };
            *incomplete.entry(format!("{owner}'s at {copy}")).or_default() += 1;
        }
        let (epoch, moves) = (map.epoch(), map.moves().len());
        format!("{members:?}, epoch {epoch}, {moves} moves, incomplete copies: {incomplete:?}")
    }

    /// Keys of shards that the member has.
    pub fn keys_of(&self, map: &Map, name: &str) -> BTreeSet<u32> {
        self.keys(|shard| owner(map, shard).as_deref() == Some(name))
    }

    /// Keys of shards that move.
    pub fn moving(&self, map: &Map) -> BTreeSet<u32> {
        self.keys(|shard| map.moving(shard).is_some())
    }

    fn keys(&self, is_meant: impl Fn(ShardId) -> bool) -> BTreeSet<u32> {
        let is_meant = |key: &u32| is_meant(self.shards[*key as usize]);
        (0..KEYS).filter(is_meant).collect()
    }

    /// Share of the keys that have another owner in `after` than in `before`.
    pub fn moved(&self, before: &Map, after: &Map) -> f64 {
        let has_moved = |shard: &&ShardId| owner(before, **shard) != owner(after, **shard);
        self.shards.iter().filter(has_moved).count() as f64 / f64::from(KEYS)
    }
}

fn owner(map: &Map, shard: ShardId) -> Option<String> {
    map.owner(shard).map(|member| member.advert.name().to_string())
}
