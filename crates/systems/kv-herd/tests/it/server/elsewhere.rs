//! A member of a service of several: what it does not serve is answered `Elsewhere` with the epoch of its map, and not executed.

use crate::server::fake::{Reply, World, options};
use drover_base::Ns;
use drover_cluster::{
    Advert, CopyStage, Draft, Map, Member as Registered, NotedKey, Ownership, Published, ServedShards,
    ShardId, Standing,
};
use drover_kv_herd::layout::{SlotOp, Status};
use drover_kv_herd::server::{Mistake, RequestRules, ServeMode, ServerOptions};
use std::sync::Arc;

/// The member `a` of a service of one shard, and the other member, `b`, which exists only in the map.
pub struct Member {
    ownership: Ownership,
    map: Arc<Map>,
    pub served: Arc<ServedShards>,
}

impl Member {
    /// It owns the shard.
    pub fn new() -> Member {
        let mut draft = Draft::after(&Map::none(1));
        let member = |name| Registered {
            advert: Advert::new(name, 1, vec![format!("tcp://{name}:1")]).expect("a sound advert"),
            incarnation: 1,
        };
        for name in ["a", "b"] {
            draft.add(member(name), Standing::Joining);
        }
        let mut this = Member {
            ownership: Ownership::new(1),
            map: Arc::new(draft.finish().expect("members came")),
            served: ServedShards::new(1, 1),
        };
        this.ownership.set_id(Some(member("a").id()));
        this.served.set_stop_at(Ns::MAX);
        this.give_to(0);
        this
    }

    /// The next map, in which the member of this index owns the shard.
    pub fn give_to(&mut self, owner: u16) {
        let mut draft = Draft::after(&self.map);
        draft.assign(ShardId(0), owner);
        self.map = Arc::new(draft.finish().expect("another tenure"));
        self.ownership.learn(&self.map, |_| None);
        self.served.publish_all(&self.ownership, &Published::default());
    }

    fn copy_shard(&mut self) {
        let published = Published {
            noted: &|_| true,
            ..Published::default()
        };
        self.served.publish_all(&self.ownership, &published);
    }

    /// The other member keeps a copy from now on, for which the replies to updates wait.
    pub fn gate_shard(&mut self) {
        let mut draft = Draft::after(&self.map);
        assert!(draft.begin_copy(ShardId(0), 1));
        self.map = Arc::new(draft.finish().expect("a copy"));
        self.ownership.learn(&self.map, |_| None);
        let published = Published {
            copied: &|_| CopyStage::Gated,
            ..Published::default()
        };
        self.served.publish_all(&self.ownership, &published);
    }

    /// Options of its server.
    pub fn options(&self, options: ServerOptions) -> ServerOptions {
        let requests = RequestRules {
            served: Some(self.served.clone()),
            ..RequestRules::default()
        };
        ServerOptions { requests, ..options }
    }

    /// Whether a reply refuses a request under the member's newest map.
    pub fn is_elsewhere(&self, reply: &Reply) -> bool {
        reply.status == Status::Elsewhere && reply.payload == self.map.epoch().0.to_le_bytes()
    }
}

pub fn all_modes() -> Vec<ServerOptions> {
    let mode = |mode| ServerOptions { mode, ..options() };
    vec![
        mode(ServeMode::Batch { batch: 32 }),
        mode(ServeMode::Batch { batch: 1 }),
        mode(ServeMode::Pipeline { drain: true }),
    ]
}

#[test]
fn operations_on_another_members_keys_are_refused_and_change_nothing() {
    for options in all_modes() {
        let mut member = Member::new();
        let mut world = World::new(&member.options(options));
        let mut fake = world.connect();
        fake.put(&mut world, b"k", b"value");
        member.give_to(1);
        for op in [SlotOp::Get, SlotOp::GetExt, SlotOp::Put, SlotOp::Delete] {
            let value = if op == SlotOp::Put { &b"other"[..] } else { b"" };
            let reply = fake.call(&mut world, op, b"k", value);
            assert!(member.is_elsewhere(&reply), "{op:?}: {reply:?}");
        }
        for (op, value) in [(SlotOp::PutTtl, &b"other"[..]), (SlotOp::Touch, b"")] {
            let (partition, slot, request) = fake.next(op, b"k", value, 1);
            fake.write(partition, slot, &request);
            let reply = fake.reply(&mut world);
            assert!(member.is_elsewhere(&reply), "{op:?}: {reply:?}");
        }
        let nop = fake.call(&mut world, SlotOp::Nop, b"", b"");
        assert_eq!(nop.status, Status::Ok, "it is about no key");
        assert_eq!(world.counters().refused.elsewhere, 6);
        member.give_to(0);
        assert_eq!(fake.get(&mut world, b"k"), Some(b"value".to_vec()));
    }
}

#[test]
fn a_member_whose_lease_may_have_ended_serves_nothing() {
    let member = Member::new();
    let mut world = World::new(&member.options(options()));
    let mut fake = world.connect();
    fake.put(&mut world, b"k", b"value");
    member.served.set_stop_at(Ns::ZERO);
    let reply = fake.call(&mut world, SlotOp::Get, b"k", b"");
    assert!(member.is_elsewhere(&reply), "{reply:?}");
}

/// What a GET is answered that was answered with the value, and is sent again after the shard has gone.
fn get_sent_again(mistake: Option<Mistake>) -> Status {
    let mut member = Member::new();
    let mut world = World::with(&member.options(options()), mistake);
    let mut fake = world.connect();
    fake.put(&mut world, b"k", b"value");
    let sent = fake.send(SlotOp::Get, b"k", b"");
    assert_eq!(fake.reply(&mut world).status, Status::Ok);
    member.give_to(1);
    fake.again(&sent, 1);
    fake.reply(&mut world).status
}

#[test]
fn a_retransmitted_get_is_asked_about_again() {
    assert_eq!(get_sent_again(None), Status::Elsewhere);
}

#[test]
fn flaw_trusts_retransmissions_is_caught() {
    assert_eq!(get_sent_again(Some(Mistake::TrustsRetransmissions)), Status::Ok);
}

#[test]
fn an_update_that_was_executed_keeps_its_result() {
    let mut member = Member::new();
    let mut world = World::new(&member.options(options()));
    let mut fake = world.connect();
    let sent = fake.send(SlotOp::Put, b"k", b"value");
    assert_eq!(fake.reply(&mut world).status, Status::Ok);
    member.give_to(1);
    fake.again(&sent, 1);
    assert_eq!(fake.reply(&mut world).status, Status::Ok);
}

#[test]
fn an_update_that_was_refused_stays_refused() {
    let mut member = Member::new();
    let mut world = World::new(&member.options(options()));
    let mut fake = world.connect();
    member.give_to(1);
    let sent = fake.send(SlotOp::Put, b"k", b"value");
    assert!(member.is_elsewhere(&fake.reply(&mut world)));
    member.give_to(0);
    fake.again(&sent, 1);
    assert!(
        member.is_elsewhere(&fake.reply(&mut world)),
        "its client has asked elsewhere by now"
    );
    assert_eq!(fake.get(&mut world, b"k"), None);
}

#[test]
fn changes_of_a_shard_that_is_copied_are_noted() {
    let mut member = Member::new();
    let mut world = World::new(&member.options(options()));
    let mut fake = world.connect();
    fake.put(&mut world, b"before", b"value");
    member.copy_shard();
    fake.put(&mut world, b"put", b"value");
    fake.get(&mut world, b"read");
    fake.call(&mut world, SlotOp::Delete, b"deleted", b"");
    fake.call_ttl(&mut world, b"for a time", b"value", 1);
    let noted: Vec<NotedKey> = member.served.take_noted(0, ShardId(0)).into_iter().collect();
    let keys: [&[u8]; 3] = [b"deleted", b"for a time", b"put"];
    assert_eq!(noted, keys.map(|key| NotedKey::Key(key.into())));
}

#[test]
fn every_step_begins_a_round() {
    let member = Member::new();
    let mut world = World::new(&member.options(options()));
    let rounds = member.served.rounds();
    assert!(!member.served.has_passed(&rounds));
    world.step(0);
    assert!(member.served.has_passed(&rounds));
}
