//! Properties of credits, and flaws that these properties must find.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const PEERS: usize = 3;
const DEPTH: usize = 6;

/// What a pool asks of its credits.
trait Ledger {
    fn left(&self, outstanding: usize, waiting: usize) -> usize;
    fn take(&mut self, count: usize);
    fn give_back(&mut self, count: usize, failed: bool);
    fn set_ceiling(&mut self, ceiling: u32);
    fn taken(&self) -> u32;
}

/// Flaws of the published code, and of careless ones.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Flaw {
    None,
    ReturnedTwice,
    NotReturnedAfterFailure,
    LongBatchNeverPosted,
}

struct Flawed(Credits, Flaw);

impl Ledger for Flawed {
    fn left(&self, outstanding: usize, waiting: usize) -> usize {
        match self.1 {
            Flaw::LongBatchNeverPosted if self.0.left(outstanding) < waiting => 0,
            _ => self.0.left(outstanding),
        }
    }

    fn take(&mut self, count: usize) {
        self.0.take(count);
    }

    fn give_back(&mut self, count: usize, failed: bool) {
        match self.1 {
            Flaw::ReturnedTwice => self.0.give_back((2 * count).min(self.0.taken() as usize)),
            Flaw::NotReturnedAfterFailure if failed => {}
            _ => self.0.give_back(count),
        }
    }

    fn set_ceiling(&mut self, ceiling: u32) {
        self.0.set_ceiling(ceiling);
    }

    fn taken(&self) -> u32 {
        self.0.taken()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A task submits a batch of so many requests.
    Submit(usize, usize),
    /// The pool posts what it may.
    Post,
    /// So many of the oldest requests complete.
    Complete(usize, usize),
    /// The oldest request fails: all outstanding ones end.
    Fail(usize),
    /// The queue pair is replaced.
    Replace(usize),
    /// The task of the last submitted batch ends: what is not posted yet is dropped.
    Cancel(usize),
    Ceiling(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let peer = 0..PEERS;
    let step = prop_oneof![
        3 => (peer.clone(), 1..20usize).prop_map(|(peer, count)| Step::Submit(peer, count)),
        4 => Just(Step::Post),
        3 => (peer.clone(), 1..8usize).prop_map(|(peer, count)| Step::Complete(peer, count)),
        1 => peer.clone().prop_map(Step::Fail),
        1 => peer.clone().prop_map(Step::Replace),
        1 => peer.prop_map(Step::Cancel),
        1 => (0..14u32).prop_map(Step::Ceiling),
    ];
    prop::collection::vec(step, 1..80)
}

/// The queues of a pool; numbers stand for requests.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<u32>,
    outstanding: VecDeque<u32>,
}

/// Plays `steps`; says which property fails.
fn play(peers: usize, flaw: Flaw, steps: &[Step]) -> Result<(), String> {
    let mut credits = Flawed(Credits::new(Some(8)), flaw);
    (0..peers).for_each(|_| credits.0.add_peer());
    let mut queues: Vec<Queue> = (0..peers).map(|_| Queue::default()).collect();
    let (mut next, mut ceiling) = (0, 8u32);
    for step in steps {
        match *step {
            Step::Submit(peer, count) => {
                let queue = &mut queues[peer % peers];
                queue.waiting.extend(next..next + count as u32);
                next += count as u32;
            }
            Step::Post => post(&mut credits, &mut queues, ceiling)?,
            Step::Complete(peer, count) => {
                let count = count.min(queues[peer % peers].outstanding.len());
                queues[peer % peers].outstanding.drain(..count);
                credits.give_back(count, false);
            }
            Step::Fail(peer) | Step::Replace(peer) => {
                let count = queues[peer % peers].outstanding.len();
                queues[peer % peers].outstanding.clear();
                credits.give_back(count, matches!(step, Step::Fail(_)));
            }
            Step::Cancel(peer) => queues[peer % peers].waiting.clear(),
            Step::Ceiling(to) => {
                credits.set_ceiling(to);
                ceiling = to.max(1);
            }
        }
        let outstanding: usize = queues.iter().map(|queue| queue.outstanding.len()).sum();
        if credits.taken() as usize != outstanding {
            return Err(format!(
                "{} credits taken, {outstanding} outstanding",
                credits.taken()
            ));
        }
    }
    // From now on requests end one by one: all that wait must be posted sometime.
    for _ in 0..10_000 {
        if queues
            .iter()
            .all(|queue| queue.waiting.is_empty() && queue.outstanding.is_empty())
        {
            return Ok(());
        }
        post(&mut credits, &mut queues, ceiling)?;
        for queue in &mut queues {
            if queue.outstanding.pop_front().is_some() {
                credits.give_back(1, false);
            }
        }
    }
    Err("a batch waits for ever".into())
}

fn post(credits: &mut Flawed, queues: &mut [Queue], ceiling: u32) -> Result<(), String> {
    let peers = queues.len();
    for queue in queues {
        let space = DEPTH - queue.outstanding.len();
        let count = credits
            .left(queue.outstanding.len(), queue.waiting.len())
            .min(space)
            .min(queue.waiting.len());
        let before = credits.taken();
        credits.take(count);
        queue.outstanding.extend(queue.waiting.drain(..count));
        if queue.outstanding.len() > DEPTH {
            return Err("a queue overruns".into());
        }
        if count > 0 && before + count as u32 > ceiling {
            return Err(format!("{} of {ceiling} credits", before + count as u32));
        }
        let share = (ceiling.saturating_sub(RESERVED).max(1)) as usize;
        if count > 0 && peers > 1 && queue.outstanding.len() > share {
            return Err("one destination takes what is reserved for the others".into());
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn credits_are_conserved_and_no_batch_waits_for_ever(steps in steps(), peers in 1..=PEERS) {
        prop_assert_eq!(play(peers, Flaw::None, &steps), Ok(()));
    }
}

#[test]
fn planted_flaws_are_caught() {
    for flaw in [
        Flaw::ReturnedTwice,
        Flaw::NotReturnedAfterFailure,
        Flaw::LongBatchNeverPosted,
    ] {
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 2_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let result = runner.run(&(steps(), 1..=PEERS), |(steps, peers)| {
            play(peers, flaw, &steps).map_err(TestCaseError::fail)
        });
        assert!(result.is_err(), "{flaw:?} was not caught");
    }
}

#[test]
fn one_destination_leaves_two_credits_to_the_others() {
    let mut credits = Credits::new(Some(8));
    credits.add_peer();
    assert_eq!(credits.left(0), 8, "alone it gets all");
    credits.add_peer();
    credits.take(credits.left(0));
    assert_eq!((credits.taken(), credits.left(6), credits.left(0)), (6, 0, 2));
    credits.set_ceiling(1);
    assert_eq!((credits.left(6), credits.left(0)), (0, 0));
    credits.give_back(6);
    assert_eq!(credits.left(0), 1, "no destination is shut out");
}
