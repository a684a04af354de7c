//! Rules about conditions, versions, flags and touch, as far as the system [offers](Bed::offers) them.

use super::driver::{value_bytes, value_id};
use super::rules::{Answer, fresh, has_values_of, run_one};
use super::{Bed, BedOptions, Faults};
use crate::history::{Call, Event, History, Swapped};
use crate::linear::Model;
use drover_base::Rng;
use drover_kv::{Condition, KvClient, Op, Outcome, Refusal, SubmitError};
use std::collections::BTreeMap;

/// Whether the system offers `has`; if not, says that `rule` skips it.
fn offers(rule: &str, what: &str, has: bool) -> bool {
    if !has {
        println!("{rule}: skipped, since the system offers no {what}");
    }
    has
}

fn put_if<'a>(key: &'a [u8], value: &'a [u8], condition: Condition) -> Op<'a> {
    Op::Put {
        key,
        value,
        ttl_s: 0,
        flags: 0,
        condition,
        keep: false,
    }
}

/// The value of `key`, its version and its flags.
fn item<B: Bed>(bed: &mut B, client: &mut B::Client, key: &[u8]) -> Option<(Vec<u8>, u64, u32)> {
    match run_one(bed, client, Op::GetItem { key }) {
        Answer::Found {
            value,
            version,
            flags,
        } => Some((value, version, flags)),
        Answer::NotFound => None,
        other => panic!("a GET was answered {other:?}"),
    }
}

/// Lengths of values that are stored and fetched in different ways: inside a table, in a reply, in bulk.
const LENGTHS: [usize; 6] = [0, 8, 32, 100, 900, 40_000];

/// Updates with a condition happen if it holds, and only then; a version is that of one value.
pub fn conditions_and_versions<B: Bed>() {
    let (rule, all) = ("conditions_and_versions", B::offers().operations);
    if !offers(rule, "conditions", all.conditions) {
        return;
    }
    let (mut bed, mut client) = fresh::<B>(&BedOptions::default());
    for (at, len) in LENGTHS.into_iter().enumerate() {
        if !has_values_of::<B>(rule, len) {
            break;
        }
        let (key, one, two) = (vec![b'a' + at as u8; 1 + 49 * at], vec![1; len], vec![2; len]);
        let key = &key[..];
        let mut run = |op| run_one(&mut bed, &mut client, op);
        let delete_if = |condition| Op::Delete { key, condition };
        for condition in [Condition::IfPresent, Condition::IfVersion(1)] {
            assert_eq!(run(put_if(key, &one, condition)), Answer::NotFound, "{len}");
            assert_eq!(run(delete_if(condition)), Answer::NotFound, "{len}");
        }
        assert_eq!(run(Op::Get { key }), Answer::NotFound);
        assert_eq!(
            run(put_if(key, &one, Condition::IfAbsent)),
            Answer::Stored,
            "{len}"
        );
        assert_eq!(
            run(put_if(key, &two, Condition::IfAbsent)),
            Answer::Exists,
            "{len}"
        );
        assert_eq!(run(Op::Get { key }), Answer::Value(one.clone()));
        assert_eq!(
            run(put_if(key, &two, Condition::IfPresent)),
            Answer::Stored,
            "{len}"
        );
        assert_eq!(run(Op::Get { key }), Answer::Value(two.clone()));
        if all.versions {
            versions::<B>(&mut bed, &mut client, key, (&one, &two));
        }
        assert_eq!(
            run_one(&mut bed, &mut client, delete_if(Condition::IfPresent)),
            Answer::Deleted
        );
        assert_eq!(item(&mut bed, &mut client, key), None);
    }
    offers(rule, "versions", all.versions);
}

/// The part of [`conditions_and_versions`] that is about versions; `key` exists.
fn versions<B: Bed>(bed: &mut B, client: &mut B::Client, key: &[u8], (one, two): (&[u8], &[u8])) {
    let len = one.len();
    // A value that was put without condition, which a system may store in another way.
    assert_eq!(run_one(bed, client, Op::put(key, one)), Answer::Stored);
    let (value, first, _) = item(bed, client, key).expect("it was put");
    assert_eq!(value, one);
    assert_eq!(item(bed, client, key).map(|(_, version, _)| version), Some(first));
    let mut run = |op| run_one(bed, client, op);
    for wrong in [0, first ^ 1, first + 1, u64::MAX] {
        let wrong = Condition::IfVersion(wrong);
        assert_eq!(run(put_if(key, two, wrong)), Answer::Exists, "{len}");
        assert_eq!(
            run(Op::Delete {
                key,
                condition: wrong
            }),
            Answer::Exists,
            "{len}"
        );
    }
    let condition = Condition::IfVersion(first);
    assert_eq!(run(put_if(key, two, condition)), Answer::Stored, "{len}");
    assert_eq!(run(put_if(key, one, condition)), Answer::Exists, "{len}");
    let (value, second, _) = item(bed, client, key).expect("it was put");
    assert_eq!(value, two);
    assert_ne!(second, first, "another value, another version");
    // Deleted and stored again: the old version is gone for good.
    let mut run = |op| run_one(bed, client, op);
    let condition = Condition::IfVersion(second);
    assert_eq!(run(Op::Delete { key, condition }), Answer::Deleted, "{len}");
    assert_eq!(run(Op::put(key, two)), Answer::Stored);
    assert_eq!(run(put_if(key, one, condition)), Answer::Exists, "{len}");
    assert_eq!(run(Op::Delete { key, condition }), Answer::Exists, "{len}");
}

/// Flags come back with the value, also after a touch; a touch changes when an item expires, and nothing else; a PUT that keeps
/// expiry and flags changes the value and the version, and nothing else.
pub fn flags_and_touch<B: Bed>() {
    let (rule, all) = ("flags_and_touch", B::offers().operations);
    let (mut bed, mut client) = fresh::<B>(&BedOptions::default());
    if offers(rule, "flags", all.flags) {
        for (at, len) in LENGTHS.into_iter().enumerate() {
            if !has_values_of::<B>(rule, len) {
                break;
            }
            let (key, value) = (vec![b'a' + at as u8; 1 + 49 * at], vec![7; len]);
            let key = &key[..];
            for flags in [0, 1, 0x8765_4321, u32::MAX] {
                let put = Op::Put {
                    key,
                    value: &value,
                    ttl_s: 0,
                    flags,
                    condition: Condition::Always,
                    keep: false,
                };
                assert_eq!(run_one(&mut bed, &mut client, put), Answer::Stored);
                let found = item(&mut bed, &mut client, key).expect("it was put");
                assert_eq!((found.0.len(), found.2), (len, flags));
                let get = run_one(&mut bed, &mut client, Op::Get { key });
                assert_eq!(get, Answer::Value(value.clone()));
            }
            // A PUT without flags drops them.
            run_one(&mut bed, &mut client, Op::put(key, &value));
            assert_eq!(item(&mut bed, &mut client, key).map(|found| found.2), Some(0));
        }
    }
    if !offers(rule, "touch", all.touch) {
        return;
    }
    let touch = |key, ttl_s| Op::Touch { key, ttl_s };
    let long = vec![3; all.value_bytes_max.min(40_000)];
    let values: [(&[u8], &[u8]); 3] = [(b"short", b"v"), (b"medium", &[2; 100]), (b"long", &long)];
    for (key, value) in values {
        let mut run = |op| run_one(&mut bed, &mut client, op);
        assert_eq!(run(touch(key, 9)), Answer::NotFound);
        let flags = if all.flags { 5 } else { 0 };
        let (ttl_s, condition) = (2, Condition::Always);
        run(Op::Put {
            key,
            value,
            ttl_s,
            flags,
            condition,
            keep: false,
        });
        assert_eq!(run(touch(key, 1000)), Answer::Touched);
        if let (true, Answer::Found { flags: kept, .. }) = (all.flags, run(Op::GetItem { key })) {
            assert_eq!(kept, flags);
        }
    }
    let mut run = |op| run_one(&mut bed, &mut client, op);
    run(Op::put(b"lasting", b"v"));
    assert_eq!(run(touch(b"lasting", 2)), Answer::Touched);
    run(Op::put_for(b"brief", b"v", 2));
    assert_eq!(run(touch(b"brief", 0)), Answer::Touched, "for ever");
    for (at, (_, value)) in values.into_iter().enumerate() {
        keep(&mut bed, &mut client, at, value);
    }
    bed.pass_seconds(u64::from(KEPT_S) + 2);
    for (at, (_, value)) in values.into_iter().enumerate() {
        kept(&mut bed, &mut client, at, value);
    }
    let mut run = |op| run_one(&mut bed, &mut client, op);
    for (key, value) in values {
        assert_eq!(run(Op::Get { key }), Answer::Value(value.to_vec()), "touched");
    }
    assert_eq!(run(Op::Get { key: b"lasting" }), Answer::NotFound);
    assert_eq!(run(touch(b"lasting", 0)), Answer::NotFound, "it has expired");
    assert_eq!(run(Op::Get { key: b"brief" }), Answer::Value(b"v".to_vec()));
}

/// How long items live whose expiry is kept, seconds. The rule looks at them before: on an emulated machine with a network that
/// loses packets that takes a while.
const KEPT_S: u32 = 8;

/// Keys of the part of [`flags_and_touch`] about PUTs that keep: of items that expire, last, and were not there.
fn kept_keys(at: usize) -> [Vec<u8>; 3] {
    ["expires", "lasts", "new"].map(|what| format!("{what}-{at}").into_bytes())
}

/// A PUT that keeps expiry and flags; those that it gives are for a key that does not exist.
fn put_keeping<'a>(key: &'a [u8], value: &'a [u8], ttl_s: u32, condition: Condition) -> Op<'a> {
    Op::Put {
        key,
        value,
        ttl_s,
        flags: 6,
        condition,
        keep: true,
    }
}

/// PUTs that keep what there is.
fn keep<B: Bed>(bed: &mut B, client: &mut B::Client, at: usize, value: &[u8]) {
    let [expires, lasts, new] = kept_keys(at);
    let old = vec![9; value.len() / 2];
    for (key, ttl_s) in [(&expires, KEPT_S), (&lasts, 0)] {
        let put = Op::Put {
            key,
            value: &old,
            ttl_s,
            flags: 5,
            condition: Condition::Always,
            keep: false,
        };
        assert_eq!(run_one(bed, client, put), Answer::Stored);
        let (_, version, _) = item(bed, client, key).expect("it was put");
        let mut run = |op| run_one(bed, client, op);
        for (condition, comes) in [
            (Condition::IfAbsent, Answer::Exists),
            (Condition::IfVersion(version + 1), Answer::Exists),
            (Condition::IfVersion(version), Answer::Stored),
            (Condition::IfVersion(version), Answer::Exists),
            (Condition::IfPresent, Answer::Stored),
            (Condition::Always, Answer::Stored),
        ] {
            let put = put_keeping(key, value, KEPT_S - ttl_s, condition);
            assert_eq!(run(put), comes, "{} bytes, {condition:?}", value.len());
        }
        let (found, newer, flags) = item(bed, client, key).expect("it was put");
        assert!(
            found == value && flags == 5 && newer != version,
            "{}",
            value.len()
        );
    }
    let mut run = |op| run_one(bed, client, op);
    for (condition, comes) in [
        (Condition::IfPresent, Answer::NotFound),
        (Condition::IfVersion(1), Answer::NotFound),
        (Condition::Always, Answer::Stored),
    ] {
        let put = put_keeping(&new, value, KEPT_S, condition);
        assert_eq!(run(put), comes, "{} bytes, {condition:?}", value.len());
    }
    let found = item(bed, client, &new).expect("it was put");
    assert_eq!((found.0.len(), found.2), (value.len(), 6));
}

/// What has become of the items of [`keep`] after they have expired, or not.
fn kept<B: Bed>(bed: &mut B, client: &mut B::Client, at: usize, value: &[u8]) {
    let [expires, lasts, new] = kept_keys(at);
    let len = value.len();
    let found = item(bed, client, &lasts).expect("it lasts");
    assert!(found.0 == value && found.2 == 5, "{len}");
    for (key, condition) in [(&expires, Condition::Always), (&new, Condition::IfAbsent)] {
        assert_eq!(item(bed, client, key), None, "{len}: it has expired");
        // What has expired is not there to be kept.
        let put = put_keeping(key, value, 0, condition);
        assert_eq!(run_one(bed, client, put), Answer::Stored, "{len}");
        let found = item(bed, client, key).expect("it was put");
        assert!(found.0 == value && found.2 == 6, "{len}");
    }
}

/// Several clients with conditional updates on few keys: the history is linearizable.
pub fn conditional_clients_are_linearizable<B: Bed>() {
    conditional_history::<B>(&BedOptions::default(), 1500);
}

/// Messages are lost, duplicated, late and torn, so requests are sent again: each conditional update happens at most once,
/// and its answer is that of the time when it happened.
pub fn conditional_updates_happen_once<B: Bed>() {
    for (i, rate) in [1e-2, 1e-1].into_iter().enumerate() {
        let options = BedOptions {
            seed: 300 + i as u64,
            faults: Faults {
                drop: rate,
                duplicate: rate,
                delay: rate,
                reorder: rate,
                tear: rate,
                ..Faults::default()
            },
            ..BedOptions::default()
        };
        conditional_history::<B>(&options, 600);
    }
}

/// Number of clients of a conditional history.
const CLIENTS: usize = 3;
/// Operations in flight per client: a check of more overlap takes too long.
const IN_FLIGHT: usize = 3;
/// Number of keys.
const KEYS: u64 = 6;

/// An operation of a conditional history that was accepted.
struct Called {
    client: usize,
    key: u64,
    call: Call,
    called_at: u64,
    done: bool,
}

/// Runs `op_count` random operations, most of them conditional, and checks their history; returns the number of those
/// whose fate is unknown, or that no server answered.
pub(super) fn conditional_history<B: Bed>(options: &BedOptions, op_count: usize) -> usize {
    let all = B::offers().operations;
    if !offers(
        "conditional histories",
        "conditions and versions",
        all.conditions && all.versions,
    ) {
        return 0;
    }
    let mut bed = B::start(options);
    let mut clients: Vec<B::Client> = (0..CLIENTS).map(|_| bed.connect()).collect();
    let mut rng = Rng::new(options.seed, 0, 0xc0d1);
    let (mut history, mut called) = (History::default(), Vec::<Called>::new());
    // What each client has last seen of each key: the version and the identity of its value.
    let mut seen: BTreeMap<(usize, u64), (u64, u64)> = BTreeMap::new();
    let (mut unanswered, mut rounds) = (0, 0u32);
    while called.len() < op_count || called.iter().any(|op| !op.done) {
        for (index, client) in clients.iter_mut().enumerate() {
            if called.len() >= op_count || client.in_flight() >= IN_FLIGHT {
                continue;
            }
            let (key, id) = (rng.below(KEYS), called.len() as u64);
            let text = format!("key-{key:012}");
            let value = value_bytes(id, 8 + rng.below(60) as usize);
            let (op, call) = draw(&mut rng, text.as_bytes(), (&value, id), seen.get(&(index, key)));
            let called_at = bed.now();
            match client.submit(bed.cpu(), &op, id) {
                Ok(()) => called.push(Called {
                    client: index,
                    key,
                    call,
                    called_at,
                    done: false,
                }),
                Err(SubmitError::WindowFull) => {}
                Err(error) => panic!("{op:?}: {error}"),
            }
        }
        for client in &mut clients {
            client.poll(bed.cpu(), &mut |completion| {
                let op = &mut called[completion.token as usize];
                assert!(!op.done, "operation {} completed twice", completion.token);
                op.done = true;
                let outcome = completion.outcome;
                if let Outcome::Found { value, version, .. } = outcome {
                    seen.insert((op.client, op.key), (version, value_id(value)));
                }
                let unknown = matches!(
                    outcome,
                    Outcome::Indeterminate | Outcome::Refused(Refusal::Unavailable)
                );
                unanswered += usize::from(unknown);
                if outcome == Outcome::Refused(Refusal::Unavailable) {
                    return; // It did not happen.
                }
                let event = Event {
                    client: op.client as u32,
                    call: answered(op.call, outcome),
                    called_at: op.called_at,
                    returned_at: (!unknown).then(|| bed.now()),
                };
                history.push(format!("key-{:012}", op.key).as_bytes(), event);
            });
        }
        bed.step();
        rounds += 1;
        assert!(rounds < 50_000_000, "operations hang");
    }
    if let Err(why) = history.check(Model::Register) {
        panic!("{why}");
    }
    unanswered
}

/// The next operation of a client on `key`, of which it has last seen `seen`; its new value is `value` with identity `id`.
fn draw<'a>(
    rng: &mut Rng,
    key: &'a [u8],
    (value, id): (&'a [u8], u64),
    seen: Option<&(u64, u64)>,
) -> (Op<'a>, Call) {
    let said = Swapped::Done;
    match (rng.below(20), seen) {
        (0..=7, _) => (Op::GetItem { key }, Call::Get(None)),
        (8..=12, Some(&(version, from))) => {
            let op = put_if(key, value, Condition::IfVersion(version));
            (op, Call::Swap { from, to: id, said })
        }
        (13, Some(&(version, from))) => {
            let condition = Condition::IfVersion(version);
            (Op::Delete { key, condition }, Call::Remove { from, said })
        }
        (14..=15, _) => {
            let op = put_if(key, value, Condition::IfAbsent);
            (op, Call::Insert { to: id, done: true })
        }
        (16, _) => {
            let op = put_if(key, value, Condition::IfPresent);
            (op, Call::Replace { to: id, done: true })
        }
        (17, _) => (Op::delete(key), Call::Delete(None)),
        (_, _) => (Op::put(key, value), Call::Put(id)),
    }
}

/// `call` with the reply that `outcome` is.
fn answered(call: Call, outcome: Outcome<'_>) -> Call {
    let said = match outcome {
        Outcome::Stored | Outcome::Deleted => Swapped::Done,
        Outcome::Exists => Swapped::Other,
        _ => Swapped::Missing,
    };
    match (call, outcome) {
        (_, Outcome::Indeterminate) => call,
        (Call::Get(_), Outcome::Found { value, .. }) => Call::Get(Some(value_id(value))),
        (Call::Get(_), Outcome::NotFound) => Call::Get(None),
        (Call::Put(_), Outcome::Stored) => call,
        (Call::Delete(_), Outcome::Deleted) => Call::Delete(Some(true)),
        (Call::Delete(_), Outcome::NotFound) => Call::Delete(Some(false)),
        (Call::Insert { to, .. }, Outcome::Stored | Outcome::Exists) => Call::Insert {
            to,
            done: said == Swapped::Done,
        },
        (Call::Replace { to, .. }, Outcome::Stored | Outcome::NotFound) => Call::Replace {
            to,
            done: said == Swapped::Done,
        },
        (Call::Swap { from, to, .. }, Outcome::Stored | Outcome::Exists | Outcome::NotFound) => {
            Call::Swap { from, to, said }
        }
        (Call::Remove { from, .. }, Outcome::Deleted | Outcome::Exists | Outcome::NotFound) => {
            Call::Remove { from, said }
        }
        (call, outcome) => panic!("{call:?} answered {outcome:?}"),
    }
}
