//! Messages of hand-overs: items come to another member as they were, and are deleted where they are void.

use crate::bed::{Bed, Client, START_UNIX_S, server, settings, take};
use drover_base::{HashSeed, KeyHash, Rng};
use drover_cluster::ShardId;
use drover_memcached::handover::{
    END, Entries, Name, Reply, ShardSet, StoreMessage, discard_message, lookup_message, page_message,
};
use drover_memcached::{NoHooks, SingleCore};
use drover_net::Output;
use drover_store::Hint;
use drover_testkit::seeds::Seeds;

const SHARDS: usize = 64;
const KEYS: u64 = 300;

fn hash(key: &str) -> KeyHash {
    HashSeed::new(1, 2).hasher().hash(key.as_bytes())
}

fn key(number: u64) -> String {
    format!("key-{number}")
}

/// A member whose clock shows `now_s`.
fn member(now_s: u32) -> Bed {
    Bed {
        now_s,
        server: server(1, settings(), Box::new(NoHooks)),
        ..Bed::new()
    }
}

fn ask(bed: &mut Bed, message: &[u8]) -> Vec<u8> {
    let (mut router, mut output) = (SingleCore, Output::new(1, usize::MAX));
    bed.executor(&mut router).serve(message, Hint::NONE, &mut output);
    take(&mut output)
}

/// The set of every other shard.
fn every_other() -> ShardSet {
    let mut set = ShardSet::new(SHARDS);
    (0..SHARDS as u16)
        .step_by(2)
        .for_each(|shard| set.insert(ShardId(shard)));
    set
}

/// Gives the owner an item in one of the ways that clients have.
fn store_some(owner: &mut Bed, client: &mut Client, key: &str, rng: &mut Rng) {
    let len = match rng.below(60) {
        0 => 300_000,
        1 => 0,
        _ => rng.below(600) as usize,
    };
    let (value, flags, ttl_s) = ("v".repeat(len), rng.below(1 << 32), rng.below(900) + 100);
    let text = match rng.below(5) {
        0 => format!("set {key} 0 0 {len}\r\n{value}\r\n"),
        1 => format!("set {key} {flags} {ttl_s} {len}\r\n{value}\r\n"),
        2 => format!("ms {key} {len} F{flags} T{ttl_s}\r\n{value}\r\n"),
        3 => format!("ms {key} {len} E{}\r\n{value}\r\n", 1u64 << 40),
        _ => format!("ms {key} {len}\r\n{value}\r\nmd {key} I T{ttl_s}\r\n"),
    };
    owner.say(client, text.as_bytes());
    // Some are fetched, and of the stale ones their first reader is told to fetch a new value.
    if rng.below(2) == 0 {
        owner.now_s += 1;
        owner.say(client, format!("mg {key} v\r\n").as_bytes());
    }
}

/// All that a client can see of a key.
fn view(bed: &mut Bed, client: &mut Client, key: &str) -> String {
    let said = bed.say(client, format!("me {key}\r\nmg {key} v f c t h l\r\n").as_bytes());
    let said = String::from_utf8_lossy(&said).into_owned();
    // An item whose accesses are not recorded was last accessed when the server started.
    said.replace(&format!("la={} ", bed.now_s), "la=never ")
        .replace(&format!(" l{}\r", bed.now_s), " lnever\r")
}

/// Copies all items of the set, and returns how many pages that took.
fn copy(owner: &mut Bed, next: &mut Bed, set: &ShardSet) -> u32 {
    let (mut cursor, mut pages) = (0, 0);
    while cursor < END {
        let page = ask(owner, &page_message(set, cursor));
        let page = Reply::of(&page).expect("a reply");
        assert!(page.number > cursor);
        cursor = page.number;
        pages += 1;
        let mut names = Vec::new();
        store(next, page, &mut names);
        look_up(owner, next, &names);
    }
    pages
}

fn store(next: &mut Bed, reply: Reply<'_>, names: &mut Vec<u8>) {
    let (mut message, mut count) = (StoreMessage::new(reply.version), 0);
    for entry in reply.entries {
        if entry.is_to_look_up() {
            entry.name.put(names);
        } else {
            message.push(&entry);
            count += 1;
        }
    }
    let stored = ask(next, message.bytes());
    assert_eq!(Reply::of(&stored).expect("a reply").number, count);
}

fn look_up(owner: &mut Bed, next: &mut Bed, names: &[u8]) {
    let mut names = Entries::all(names).expect("names");
    while !names.rest().is_empty() {
        let found = ask(owner, &lookup_message(names.rest()));
        let found = Reply::of(&found).expect("a reply");
        assert!(found.number > 0);
        store(next, found, &mut Vec::new());
        (0..found.number).for_each(|_| _ = names.next());
    }
}

#[test]
fn items_come_over_as_clients_know_them() {
    Seeds::new(2, 3).each(|seed| {
        let (mut owner, mut client, mut rng) = (member(100), Client::new(), Rng::new(seed, 0, 0));
        // Its clock began at another time.
        let mut next = member(70_000);
        next.server.start_unix_s = START_UNIX_S - 50_000;
        for number in 0..KEYS {
            store_some(&mut owner, &mut client, &key(number), &mut rng);
        }
        let set = every_other();
        assert!(copy(&mut owner, &mut next, &set) > 1);
        let mut reader = Client::new();
        for key in (0..KEYS).map(key) {
            let (there, here) = (
                view(&mut owner, &mut client, &key),
                view(&mut next, &mut reader, &key),
            );
            match set.contains(hash(&key)) {
                true => assert_eq!(here, there, "{key}"),
                false => assert_eq!(here, "EN\r\nEN\r\n", "{key}"),
            }
        }
    });
}

#[test]
fn noted_keys_are_as_they_are_now() {
    let (mut owner, mut next, mut client) = (member(100), member(900), Client::new());
    owner.say(&mut client, b"set a 0 0 1\r\n1\r\nset b 0 0 1\r\n1\r\n");
    let mut set = ShardSet::new(SHARDS);
    (0..SHARDS as u16).for_each(|shard| set.insert(ShardId(shard)));
    copy(&mut owner, &mut next, &set);
    owner.say(&mut client, b"set a 0 0 1\r\n2\r\ndelete b\r\n");
    let mut names = Vec::new();
    for key in ["a", "b", "c"] {
        // Without its hash, as keys are noted.
        let (hash, key) = (KeyHash::default(), key.as_bytes());
        Name { hash, key }.put(&mut names);
    }
    look_up(&mut owner, &mut next, &names);
    let said = next.say(&mut Client::new(), b"get a b c\r\n");
    assert_eq!(String::from_utf8_lossy(&said), "VALUE a 0 1\r\n2\r\nEND\r\n");
}

#[test]
fn only_void_items_are_deleted() {
    let (mut bed, mut client) = (member(100), Client::new());
    for number in 0..KEYS {
        bed.say(
            &mut client,
            format!("set {} 0 0 1\r\nx\r\n", key(number)).as_bytes(),
        );
    }
    let (set, mut cursor) = (every_other(), 0);
    while cursor < END {
        let reply = ask(&mut bed, &discard_message(&set, cursor));
        cursor = Reply::of(&reply).expect("a reply").number;
    }
    for key in (0..KEYS).map(key) {
        let said = bed.say(&mut client, format!("get {key}\r\n").as_bytes());
        assert_eq!(said == b"END\r\n", set.contains(hash(&key)), "{key}");
    }
}

#[test]
fn cas_numbers_do_not_come_again_and_flushes_are_counted() {
    let (mut owner, mut next, mut client) = (member(100), member(100), Client::new());
    for _ in 0..20 {
        owner.say(&mut client, b"set a 0 0 1\r\n1\r\n");
    }

    let message = lookup_message(&[]);
    let reply = ask(&mut owner, &message);
    let before = Reply::of(&reply).expect("a reply");
    ask(&mut next, StoreMessage::new(before.version).bytes());
    for _ in 0..30 {
        next.say(&mut client, b"set a 0 0 1\r\n1\r\n");
        let said = next.say(&mut client, b"mg a c\r\n");
        let cas: u64 = String::from_utf8_lossy(&said)[4..]
            .trim()
            .parse()
            .expect("a number");
        assert!(cas > before.version, "{cas}");
    }
    owner.say(&mut client, b"flush_all\r\n");
    let reply = ask(&mut owner, &message);
    assert_eq!(Reply::of(&reply).expect("a reply").flushes, before.flushes + 1);
}

#[test]
fn malformed_messages_are_refused() {
    let set = every_other();
    let whole = [page_message(&set, 7), discard_message(&set, 7)];
    let mut bed = member(100);
    for message in &whole {
        for len in 21..message.len() {
            let said = ask(&mut bed, &message[..len]);
            assert!(said.starts_with(b"SERVER_ERROR"), "{len} bytes");
        }
    }
    let mut lookup = lookup_message(&[]);
    lookup.extend([9; 40]);
    assert!(ask(&mut bed, &lookup).starts_with(b"SERVER_ERROR"));
}
