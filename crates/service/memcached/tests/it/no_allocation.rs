//! A request allocates nothing, whichever it is. The allocator counts per thread, so other tests may run meanwhile.

use crate::bed::{Bed, Client};
use drover_base::Ns;
use drover_cluster::{Advert, Draft, Map, Member, Ownership, Published, ServedShards, ShardId, Standing};
use drover_mem::CountingAlloc;
use drover_memcached::Core;
use drover_net::{Consumed, Need, Output, Protocol};
use std::sync::Arc;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// Requests of all kinds about keys; `stats` and dumps may allocate.
const REQUESTS: &[&str] = &[
    "set a 1 0 10\r\n0123456789\r\n",
    "get a\r\n",
    "gets a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b\r\n",
    "gat 0 a\r\n",
    "append a 0 0 1\r\nx\r\nprepend a 0 0 1 noreply\r\nx\r\n",
    "cas a 0 0 1 1\r\nx\r\ntouch a 10\r\nadd a 0 0 1\r\n1\r\nreplace a 0 0 1\r\n1\r\n",
    "incr a 1\r\ndecr a 2\r\ndelete a\r\nincr a 1\r\n",
    "ms Zm9v 2 b c k Oabc T30 F5\r\nhi\r\nmg Zm9v b k v t f c s h l Oabc\r\nmd Zm9v b I\r\nmg Zm9v b v\r\n",
    "ma n N0 J5 v\r\nma n D7 MD v c t\r\nme n\r\nmg viv N30 v\r\nmd n x\r\nmd n q\r\nmn\r\n",
    "bogus\r\nset a x\r\nget\r\nms a 1 !\r\nx\r\nversion\r\nverbosity 1\r\n",
];

fn say(
    bed: &mut Bed,
    client: &mut drover_memcached::Session<drover_mem::NativeCpu>,
    output: &mut Output,
    input: &[u8],
) {
    let mut single_core = drover_memcached::SingleCore;
    let mut used = 0;
    loop {
        let mut executor = bed.executor(&mut single_core);
        let Consumed { used: more, need } = client.advance(&mut executor, &input[used..], output);
        used += more;
        output.wrote(output.ready_bytes());
        if !matches!(need, Need::Turn | Need::OutputSpace) {
            assert_eq!(used, input.len(), "all of it was taken");
            return;
        }
    }
}

/// Number of allocations in `rounds` of all requests.
fn allocations(bed: &mut Bed, rounds: usize) -> u64 {
    let mut client = drover_memcached::Session::new(false);
    let mut output = Output::new(7, 64 << 10);
    let pipeline = REQUESTS.concat();
    let all = REQUESTS.iter().copied().chain([pipeline.as_str()]);
    for input in all.clone() {
        say(bed, &mut client, &mut output, input.as_bytes());
    }
    let before = ALLOC.count();
    for _ in 0..rounds {
        for input in all.clone() {
            say(bed, &mut client, &mut output, input.as_bytes());
        }
    }
    ALLOC.count() - before
}

#[test]
fn a_request_allocates_nothing() {
    let mut bed = Bed::new();
    assert_eq!(allocations(&mut bed, 100), 0);
    // Proves that the counter counts: a table of numbers is a string.
    let mut client = Client::new();
    let before = ALLOC.count();
    bed.say(&mut client, b"stats\r\n");
    assert!(ALLOC.count() > before);
}

/// The shards of a member that serves all of them.
fn all_shards() -> Arc<ServedShards> {
    const SHARDS: usize = 64;
    let member = Member {
        advert: Advert::new("a", 1, vec!["member://a".to_owned()]).expect("a sound advert"),
        incarnation: 1,
    };
    let (mut ownership, id) = (Ownership::new(SHARDS), member.id());
    let mut draft = Draft::after(&Map::none(SHARDS));
    assert!(draft.add(member, Standing::Joining));
    (0..SHARDS).for_each(|shard| draft.assign(ShardId(shard as u16), 0));
    ownership.set_id(Some(id));
    ownership.learn(&Arc::new(draft.finish().expect("a change")), |_| None);
    let shards = ServedShards::new(SHARDS, 1);
    shards.publish_all(&ownership, &Published::default());
    shards.set_stop_at(Ns::MAX);
    shards
}

#[test]
fn nor_does_one_that_a_member_serves() {
    let mut bed = Bed::new();
    bed.core = Core::of_member(all_shards(), 0, Arc::default());
    assert_eq!(allocations(&mut bed, 100), 0);
}
