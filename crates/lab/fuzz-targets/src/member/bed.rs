//! [`Bed`]: the only core of a member of two, which owns half of the shards, sends copies of them, and keeps copies of the others.

use crate::memcached::{drain, partition, server};
use drover_base::{KeyHash, Ns};
use drover_cluster::{
    Advert, CopyStage, Draft, Map, Member, Ownership, Published, ServedShards, ShardId, Standing,
};
use drover_mem::NativeCpu;
use drover_memcached::{Core, Executor, LinkRefused, PeerLinks, Server, SingleCore, Source};
use drover_net::{Output, PendingReply};
use drover_store::Partition;
use std::sync::Arc;

const SHARDS: usize = 8;

pub struct Bed {
    partition: Partition,
    cpu: NativeCpu,
    core: Core,
    server: Server,
    links: Links,
}

impl Bed {
    /// The core of the member with this index, 0 or 1.
    pub fn new(own: usize) -> Bed {
        Bed {
            partition: partition(),
            cpu: NativeCpu::new(1),
            core: Core::of_member(shards(own), 0, Arc::default()).with_replicas(1 + own as u64),
            server: server(),
            links: Links::default(),
        }
    }

    fn run<T>(&mut self, run: impl FnOnce(&mut Executor<'_, NativeCpu>, &mut Links) -> T) -> T {
        let mut executor = Executor {
            partition: &mut self.partition,
            cpu: &self.cpu,
            now_s: 100,
            core: &mut self.core,
            server: &self.server,
            router: &mut SingleCore,
        };
        run(&mut executor, &mut self.links)
    }

    /// The reply to a message.
    pub fn serve(&mut self, source: Source, message: &[u8]) -> Vec<u8> {
        self.run(|executor, _| {
            executor.begin_round();
            executor.begin_arrivals();
            executor.set_source(source);
            let (mut output, mut reply) = (Output::new(0, usize::MAX), Vec::new());
            executor.serve(message, executor.hint(message), &mut output);
            drain(&mut output, &mut reply);
            reply
        })
    }

    /// Sends what has changed to the keeper. Returns the message under way.
    pub fn step_copies(&mut self) -> Option<&[u8]> {
        self.run(|executor, links| _ = executor.step_copies(links));
        let (_, message) = self.links.under_way.as_ref()?;
        Some(message)
    }

    /// The message under way, if there is one, is answered by `reply`, or lost.
    pub fn end_copy(&mut self, reply: Option<&[u8]>) {
        if let Some((pending, _)) = self.links.under_way.take() {
            self.run(|executor, _| executor.take_copy_reply(pending, reply));
        }
    }
}

/// The shards of one of two members after both have learned all maps.
fn shards(own: usize) -> Arc<ServedShards> {
    let member = |index: usize| Member {
        advert: Advert::new(&format!("m{index}"), 1, vec![format!("member://m{index}")])
            .expect("a sound advert"),
        incarnation: 1,
    };
    let all = || (0..SHARDS as u16).map(ShardId);
    let mut draft = Draft::after(&Map::none(SHARDS));
    for index in 0..2 {
        draft.add(member(index), Standing::Settled);
    }
    all().for_each(|shard| draft.assign(shard, shard.0 % 2));
    let mut draft = Draft::after(&draft.finish().expect("a change"));
    for shard in all() {
        draft.begin_copy(shard, 1 - shard.0 % 2);
    }
    let mut ownership = Ownership::new(SHARDS);
    ownership.set_id(Some(member(own).id()));
    ownership.learn(&Arc::new(draft.finish().expect("a change")), |_| None);
    let shards = ServedShards::new(SHARDS, 1);
    let published = Published {
        copied: &|_| CopyStage::Gated,
        keeps: &|_| true,
        ..Published::default()
    };
    shards.publish_all(&ownership, &published);
    shards.set_stop_at(Ns::MAX);
    shards
}

/// The way to the only core of the other member.
#[derive(Default)]
struct Links {
    under_way: Option<(PendingReply, Vec<u8>)>,
}

impl PeerLinks for Links {
    fn route(&mut self, _peer: u16, _hash: KeyHash) -> Option<usize> {
        Some(0)
    }

    fn routes(&mut self, _peer: u16) -> Vec<usize> {
        vec![0]
    }

    fn has_space(&mut self, _route: usize, _bytes: usize) -> bool {
        true
    }

    fn send(&mut self, _route: usize, pending: PendingReply, pieces: &[&[u8]]) -> Result<(), LinkRefused> {
        let before = self.under_way.replace((pending, pieces.concat()));
        assert_eq!(before, None, "one message at a time");
        Ok(())
    }
}
