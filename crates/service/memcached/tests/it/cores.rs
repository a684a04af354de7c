//! A server of several cores, which exchange messages, answers as a server of one core.

use crate::bed::words;
use crate::bed::{self, BUCKETS, Bed, Client, partition_as, server, settings};
use drover_base::{HashSeed, KeyHash, Rng};
use drover_mem::{NativeCpu, PageWish};
use drover_memcached::{
    Core, CoreRouter, Executor, NoHooks, RouteFull, Server, Session, Settings, each_reply, forward,
};
use drover_net::{Need, Output, PendingReply, Protocol};
use drover_store::{Exclusive, Hint, Mode, Partition, PartitionOptions, SharedReads, Sharing};
use drover_testkit::seeds::Seeds;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

const CORES: usize = 3;

/// Messages under way: target core, pending reply, message.
type Mail = VecDeque<(usize, PendingReply, Vec<u8>)>;

/// Router with space for a limited number of messages.
struct Way<'m> {
    own: usize,
    mail: &'m mut Mail,
    space: usize,
}

impl CoreRouter for Way<'_> {
    fn core_count(&self) -> usize {
        CORES
    }

    fn own(&self) -> usize {
        self.own
    }

    fn core_of(&self, hash: KeyHash) -> usize {
        hash.partition_index(CORES)
    }

    fn has_space(&mut self, _core: usize, _bytes: usize) -> bool {
        self.mail.len() + CORES <= self.space
    }

    fn send(&mut self, core: usize, pending_reply: PendingReply, pieces: &[&[u8]]) -> Result<(), RouteFull> {
        assert_ne!(core, self.own);
        if self.mail.len() >= self.space {
            return Err(RouteFull);
        }
        self.mail.push_back((core, pending_reply, pieces.concat()));
        Ok(())
    }
}

struct Cores<S: Sharing> {
    cores: Vec<(Partition<S>, Core)>,
    server: Server,
    cpu: NativeCpu,
    mail: Mail,
    space: usize,
    now_s: u32,
}

impl<S: Sharing + 'static> Cores<S> {
    fn new(space: usize) -> Cores<S> {
        let settings = Settings {
            bucket_count: BUCKETS as u64,
            ..settings()
        };
        Cores {
            cores: (0..CORES)
                .map(|_| (partition_as(8 << 20), Core::default()))
                .collect(),
            server: server(CORES, settings, Box::new(NoHooks)),
            cpu: NativeCpu::new(1),
            mail: Mail::new(),
            space,
            now_s: 100,
        }
    }

    fn with_desk<T>(&mut self, own: usize, run: impl FnOnce(&mut Executor<'_, NativeCpu, S>) -> T) -> T {
        let mut way = Way {
            own,
            mail: &mut self.mail,
            space: self.space,
        };
        let (partition, core) = &mut self.cores[own];
        let mut executor = Executor {
            partition,
            cpu: &self.cpu,
            now_s: self.now_s,
            core,
            server: &self.server,
            router: &mut way,
        };
        let result = run(&mut executor);
        executor.publish();
        result
    }

    /// Numbers in `stats` that count commands.
    fn counts(&mut self, own: usize) -> Vec<String> {
        counts(&self.told(own, b"stats\r\n"))
    }

    /// Delivers the oldest message; its reply fills the pending reply.
    fn deliver(&mut self, output: &mut Output) -> bool {
        let Some((core, pending_reply, message)) = self.mail.pop_front() else {
            return false;
        };
        let mut reply = Output::new(0, usize::MAX);
        let hint = Hint::NONE;
        self.with_desk(core, |executor| executor.serve(&message, hint, &mut reply));
        each_reply(pending_reply, &bed::take(&mut reply), |pending, bytes| {
            output.fill(pending, bytes)
        });
        true
    }

    /// The reply of core `own` to `input`.
    fn told(&mut self, own: usize, input: &[u8]) -> Vec<u8> {
        let mut session = Session::new(false);
        let mut output = Output::new(7, 1 << 20);
        let mut used = 0;
        let mut told = Vec::new();
        loop {
            let advance = self.with_desk(own, |executor| {
                session.advance(executor, &input[used..], &mut output)
            });
            used += advance.used;
            match advance.need {
                Need::Replies | Need::Route => assert!(self.deliver(&mut output), "it waits for nobody"),
                Need::Turn => {}
                Need::OutputSpace => told.extend(bed::take(&mut output)),
                Need::Input { .. } | Need::Notification | Need::Tick | Need::Close => break,
            }
        }
        while self.deliver(&mut output) {}
        assert!(!output.has_holes());
        told.extend(bed::take(&mut output));
        told
    }
}

/// Lines of `stats` that count commands.
fn counts(stats: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stats);
    let is_count = |line: &&str| {
        let name = line.split(' ').nth(1).unwrap_or_default();
        drover_memcached::Counters::NAMES.contains(&name)
    };
    text.lines().filter(is_count).map(str::to_owned).collect()
}

/// Cores that answer `rounds` of commands, each of a connection to one core.
fn answers_as_one<S: Sharing + 'static>(
    rounds: Vec<(usize, Vec<Vec<u8>>)>,
    space: usize,
) -> Result<(), TestCaseError> {
    let mut cores = Cores::<S>::new(space);
    // Each has stepped once.
    (0..CORES).for_each(|own| _ = cores.told(own, b"mn\r\n"));
    let mut one = Bed::new();
    for (own, commands) in rounds {
        let input = commands.concat();
        let many = cores.told(own, &input);
        let single = one.say(&mut Client::new(), &input);
        prop_assert_eq!(String::from_utf8_lossy(&many), String::from_utf8_lossy(&single));
        let stats = one.say(&mut Client::new(), b"stats\r\n");
        prop_assert_eq!(cores.counts(own), counts(&stats));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn many_cores_answer_as_one(
        rounds in prop::collection::vec((0..CORES, prop::collection::vec(words::command(), 1..30)), 1..4),
        space in 1usize..40,
    ) {
        answers_as_one::<Exclusive>(rounds, space)?;
    }

    #[test]
    fn cores_that_read_each_other_in_place_answer_as_one(
        rounds in prop::collection::vec((0..CORES, prop::collection::vec(words::command(), 1..30)), 1..4),
        space in 1usize..40,
    ) {
        answers_as_one::<SharedReads>(rounds, space)?;
    }

    #[test]
    fn any_message_is_served_somehow(message in prop::collection::vec(any::<u8>(), 0..60), kind in "[rvgmxfFdpkszq]", again in any::<bool>()) {
        let mut message = message;
        if let Some(place) = message.get_mut(16) {
            *place = kind.as_bytes()[0] | if again { 0x80 } else { 0 };
        }
        let mut output = Output::new(0, usize::MAX);
        Cores::<Exclusive>::new(1).with_desk(0, |executor| executor.serve(&message, Hint::NONE, &mut output));
    }
}

#[test]
fn messages_say_whose_key_they_are_about() {
    let mut cores = Cores::<Exclusive>::new(100);
    let key = (0..100)
        .map(|i| format!("key{i}"))
        .find(|key| HashSeed::new(1, 2).hash(key.as_bytes()).partition_index(CORES) == 1)
        .expect("a key of core 1");
    let hash = HashSeed::new(1, 2).hash(key.as_bytes());
    let mut output = Output::new(7, 1 << 20);
    let input = format!("get {key}\r\nset {key} 0 0 1\r\nx\r\nmd {key}\r\nflush_all\r\n");
    let mut session = Session::new(false);
    cores.with_desk(0, |executor| {
        session.advance(executor, input.as_bytes(), &mut output)
    });
    let about: Vec<Option<KeyHash>> = cores
        .mail
        .iter()
        .map(|(_, _, message)| forward::key_hash(message))
        .collect();
    assert_eq!(about, [Some(hash), Some(hash), Some(hash), None, None]);
}

#[test]
fn a_flush_and_dumps_and_stats_are_about_all_cores() {
    let mut cores = Cores::<Exclusive>::new(2);
    let sets: String = (0..50)
        .map(|i| format!("set key{i} 0 0 1 noreply\r\nx\r\n"))
        .collect();
    assert_eq!(cores.told(0, sets.as_bytes()), b"");
    let dump = String::from_utf8(cores.told(1, b"lru_crawler mgdump all\r\n")).expect("text");
    assert_eq!(dump.matches("mg key").count(), 50);
    assert!(dump.ends_with("EN\r\n"));
    let stats = String::from_utf8(cores.told(2, b"get key1\r\nstats\r\n")).expect("text");
    for want in ["cmd_set 50", "curr_items 50", "cmd_get 1"] {
        assert!(stats.contains(&format!("STAT {want}\r\n")), "{want} in {stats}");
    }
    assert_eq!(
        cores.told(2, b"flush_all\r\nget key1 key2 key3 key4\r\n"),
        b"OK\r\nEND\r\n"
    );
    assert_eq!(cores.told(2, b"stats reset\r\n"), b"RESET\r\n");
    let stats = String::from_utf8(cores.told(0, b"stats\r\n")).expect("text");
    assert!(stats.contains("STAT cmd_set 0\r\n"), "{stats}");
}

#[test]
fn a_list_with_a_limit_has_so_many_items_of_all_cores() {
    let mut cores = Cores::<Exclusive>::new(2);
    let sets: String = (0..50)
        .map(|i| format!("set key{i} 0 0 1 noreply\r\nx\r\n"))
        .collect();
    assert_eq!(cores.told(0, sets.as_bytes()), b"");
    for (core, limit, want) in [
        (0, 1, 1),
        (1, 20, 20),
        (2, 49, 49),
        (0, 50, 50),
        (1, 60, 50),
        (2, 0, 50),
    ] {
        let request = format!("stats cachedump 1 {limit}\r\n");
        let list = String::from_utf8(cores.told(core, request.as_bytes())).expect("text");
        let keys: BTreeSet<&str> = list.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(keys.len(), want, "{list}");
        assert_eq!(list.matches("ITEM key").count(), want, "{list}");
        assert!(list.ends_with("END\r\n"), "{list}");
    }
}

#[test]
fn a_memory_limit_reaches_every_core_at_its_next_step() {
    let share = |mib: usize| ((mib << 20) / CORES) & !4095;
    let mut cores = Cores::<Exclusive>::new(2);
    for (partition, _) in &mut cores.cores {
        let options = PartitionOptions {
            hash_seed: Some(HashSeed::new(1, 2)),
            pages: PageWish::Small,
            ..PartitionOptions::for_memory(Mode::S3_FIFO, share(64))
        };
        *partition = Partition::new(&options).expect("memory");
    }
    let limits = |cores: &Cores<Exclusive>| -> Vec<u64> {
        let partitions = cores.cores.iter().map(|(partition, _)| partition);
        partitions.map(|partition| partition.stats().bytes_max).collect()
    };
    let [half, whole] = [share(32) as u64, share(64) as u64];
    for own in 0..CORES {
        assert_eq!(cores.told(own, b"cache_memlimit 64\r\n"), b"OK\r\n");
    }
    assert_eq!(cores.told(1, b"cache_memlimit 32\r\n"), b"OK\r\n");
    assert_eq!(limits(&cores), [whole, half, whole]);
    let stats = String::from_utf8(cores.told(0, b"stats\r\n")).expect("text");
    assert!(stats.contains("STAT limit_maxbytes 33554432\r\n"), "{stats}");
    cores.told(2, b"mn\r\n");
    assert_eq!(limits(&cores), [half; CORES]);
    let refusal = b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
    for mib in [31, 65] {
        assert_eq!(
            cores.told(0, format!("cache_memlimit {mib}\r\n").as_bytes()),
            refusal
        );
    }
    assert_eq!(cores.told(0, b"cache_memlimit 64 noreply\r\nmn\r\n"), b"MN\r\n");
    assert_eq!(limits(&cores)[0], whole);
}

/// Keys of other cores than core 0.
fn keys_of_others() -> impl Iterator<Item = String> {
    let is_other = |key: &String| HashSeed::new(1, 2).hash(key.as_bytes()).partition_index(CORES) != 0;
    (0..).map(|i| format!("key{i}")).filter(is_other)
}

/// Three cores, whose connections have stored `value` under the first keys of others.
fn with_items(count: usize, value: &str) -> (Cores<SharedReads>, Vec<String>) {
    let mut cores = Cores::<SharedReads>::new(100);
    (0..CORES).for_each(|own| _ = cores.told(own, b"mn\r\n"));
    let keys: Vec<String> = keys_of_others().take(count).collect();
    for key in &keys {
        let set = format!("set {key} 7 0 {}\r\n{value}\r\n", value.len());
        assert_eq!(cores.told(0, set.as_bytes()), b"STORED\r\n");
    }
    (cores, keys)
}

/// Number of messages that core 0 sends for `input`, which is one connection's.
fn messages(cores: &mut Cores<SharedReads>, input: &str) -> usize {
    let (mut session, mut output) = (Session::new(false), Output::new(7, 1 << 20));
    let advance = cores.with_desk(0, |executor| {
        session.advance(executor, input.as_bytes(), &mut output)
    });
    assert_eq!(advance.used, input.len());
    let count = cores.mail.len();
    while cores.deliver(&mut output) {}
    count
}

#[test]
fn what_only_reads_is_read_in_place_and_all_else_is_forwarded() {
    let (mut cores, keys) = with_items(40, "a value");
    let (a, b) = (&keys[0], &keys[1]);
    let none = keys_of_others().nth(50).expect("one of many");
    assert_eq!(messages(&mut cores, &format!("get {}\r\n", keys.join(" "))), 0);
    assert_eq!(
        messages(
            &mut cores,
            &format!("gets {a}\r\nmg {a} v t f c s\r\nmg {b} k q\r\nget {none}\r\n")
        ),
        0
    );
    assert_eq!(cores.cores[0].1.read_in_place(), 44);
    for forwarded in [
        "gat 0 K\r\n",
        "mg K T9\r\n",
        "touch K 0\r\n",
        "delete K\r\n",
        "mg K N9 v\r\n",
    ] {
        assert_eq!(messages(&mut cores, &forwarded.replace('K', b)), 1, "{forwarded}");
    }
    assert_eq!(cores.cores[0].1.read_in_place(), 44);
}

#[test]
fn a_fetch_of_many_keys_is_one_message_to_each_core_and_batch() {
    let (mut cores, keys) = with_items(90, "a value");
    // More than a batch of 32 keys; a touch is the owner's.
    let gat = format!("gats 0 {}\r\n", keys.join(" "));
    let of = |core: usize| {
        let owner = |key: &&String| HashSeed::new(1, 2).hash(key.as_bytes()).partition_index(CORES) == core;
        keys.iter().filter(owner).count()
    };
    assert!(of(1) > 20 && of(2) > 20);
    assert_eq!(messages(&mut cores, &gat), 3 * 2);
    let told = String::from_utf8(cores.told(0, gat.as_bytes())).expect("text");
    let order: Vec<&str> = told
        .lines()
        .filter_map(|line| line.strip_prefix("VALUE ")?.split(' ').next())
        .collect();
    assert_eq!(order, keys);
    assert_eq!(cores.cores[0].1.read_in_place(), 0);
}

#[test]
fn a_get_does_not_overtake_a_request_of_its_connection() {
    let (mut cores, keys) = with_items(2, "old");
    let (a, b) = (&keys[0], &keys[1]);
    let told = cores.told(0, format!("set {a} 0 0 3\r\nnew\r\nget {a} {b}\r\n").as_bytes());
    let told = String::from_utf8_lossy(&told).into_owned();
    assert_eq!(
        told,
        format!("STORED\r\nVALUE {a} 0 3\r\nnew\r\nVALUE {b} 7 3\r\nold\r\nEND\r\n")
    );
    assert_eq!(
        cores.told(0, format!("flush_all noreply\r\nget {a} {b}\r\n").as_bytes()),
        b"END\r\n"
    );
}

#[test]
fn a_recorded_access_is_the_owners_and_once_a_second() {
    let (mut cores, keys) = with_items(1, "");
    let a = &keys[0];
    assert_eq!(cores.told(0, format!("ms {a} 1\r\nx\r\n").as_bytes()), b"HD\r\n");
    assert_eq!(
        messages(&mut cores, &format!("get {a}\r\n")),
        1,
        "the first access"
    );
    assert_eq!(
        messages(&mut cores, &format!("get {a}\r\nmg {a} h l\r\n")),
        0,
        "in the same second"
    );
    assert_eq!(
        cores.told(0, format!("mg {a} h l\r\n").as_bytes()),
        b"HD h1 l0\r\n"
    );
}

#[test]
fn a_flush_that_is_due_is_not_read_past() {
    let (mut cores, keys) = with_items(4, "x");
    let get = format!("get {}\r\n", keys.join(" "));
    assert_eq!(cores.told(1, b"flush_all 5\r\n"), b"OK\r\n");
    assert_eq!(messages(&mut cores, &get), 0);
    cores.now_s += 5;
    assert_eq!(cores.told(0, get.as_bytes()), b"END\r\n");
    assert_eq!(messages(&mut cores, &get), 0, "all owners have flushed");
}

#[test]
fn a_partition_that_is_replaced_is_not_read_any_more() {
    let (mut cores, keys) = with_items(4, "x");
    let get = format!("get {}\r\n", keys.join(" "));
    assert!(cores.told(0, get.as_bytes()).starts_with(b"VALUE"));
    for (partition, core) in &mut cores.cores[1..] {
        *partition = partition_as(8 << 20);
        core.partition_replaced();
    }
    assert_eq!(cores.told(0, get.as_bytes()), b"END\r\n", "the owners are asked");
    assert_eq!(messages(&mut cores, &get), 0, "and can be read again");
}

/// Counters after a stream of GETs, each with a SET after a miss, whose items do not all fit.
fn after_a_stream<S: Sharing + 'static>(seed: u64) -> (Vec<String>, u64) {
    let mut cores = Cores::<S>::new(100);
    for (partition, _) in &mut cores.cores {
        let options = PartitionOptions {
            hash_seed: Some(HashSeed::new(1, 2)),
            pages: PageWish::Small,
            ..PartitionOptions::for_memory(Mode::S3_FIFO, 64 << 10)
        };
        *partition = Partition::create(&options).expect("memory");
    }
    (0..CORES).for_each(|own| _ = cores.told(own, b"mn\r\n"));
    let mut rng = Rng::new(seed, 0, 0);
    for _ in 0..if cfg!(miri) { 100 } else { 30_000 } {
        let own = rng.below(CORES as u64) as usize;
        // Few keys are asked for often, many seldom.
        let below = 1 + rng.below(8000);
        let key = rng.below(below);
        if cores.told(own, format!("get key{key}\r\n").as_bytes()) == b"END\r\n" {
            let len = (key * 7 % 60) as usize;
            let set = format!("set key{key} 0 0 {len}\r\n{}\r\n", "x".repeat(len));
            assert_eq!(cores.told(own, set.as_bytes()), b"STORED\r\n");
        }
    }
    let stats = String::from_utf8(cores.told(0, b"stats\r\n")).expect("text");
    let names = [
        "get_hits",
        "get_misses",
        "evictions",
        "evicted_unfetched",
        "curr_items",
    ];
    let is_named = |line: &&str| line.split(' ').nth(1).is_some_and(|name| names.contains(&name));
    let lines = stats.lines().filter(is_named).map(str::to_owned).collect();
    (
        lines,
        cores.cores.iter().map(|(_, core)| core.read_in_place()).sum(),
    )
}

/// A read in place counts as a use: the same items are evicted as if the owner had answered.
#[test]
fn reads_in_place_keep_what_the_owners_reads_keep() {
    let seeds = if cfg!(miri) {
        Seeds::new(1, 0)
    } else {
        Seeds::new(1, 1)
    };
    println!("{seeds}");
    seeds.each(|seed| {
        let (forwarded, none) = after_a_stream::<Exclusive>(seed);
        let (in_place, many) = after_a_stream::<SharedReads>(seed);
        println!("{in_place:?}, {many} read in place");
        assert_eq!(forwarded, in_place);
        assert!(none == 0 && (many > 1000 || cfg!(miri)), "{none} {many}");
    });
}
