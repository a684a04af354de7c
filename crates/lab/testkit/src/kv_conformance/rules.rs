//! Rules for fabrics without faults.

use super::driver::{Driver, Plan, value_bytes};
use super::{Bed, BedOptions};
use crate::linear::Model;
use drover_base::{Cpu, Rng};
use drover_kv::{KvClient, Op, Outcome, Refusal, SubmitError};
use std::collections::BTreeMap;

/// An [`Outcome`] that owns its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// GET: the value.
    Value(Vec<u8>),
    /// GET of the whole item.
    Found {
        /// The value.
        value: Vec<u8>,
        /// Version of the item.
        version: u64,
        /// Flags that were stored with it.
        flags: u32,
    },
    /// Touch: the key exists.
    Touched,
    /// PUT or DELETE: the key exists, and the condition did not hold.
    Exists,
    /// PUT: the value is stored.
    Stored,
    /// DELETE: the key existed and is removed.
    Deleted,
    /// GET or DELETE: the key does not exist.
    NotFound,
    /// PUT or DELETE: it is unknown whether it happened.
    Indeterminate,
    /// The operation did not happen, for this reason.
    Refused(Refusal),
}

impl From<Outcome<'_>> for Answer {
    fn from(outcome: Outcome<'_>) -> Answer {
        match outcome {
            Outcome::Value(bytes) => Answer::Value(bytes.to_vec()),
            Outcome::Found {
                value,
                version,
                flags,
            } => Answer::Found {
                value: value.to_vec(),
                version,
                flags,
            },
            Outcome::Touched => Answer::Touched,
            Outcome::Exists => Answer::Exists,
            Outcome::Stored => Answer::Stored,
            Outcome::Deleted => Answer::Deleted,
            Outcome::NotFound => Answer::NotFound,
            Outcome::Indeterminate => Answer::Indeterminate,
            Outcome::Refused(refusal) => Answer::Refused(refusal),
            other => panic!("unknown outcome {other:?}"),
        }
    }
}

/// Submits `ops` in order, as many at a time as the window allows, and returns all answers in the order of `ops`.
pub(crate) fn run_all<B: Bed>(bed: &mut B, client: &mut B::Client, ops: &[Op<'_>]) -> Vec<Answer> {
    let mut answers: Vec<Option<Answer>> = vec![None; ops.len()];
    let mut next = 0;
    let mut rounds = 0u32;
    while answers.iter().any(Option::is_none) {
        bed.cpu().refresh();
        while next < ops.len() {
            match client.submit(bed.cpu(), &ops[next], next as u64) {
                Ok(()) => next += 1,
                Err(SubmitError::WindowFull) => break,
                Err(error) => panic!("{:?}: {error}", ops[next].kind()),
            }
        }
        client.poll(bed.cpu(), &mut |done| {
            answers[done.token as usize] = Some(done.outcome.into())
        });
        bed.step();
        rounds += 1;
        assert!(rounds < 50_000_000, "operations hang");
    }
    answers
        .into_iter()
        .map(|answer| answer.expect("all answered"))
        .collect()
}

pub(super) fn run_one<B: Bed>(bed: &mut B, client: &mut B::Client, op: Op<'_>) -> Answer {
    run_all(bed, client, &[op]).remove(0)
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::put(key, value)
}

pub(super) fn fresh<B: Bed>(options: &BedOptions) -> (B, B::Client) {
    let mut bed = B::start(options);
    let client = bed.connect();
    (bed, client)
}

/// A GET after a PUT returns its value; GETs of a key before its PUT and of other keys miss.
pub fn a_value_comes_back<B: Bed>() {
    let (mut bed, mut client) = fresh::<B>(&BedOptions::default());
    assert_eq!(
        run_one(&mut bed, &mut client, Op::Get { key: b"k" }),
        Answer::NotFound
    );
    assert_eq!(
        run_one(&mut bed, &mut client, put(b"k", b"value")),
        Answer::Stored
    );
    assert_eq!(
        run_one(&mut bed, &mut client, Op::Get { key: b"k" }),
        Answer::Value(b"value".to_vec())
    );
    assert_eq!(
        run_one(&mut bed, &mut client, Op::Get { key: b"kk" }),
        Answer::NotFound
    );
}

/// The value of a key is overwritten with longer, shorter and empty ones, and each comes back.
pub fn overwriting_changes_length<B: Bed>() {
    let (mut bed, mut client) = fresh::<B>(&BedOptions::default());
    for len in [8usize, 9, 300, 1, 64, 900, 63, 65, 0, 2000, 5] {
        let value: Vec<u8> = (0..len).map(|i| i as u8 ^ len as u8).collect();
        assert_eq!(
            run_one(&mut bed, &mut client, put(b"key", &value)),
            Answer::Stored
        );
        assert_eq!(
            run_one(&mut bed, &mut client, Op::Get { key: b"key" }),
            Answer::Value(value)
        );
    }
}

/// An empty value is a value, not a miss.
pub fn zero_length_values<B: Bed>() {
    let (mut bed, mut client) = fresh::<B>(&BedOptions::default());
    assert_eq!(run_one(&mut bed, &mut client, put(b"empty", b"")), Answer::Stored);
    assert_eq!(
        run_one(&mut bed, &mut client, Op::Get { key: b"empty" }),
        Answer::Value(Vec::new())
    );
    assert_eq!(
        run_one(&mut bed, &mut client, Op::delete(b"empty")),
        Answer::Deleted
    );
}

/// Keys of 1 and 250 bytes work, keys of 0 and 251 are refused; a value over the item limit is refused by the client or
/// the server.
pub fn key_and_value_limits<B: Bed>() {
    let options = BedOptions {
        item_bytes_max: 4096,
        ..BedOptions::default()
    };
    let (mut bed, mut client) = fresh::<B>(&options);
    let longest = [b'x'; 250];
    for key in [&longest[..1], &longest[..]] {
        assert_eq!(run_one(&mut bed, &mut client, put(key, b"v")), Answer::Stored);
        assert_eq!(
            run_one(&mut bed, &mut client, Op::Get { key }),
            Answer::Value(b"v".to_vec())
        );
    }
    for key in [&[][..], &[b'x'; 251][..]] {
        assert_eq!(
            client.submit(bed.cpu(), &Op::Get { key }, 0),
            Err(SubmitError::BadKey)
        );
    }
    let too_large = vec![0; 8192];
    match client.submit(bed.cpu(), &put(b"big", &too_large), 0) {
        Err(SubmitError::TooLarge) => {}
        Ok(()) => {
            let mut answer = None;
            while answer.is_none() {
                bed.cpu().refresh();
                client.poll(bed.cpu(), &mut |done| answer = Some(done.outcome.into()));
                bed.step();
            }
            assert_eq!(answer, Some(Answer::Refused(Refusal::TooLarge)));
        }
        Err(error) => panic!("{error}"),
    }
    assert_eq!(
        run_one(&mut bed, &mut client, put(b"small", b"v")),
        Answer::Stored,
        "the client goes on"
    );
}

/// DELETE reports whether the key existed; afterwards GETs of the key miss.
pub fn delete_then_miss<B: Bed>() {
    let (mut bed, mut client) = fresh::<B>(&BedOptions::default());
    assert_eq!(run_one(&mut bed, &mut client, Op::delete(b"k")), Answer::NotFound);
    run_one(&mut bed, &mut client, put(b"k", b"1"));
    assert_eq!(run_one(&mut bed, &mut client, Op::delete(b"k")), Answer::Deleted);
    assert_eq!(
        run_one(&mut bed, &mut client, Op::Get { key: b"k" }),
        Answer::NotFound
    );
    assert_eq!(run_one(&mut bed, &mut client, Op::delete(b"k")), Answer::NotFound);
}

/// Keys and values may contain any byte: each of 256 keys of 1 to 17 bytes, one per byte value, has its own value.
pub fn binary_keys_and_values<B: Bed>() {
    let (mut bed, mut client) = fresh::<B>(&BedOptions::default());
    let keys: Vec<Vec<u8>> = (0..=255u8).map(|b| vec![b; 1 + b as usize % 17]).collect();
    let ops: Vec<Op<'_>> = keys.iter().map(|k| put(k, k)).collect();
    assert!(
        run_all(&mut bed, &mut client, &ops)
            .iter()
            .all(|a| *a == Answer::Stored)
    );
    let gets: Vec<Op<'_>> = keys.iter().map(|key| Op::Get { key }).collect();
    let want: Vec<Answer> = keys.iter().map(|k| Answer::Value(k.clone())).collect();
    assert_eq!(run_all(&mut bed, &mut client, &gets), want);
}

/// An item with a time to live is found before it expires and not afterwards; other items stay.
pub fn ttl_expires<B: Bed>() {
    let (mut bed, mut client) = fresh::<B>(&BedOptions::default());
    run_one(&mut bed, &mut client, Op::put_for(b"brief", b"v", 2));
    run_one(&mut bed, &mut client, put(b"lasting", b"v"));
    assert_eq!(
        run_one(&mut bed, &mut client, Op::Get { key: b"brief" }),
        Answer::Value(b"v".to_vec())
    );
    bed.pass_seconds(4);
    assert_eq!(
        run_one(&mut bed, &mut client, Op::Get { key: b"brief" }),
        Answer::NotFound
    );
    assert_eq!(
        run_one(&mut bed, &mut client, Op::Get { key: b"lasting" }),
        Answer::Value(b"v".to_vec())
    );
}

/// PUT 1, GET, PUT 2, GET, DELETE, GET of one key, all in flight together: the GETs return 1, 2 and nothing.
pub fn program_order_on_one_key<B: Bed>() {
    let (mut bed, mut client) = fresh::<B>(&BedOptions::default());
    for round in 0..50u64 {
        let (one, two) = (value_bytes(2 * round, 40), value_bytes(2 * round + 1, 40));
        let key = b"same-key";
        let ops = [
            put(key, &one),
            Op::Get { key },
            put(key, &two),
            Op::Get { key },
            Op::delete(key),
            Op::Get { key },
        ];
        let answers = run_all(&mut bed, &mut client, &ops);
        assert_eq!(answers[1], Answer::Value(one));
        assert_eq!(answers[3], Answer::Value(two));
        assert_eq!(answers[5], Answer::NotFound);
    }
}

/// 3,000 random operations of one client get the same answers as from a map.
pub fn agrees_with_a_map<B: Bed>() {
    let (mut bed, mut client) = fresh::<B>(&BedOptions::default());
    let mut rng = Rng::new(11, 0, 0);
    let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for _ in 0..300 {
        let script: Vec<(u64, Vec<u8>, Vec<u8>)> = (0..10)
            .map(|i| {
                let key = format!("k{}", rng.below(40)).into_bytes();
                (rng.below(10), key, value_bytes(i, 8 + rng.below(200) as usize))
            })
            .collect();
        let ops: Vec<Op<'_>> = script
            .iter()
            .map(|(kind, key, value)| match kind {
                0..=4 => Op::Get { key },
                5..=8 => put(key, value),
                _ => Op::delete(key),
            })
            .collect();
        let answers = run_all(&mut bed, &mut client, &ops);
        for (op, answer) in ops.iter().zip(answers) {
            let want = match *op {
                Op::Get { key } => map
                    .get(key)
                    .map_or(Answer::NotFound, |v| Answer::Value(v.clone())),
                Op::Put { key, value, .. } => {
                    map.insert(key.to_vec(), value.to_vec());
                    Answer::Stored
                }
                Op::Delete { key, .. } => map.remove(key).map_or(Answer::NotFound, |_| Answer::Deleted),
                other => unreachable!("not in the script: {other:?}"),
            };
            assert_eq!(answer, want, "{op:?}");
        }
    }
}

/// Submitting without polling ends in `WindowFull`; all operations accepted before that complete.
pub fn window_full_is_flow_control<B: Bed>() {
    let (mut bed, mut client) = fresh::<B>(&BedOptions {
        partition_count: 1,
        window: 4,
        ..BedOptions::default()
    });
    let mut taken = 0u64;
    while taken < 10_000 {
        match client.submit(bed.cpu(), &Op::Get { key: b"k" }, taken) {
            Ok(()) => taken += 1,
            Err(SubmitError::WindowFull) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!((4..10_000).contains(&taken), "{taken} taken");
    let mut done = 0;
    while done < taken {
        bed.cpu().refresh();
        client.poll(bed.cpu(), &mut |_| done += 1);
        bed.step();
    }
    assert_eq!(client.in_flight(), 0);
}

/// Values of 900 bytes to just below the item limit of 1 MiB come back whole, as far as the system has such values.
pub fn large_values_round_trip<B: Bed>() {
    let options = BedOptions {
        memory_bytes: 8 << 20,
        ..BedOptions::default()
    };
    let (mut bed, mut client) = fresh::<B>(&options);
    for len in [
        900usize,
        976,
        1000,
        1001,
        1024,
        4096,
        5000,
        65_536,
        300_001,
        (1 << 20) - 512,
    ] {
        if !has_values_of::<B>("large_values_round_trip", len) {
            break;
        }
        let value = value_bytes(len as u64, len);
        assert_eq!(
            run_one(&mut bed, &mut client, put(b"large", &value)),
            Answer::Stored,
            "{len} bytes"
        );
        let answer = run_one(&mut bed, &mut client, Op::Get { key: b"large" });
        match answer {
            Answer::Value(found) => assert!(found == value, "{len} bytes came back damaged"),
            other => panic!("{len} bytes: {other:?}"),
        }
    }
}

/// PUTs of large and small values and GETs of one key, all in flight together, take effect in program order.
pub fn large_and_small_on_one_key<B: Bed>() {
    let (mut bed, mut client) = fresh::<B>(&BedOptions {
        memory_bytes: 8 << 20,
        ..BedOptions::default()
    });
    let longest = B::offers().operations.value_bytes_max;
    let (large, small) = (value_bytes(1, longest.min(70_000)), value_bytes(2, 30));
    let key = b"mixed";
    let ops = [
        put(key, &small),
        put(key, &large),
        Op::Get { key },
        put(key, &small),
        Op::Get { key },
        put(key, &large),
    ];
    for _ in 0..5 {
        let answers = run_all(&mut bed, &mut client, &ops);
        assert!(
            answers[2] == Answer::Value(large.clone()),
            "the large value first"
        );
        assert!(answers[4] == Answer::Value(small.clone()), "then the small one");
    }
}

/// Operations of several clients on few keys are linearizable; none has an unknown result or is refused as unavailable.
pub fn clients_are_linearizable<B: Bed>() {
    let plan = Plan::default();
    let mut driver = Driver::<B>::new(&BedOptions::default(), &plan);
    driver.run(&plan);
    assert_eq!(
        (driver.indeterminate_count, driver.unavailable_count),
        (0, 0),
        "nothing failed, nothing may be unknown"
    );
    driver.assert_linearizable(Model::Register);
}

/// Whether the system has values of `len` bytes; if not, says that `rule` skips them.
pub(super) fn has_values_of<B: Bed>(rule: &str, len: usize) -> bool {
    let longest = B::offers().operations.value_bytes_max;
    if len > longest {
        println!("{rule}: skipped from {len} bytes on, since the system has no values over {longest} bytes");
    }
    len <= longest
}

/// With more data than memory, a cache may evict items, but no old value comes back and no PUT is refused.
pub fn memory_pressure_never_lies<B: Bed>() {
    if !B::offers().evicts {
        return println!("memory_pressure_never_lies: skipped, since the system evicts nothing");
    }
    let plan = Plan {
        key_count: 400,
        op_count: 4000,
        value_bytes_max: 900,
        ..Plan::default()
    };
    let options = BedOptions {
        memory_bytes: 64 << 10,
        ..BedOptions::default()
    };
    let mut driver = Driver::<B>::new(&options, &plan);
    driver.run(&plan);
    assert_eq!(driver.full_count, 0, "a cache is never full");
    driver.assert_linearizable(Model::Cache);
}

/// A store that must not evict refuses PUTs when it is full, and loses no item that it accepted.
pub fn store_mode_says_full<B: Bed>() {
    let plan = Plan {
        key_count: 1500,
        op_count: 3000,
        value_bytes_max: 900,
        ..Plan::default()
    };
    let options = BedOptions {
        memory_bytes: 64 << 10,
        store_mode: true,
        ..BedOptions::default()
    };
    let mut driver = Driver::<B>::new(&options, &plan);
    driver.run(&plan);
    assert!(driver.full_count > 0, "64 KiB hold a thousand items?");
    driver.assert_linearizable(Model::Register);
}
