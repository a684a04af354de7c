//! Goal: histories of clients whose table splits and doubles all the time are linearizable.

use crate::bed::{Bed, Fabric, META, simulated, torn};
use drover_base::{Ns, Rng};
use drover_kv_race::RaceError;
use drover_testkit::history::{Call, Event, History};
use drover_testkit::linear::Model;
use drover_testkit::seeds::Seeds;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Three processes of three tasks each: every task works on a few keys that all share, and inserts keys of its own, so
/// that the table splits.
fn history<F: Fabric>(bed: &Bed<F>, seed: u64) -> History {
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
    let splits: u64 = processes.iter().map(|process| process.race.stats().splits).sum();
    assert!(splits > 0, "{splits} splits");
    history.take()
}

fn check<F: Fabric>(bed: &Bed<F>, seed: u64) -> Result<(), String> {
    let history = history(bed, seed);
    assert!(history.len() > 200, "{} operations", history.len());
    let checked = history.check(Model::Register);
    checked.map_err(|error| format!("seed {seed}: {error}"))
}

fn assert_right<F: Fabric>(fabric: F, seed: u64) {
    check(&Bed::new(fabric, 2), seed).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn race_histories_with_splits_are_linearizable() {
    let seeds = Seeds::new(4, 46);
    println!("{seeds}");
    seeds.each(|seed| assert_right(simulated(seed), seed));
}

#[test]
fn race_histories_with_torn_words_are_linearizable() {
    let seeds = Seeds::new(4, 16);
    println!("{seeds}");
    seeds.each(|seed| assert_right(torn(seed, Ns::from_us(1)), seed));
}

/// How often readers miss keys that are there, while other keys are inserted and the table splits.
fn misses<F: Fabric>(bed: &Bed<F>) -> u32 {
    let processes = [bed.process(), bed.process(), bed.process()];
    bed.run(&processes[0], |cx, race| async move {
        for key in 0..30u32 {
            race.put(&cx, &key.to_le_bytes(), b"there", META).await?;
        }
        Ok(())
    });
    let misses = Rc::new(Cell::new(0));
    let is_over = Rc::new(Cell::new(false));
    let mut outs = Vec::new();
    for process in &processes[1..] {
        for task in 0..8u32 {
            let (misses, is_over) = (misses.clone(), is_over.clone());
            outs.push(process.spawn(move |cx, race| async move {
                let mut key = task;
                while !is_over.get() {
                    key = (key + 7) % 30;
                    let found = race.get(&cx, &key.to_le_bytes()).await.expect("no failure");
                    misses.set(misses.get() + u32::from(found.is_none()));
                }
            }));
        }
    }
    bed.run(&processes[0], |cx, race| async move {
        for key in 100..400u32 {
            race.put(&cx, &key.to_le_bytes(), b"new", META).await?;
        }
        Ok(())
    });
    is_over.set(true);
    bed.wait_for(&outs);
    misses.get()
}

#[test]
fn race_torn_words_hide_no_key() {
    let seeds = Seeds::new(2, 2);
    println!("{seeds}");
    seeds.each(|seed| {
        let bed = Bed::new(torn(seed, Ns::from_us(1)), 2);
        assert_eq!(misses(&bed), 0, "seed {seed}");
    });
}
