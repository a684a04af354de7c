//! Goal: a CAS whose answer is lost is not repeated: its word is READ, and unless that is the new one nobody knows.

use crate::audit::slot_of;
use crate::bed::{Bed, BedOptions, META, Process, Simulated};
use crate::pool_bed;
use drover_base::Ns;
use drover_kv_race::{Race, RaceError};
use drover_rt::{Posting, TaskCx, TaskOptions};
use drover_verbs_sim::Sim;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

const KEY: &[u8] = b"counter";
/// Requests of a modification: 2 READs, a READ, a WRITE, and the CAS.
const REQUESTS: u64 = 5;

/// What happens while nothing gets through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    /// The CAS is lost, and sent again by the card.
    RequestLost,
    /// The CAS took effect; its answer is lost.
    AnswerLost,
    /// So it is, and somebody else changes the word meanwhile.
    Overwritten,
    /// Nothing ever gets through again.
    Broken,
}

fn bed() -> (Bed<Simulated>, Process<Sim>) {
    let fabric = pool_bed::simulated(3, |options| {
        options.rc.timeout = Ns::from_us(100);
        options.rc.retries = 10;
    });
    let bed = Bed::with(fabric, BedOptions::new(2));
    let process = bed.process_with(|options| {
        options.tasks = TaskOptions {
            posting: Posting::PerRequest,
            patience: Ns::from_us(200),
            ..TaskOptions::default()
        };
    });
    bed.run(&process, |cx, race| async move {
        race.put(&cx, KEY, &[0; 8], META).await
    });
    (bed, process)
}

async fn increment(cx: &TaskCx<Sim>, race: &Race<Sim>) -> Result<bool, RaceError> {
    let add = |old: &[u8], new: &mut Vec<u8>| {
        let number = u64::from_le_bytes(old.try_into().expect("8 bytes"));
        new.extend_from_slice(&(number + 1).to_le_bytes());
    };
    race.modify(cx, KEY, META, add).await
}

async fn count(cx: &TaskCx<Sim>, race: &Race<Sim>) -> Result<u64, RaceError> {
    let found = race.get(cx, KEY).await?.expect("it is there");
    Ok(u64::from_le_bytes(found.value().try_into().expect("8 bytes")))
}

/// Lets a process increment a number, and loses what belongs to the CAS.
fn play(
    bed: &Bed<Simulated>,
    process: &Process<Sim>,
    trouble: Trouble,
) -> Rc<Cell<Option<Result<bool, RaceError>>>> {
    let (world, memory) = (&bed.pool.fabric.0, bed.memory(0));
    let slot = slot_of(&memory);
    let word = || memory.load_u64(slot as usize, Ordering::Relaxed);
    let (before, stats) = (word(), process.stats());
    let done = process.spawn(|cx, race| async move { increment(&cx, &race).await });
    bed.pool.until("all but the CAS has ended", || {
        process.stats().requests.ended >= stats.requests.ended + REQUESTS - 1
    });
    if matches!(trouble, Trouble::RequestLost | Trouble::Broken) {
        world.set_loss(1.0);
    } else {
        bed.pool.until("the CAS takes effect", || word() != before);
        world.set_loss(1.0);
    }
    if trouble == Trouble::Overwritten {
        memory.store_u64(slot as usize, before, Ordering::Relaxed);
    }
    bed.pool.until("it gives up waiting", || {
        process.stats().timed_out > stats.timed_out
    });
    if trouble != Trouble::Broken {
        world.set_loss(0.0);
    }
    done
}

#[test]
fn race_a_lost_answer_is_read_back() {
    for trouble in [Trouble::RequestLost, Trouble::AnswerLost] {
        let (bed, process) = bed();
        let done = play(&bed, &process, trouble);
        bed.pass(Ns::from_ms(5));
        assert_eq!(done.take(), Some(Ok(true)), "{trouble:?}");
        // It was in doubt, and happened once.
        assert!(process.stats().timed_out > 0);
        bed.run(&process, |cx, race| async move {
            assert_eq!(count(&cx, &race).await?, 1);
            Ok(())
        });
    }
}

#[test]
fn race_what_cannot_be_read_back_is_indeterminate() {
    for trouble in [Trouble::Overwritten, Trouble::Broken] {
        let (bed, process) = bed();
        let done = play(&bed, &process, trouble);
        bed.pass(Ns::from_ms(5));
        assert_eq!(done.take(), Some(Err(RaceError::Indeterminate)), "{trouble:?}");
    }
}

/// The canary: a client that does the same once more, since it got no answer, counts twice.
#[test]
fn race_an_uncertain_change_that_is_repeated_may_happen_twice() {
    let (bed, process) = bed();
    let done = play(&bed, &process, Trouble::AnswerLost);
    bed.pass(Ns::from_ms(5));
    assert!(done.take().is_some());
    bed.run(&process, |cx, race| async move {
        increment(&cx, &race).await?;
        assert_eq!(count(&cx, &race).await?, 2);
        Ok(())
    });
}
