//! Goal: histories of clients whose table splits and doubles all the time are linearizable.

use crate::bed::{Bed, Fabric, simulated, torn};
use drover_base::Rng;
use drover_kv_race::{ItemMeta, RaceError};
use drover_testkit::history::{Call, Event, History};
use drover_testkit::linear::Model;
use drover_testkit::seeds::Seeds;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const META: ItemMeta = ItemMeta {
    flags: 0,
    expire_s: 0,
};

/// Three processes of three tasks each: every task works on a few keys that all share, and inserts keys of its own, so
/// that the table splits.
fn history<F: Fabric>(fabric: F, seed: u64) -> History {
    let bed = Bed::new(fabric, 2);
    let processes = [bed.process(), bed.process(), bed.process()];
    let history = Rc::new(RefCell::new(History::default()));
    let values = Rc::new(Cell::new(0u64));
    let mut outs = Vec::new();
    for (number, process) in (0u32..).zip(&processes) {
        for task in 0..3u32 {
            let client = number * 3 + task;
            let (history, values) = (history.clone(), values.clone());
            outs.push(process.spawn(move |cx, race| async move {
                let mut rng = Rng::new(seed, client.into(), 0);
                for step in 0..40u32 {
                    let filler = (1000 + client * 100 + step).to_le_bytes();
                    if rng.below(2) == 0 {
                        race.put(&cx, &filler, &filler, META).await.expect("space");
                    }
                    let key = [rng.below(4) as u8];
                    let called_at = cx.now().0;
                    values.set(values.get() + 1);
                    let value = values.get();
                    let call = match rng.below(8) {
                        0..4 => {
                            let found = race.get(&cx, &key).await.expect("no failure");
                            let number =
                                |value: &[u8]| u64::from_le_bytes(value.try_into().expect("8 bytes"));
                            Call::Get(found.map(|found| number(found.value())))
                        }
                        4..6 => {
                            race.put(&cx, &key, &value.to_le_bytes(), META)
                                .await
                                .expect("space");
                            Call::Put(value)
                        }
                        6 => match race.add(&cx, &key, &value.to_le_bytes(), META).await {
                            Ok(true) => Call::Put(value),
                            Ok(false) => continue,
                            Err(error) => panic!("{error}"),
                        },
                        _ => Call::Delete(Some(race.delete(&cx, &key).await.expect("no failure"))),
                    };
                    let event = Event {
                        client,
                        call,
                        called_at,
                        returned_at: Some(cx.now().0),
                    };
                    history.borrow_mut().push(&key, event);
                }
                Ok::<(), RaceError>(())
            }));
        }
    }
    bed.wait_for(&outs);
    history.take()
}

fn check(fabric: impl Fabric, seed: u64) {
    let history = history(fabric, seed);
    assert!(history.len() > 200, "{} operations", history.len());
    if let Err(error) = history.check(Model::Register) {
        panic!("seed {seed}: {error}");
    }
}

#[test]
fn race_histories_with_splits_are_linearizable() {
    let seeds = Seeds::new(4, 4);
    println!("{seeds}");
    seeds.each(|seed| check(simulated(seed), seed));
}

#[test]
fn race_histories_with_torn_words_are_linearizable() {
    let seeds = Seeds::new(4, 4);
    println!("{seeds}");
    seeds.each(|seed| check(torn(seed), seed));
}
