//! [`Hosted`]: a client over tasks keeps the order of operations on one key, reports each once, and allocates for none.

use crate::ALLOC;
use drover_base::{Cpu, Ns, Rng};
use drover_kv::{Answer, AsyncOps, Completion, Condition, Hosted, KvClient, Op, OpKind, OwnedOp};
use drover_kv::{Outcome, SubmitError};
use drover_rt::{TaskCx, TaskOptions, TaskPool};
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmDevice};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

type Map = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

/// A map in this process, which takes its time: each operation waits for some steps, and then changes the map.
struct Slow {
    map: RefCell<Map>,
    rng: RefCell<Rng>,
}

impl AsyncOps<Shm> for Slow {
    async fn execute(&self, cx: &TaskCx<Shm>, op: &OwnedOp, deadline: Ns, value: &mut Vec<u8>) -> Answer {
        assert!(deadline > cx.now());
        let steps = self.rng.borrow_mut().below(5);
        for _ in 0..steps {
            cx.yield_now().await;
        }
        let mut map = self.map.borrow_mut();
        let found = map.get(op.key()).map(|(_, version)| *version);
        if !op.extension().condition.holds(found) {
            return found.map_or(Answer::NotFound, |_| Answer::Exists);
        }
        match (op.kind(), found) {
            (OpKind::Get, Some(version)) => {
                value.extend_from_slice(&map[op.key()].0);
                Answer::Found { version, flags: 0 }
            }
            (OpKind::Put, Some(version)) => {
                let (value, own) = map.get_mut(op.key()).expect("it is there");
                value.clear();
                value.extend_from_slice(op.value());
                *own = version + 1;
                Answer::Stored
            }
            (OpKind::Put, None) => {
                map.insert(op.key().to_vec(), (op.value().to_vec(), 1));
                Answer::Stored
            }
            (OpKind::Delete, Some(_)) => {
                map.remove(op.key());
                Answer::Deleted
            }
            (OpKind::Touch, Some(_)) => Answer::Touched,
            (_, None) => Answer::NotFound,
        }
    }
}

const WINDOW: usize = 8;

fn client(ctx: &<Shm as drover_verbs::Provider>::Context, seed: u64) -> Hosted<Shm, Slow> {
    let pool = TaskPool::new(ctx, &TaskOptions::default()).expect("a pool");
    let slow = Slow {
        map: RefCell::default(),
        rng: RefCell::new(Rng::new(seed, 0, 0)),
    };
    Hosted::new(pool, slow, WINDOW, Ns::from_s(5)).expect("a pool with more places")
}

/// Submits `ops` as the window allows, and calls `check` with the index of each that ends.
fn run_all(
    client: &mut Hosted<Shm, Slow>,
    cpu: &impl Cpu,
    ctx: &<Shm as drover_verbs::Provider>::Context,
    ops: &[Op<'_>],
    check: &mut dyn FnMut(usize, Outcome<'_>),
) {
    let (mut next, mut ended, mut rounds) = (0, 0, 0);
    while ended < ops.len() {
        cpu.refresh();
        while next < ops.len() {
            match client.submit(ctx.cpu(), &ops[next], next as u64) {
                Ok(()) => next += 1,
                Err(SubmitError::WindowFull) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(client.in_flight(), next - ended);
        client.poll(ctx.cpu(), &mut |done: Completion<'_>| {
            ended += 1;
            check(done.token as usize, done.outcome);
        });
        rounds += 1;
        assert!(rounds < 1_000_000, "operations hang");
    }
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn operations_on_one_key_take_effect_in_the_order_of_submission() {
    let ctx = Rc::new(ShmDevice::default().context().expect("a context"));
    let seed = ctx.cpu().random();
    println!("seed {seed}");
    let mut client = client(&ctx, seed);
    let mut rng = Rng::new(seed, 1, 0);
    let mut model = BTreeMap::<u64, u64>::new();
    let texts: Vec<(u64, [u8; 8], [u8; 8])> = (0..4000)
        .map(|id: u64| (rng.below(5), rng.below(10).to_le_bytes(), id.to_le_bytes()))
        .collect();
    let key_of = |key: &u64| -> &'static [u8] { &b"abcde"[*key as usize..][..1] };
    let (mut ops, mut wants) = (Vec::new(), Vec::new());
    for (key, kind, id) in &texts {
        let bytes = key_of(key);
        let now = model.get(key).copied();
        let id_number = u64::from_le_bytes(*id);
        match kind[0] {
            0..=3 => {
                ops.push(Op::Get { key: bytes });
                wants.push(now.map_or(Answer::NotFound, |id| Answer::Found {
                    version: id,
                    flags: 0,
                }));
            }
            4 => {
                ops.push(Op::delete(bytes));
                wants.push(now.map_or(Answer::NotFound, |_| Answer::Deleted));
                model.remove(key);
            }
            5 => {
                let condition = Condition::IfAbsent;
                let (ttl_s, flags) = (0, 0);
                ops.push(Op::Put {
                    key: bytes,
                    value: id,
                    ttl_s,
                    flags,
                    condition,
                    keep: false,
                });
                wants.push(now.map_or(Answer::Stored, |_| Answer::Exists));
                model.entry(*key).or_insert(id_number);
            }
            _ => {
                ops.push(Op::put(bytes, id));
                wants.push(Answer::Stored);
                model.insert(*key, id_number);
            }
        }
    }
    let mut seen = vec![false; ops.len()];
    let cpu = ctx.cpu();
    run_all(&mut client, cpu, &ctx, &ops, &mut |at, outcome| {
        assert!(
            !std::mem::replace(&mut seen[at], true),
            "operation {at} ended twice"
        );
        let answer = match outcome {
            // The model knows values, not versions.
            Outcome::Value(value) => Answer::Found {
                version: u64::from_le_bytes(value.try_into().expect("8 bytes")),
                flags: 0,
            },
            Outcome::NotFound => Answer::NotFound,
            Outcome::Stored => Answer::Stored,
            Outcome::Deleted => Answer::Deleted,
            Outcome::Exists => Answer::Exists,
            other => panic!("{other:?}"),
        };
        assert_eq!(answer, wants[at], "operation {at}, {:?}", ops[at]);
    });
}

#[test]
fn versions_come_with_the_item_and_operations_allocate_nothing() {
    let ctx = Rc::new(ShmDevice::default().context().expect("a context"));
    let mut client = client(&ctx, 1);
    let keys: Vec<[u8; 8]> = (0..32u64).map(u64::to_le_bytes).collect();
    let mut round = |count: &mut u64| {
        let ops = keys.iter().flat_map(|key| {
            let condition = Condition::IfPresent;
            let (value, ttl_s, flags) = (&[7; 32][..], 0, 0);
            let again = Op::Put {
                key,
                value,
                ttl_s,
                flags,
                condition,
                keep: false,
            };
            [
                Op::put(key, &[1; 32]),
                again,
                Op::GetItem { key },
                Op::Get { key },
            ]
        });
        let ops: Vec<Op<'_>> = ops.collect();
        let before = ALLOC.count();
        run_all(
            &mut client,
            ctx.cpu(),
            &ctx,
            &ops,
            &mut |at, outcome| match (at % 4, outcome) {
                (2, Outcome::Found { value, version, .. }) => assert!(value == [7; 32] && version > 1),
                (3, Outcome::Value(value)) => assert_eq!(value, [7; 32]),
                (0 | 1, Outcome::Stored) => {}
                (_, other) => panic!("operation {at}: {other:?}"),
            },
        );
        *count = ALLOC.count() - before;
    };
    let mut count = 0;
    (0..20).for_each(|_| round(&mut count));
    assert_eq!(count, 0, "allocations of a round of 128 operations");
}
