//! Every order of events of two writers, a reader and a splitter that may die.

use super::clients::{Client, final_value};
use super::history::{History, Op};
use super::splitter::Splitter;
use super::*;
use drover_base::mix;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Splitting {
    NotBegun,
    Running(Box<Splitter>),
    Dead,
    Finished,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    world: World,
    clients: [Client; 3],
    splitting: Splitting,
    may_die: bool,
    history: History,
}

/// A quick hash of 128 bits: two independent ones of 64.
struct Lanes([u64; 2]);

impl Hasher for Lanes {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0[0] = mix(self.0[0] ^ word);
        self.0[1] = mix(self.0[1].wrapping_add(word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0[0]
    }
}

/// What the clients do, and what is there when they begin.
struct Scenario {
    slots: [Slot; 2],
    ops: [&'static [Op]; 3],
    may_die: bool,
    /// Whether clients see the header of a bucket before its slots.
    is_torn: bool,
}

impl State {
    fn new(scenario: &Scenario) -> State {
        let client = |id: usize| Client::new(id as u8, scenario.ops[id], scenario.is_torn);
        State {
            world: World::new(scenario.slots),
            clients: std::array::from_fn(client),
            splitting: Splitting::NotBegun,
            may_die: scenario.may_die,
            history: History::default(),
        }
    }

    /// 128 bits that stand for the state.
    fn key(&self) -> [u64; 2] {
        let mut hasher = Lanes([1, 2]);
        self.hash(&mut hasher);
        hasher.0
    }

    fn is_final(&self) -> bool {
        let clients = self.clients.iter().all(Client::is_finished);
        clients && matches!(self.splitting, Splitting::NotBegun | Splitting::Finished)
    }

    /// Calls `each` with every state that may be next.
    fn next(&self, flaw: Flaw, mut each: impl FnMut(State)) {
        for id in 0..self.clients.len() {
            if !self.clients[id].is_finished() {
                let mut next = self.clone();
                next.clients[id].step(&mut next.world, &mut next.history, flaw);
                each(next);
            }
        }
        match &self.splitting {
            Splitting::NotBegun => {
                let division = Division::new(0, 0).expect("depth 0");
                each(self.with_splitter(Split::new(division), flaw));
            }
            Splitting::Running(_) => {
                let mut next = self.clone();
                if let Splitting::Running(splitter) = &mut next.splitting {
                    splitter.step(&mut next.world, flaw);
                    if let Some(outcome) = splitter.outcome {
                        assert!(
                            matches!(outcome, Outcome::Split | Outcome::Nothing),
                            "{outcome:?}"
                        );
                        next.splitting = Splitting::Finished;
                    }
                }
                each(next);
                if self.may_die {
                    let mut next = self.clone();
                    next.splitting = Splitting::Dead;
                    next.may_die = false;
                    each(next);
                }
            }
            Splitting::Dead if flaw != Flaw::NotResumed => each(self.with_splitter(Split::resume(0), flaw)),
            Splitting::Dead | Splitting::Finished => {}
        }
    }

    fn with_splitter(&self, split: Split, flaw: Flaw) -> State {
        let mut next = self.clone();
        let splitter = Splitter::new(split, &mut next.world, flaw);
        next.splitting = match splitter.outcome {
            Some(_) => Splitting::Finished,
            None => Splitting::Running(Box::new(splitter)),
        };
        next
    }
}

/// What all orders of events lead to.
#[derive(Default, Debug)]
struct Explored {
    states: usize,
    finals: usize,
    /// States from which no order of events ends all operations.
    stuck: usize,
    /// Final states whose history is not linearizable, that have forgotten something, or where slots are still frozen.
    wrong: usize,
    /// States in which an entry of a key is confirmed twice.
    duplicates: usize,
}

fn explore(scenario: &Scenario, flaw: Flaw) -> Explored {
    let first = State::new(scenario);
    let values = [MOVES, STAYS].map(|key| (key, final_value(&first.world, key)));
    let mut explored = Explored::default();
    let mut numbers = BTreeMap::from([(first.key(), 0u32)]);
    let mut before: Vec<(u32, u32)> = Vec::new();
    let mut finals = Vec::new();
    let mut open = vec![(0, first)];
    while let Some((number, state)) = open.pop() {
        explored.duplicates += usize::from(has_duplicate(&state.world));
        if state.is_final() {
            let is_right = |(key, value)| {
                let last = final_value(&state.world, key);
                state.history.is_linearizable(key, value, last)
            };
            let left = state.world.old.slots.iter().any(|slot| slot.is_frozen());
            let is_clean = !left || state.splitting == Splitting::NotBegun;
            explored.wrong += usize::from(!values.into_iter().all(is_right) || !is_clean);
            finals.push(number);
        }
        state.next(flaw, |next| {
            let count = numbers.len() as u32;
            let reached = *numbers.entry(next.key()).or_insert(count);
            if reached == count {
                open.push((reached, next));
            }
            before.push((reached, number));
        });
    }
    explored.states = numbers.len();
    explored.finals = finals.len();
    explored.stuck = numbers.len() - count_backwards(numbers.len(), before, finals);
    explored
}

/// Number of states from which one of `finals` can be reached.
fn count_backwards(count: usize, mut before: Vec<(u32, u32)>, mut finals: Vec<u32>) -> usize {
    before.sort_unstable();
    let mut seen = vec![false; count];
    let mut reached = 0;
    while let Some(number) = finals.pop() {
        if std::mem::replace(&mut seen[number as usize], true) {
            continue;
        }
        reached += 1;
        let from = before.partition_point(|(to, _)| *to < number);
        let into = before[from..].iter().take_while(|(to, _)| *to == number);
        finals.extend(into.map(|(_, from)| *from));
    }
    reached
}

/// Whether a key has two confirmed entries that are not frozen.
fn has_duplicate(world: &World) -> bool {
    let live = [world.old, world.new].map(|bucket| {
        let is_live = |slot: &&Slot| slot.kind() == crate::race::SlotKind::Live && !slot.is_frozen();
        let keys = bucket
            .slots
            .iter()
            .filter(is_live)
            .filter_map(|slot| content(*slot));
        keys.filter(|(key, _)| *key == MOVES).count()
    });
    // Entries in a pending bucket are copies.
    let copies = if world.new.header.pending { 0 } else { live[1] };
    live[0] + copies > 1
}

const GET: Op = Op::Get(MOVES);
const EMPTY: Slot = Slot::EMPTY;

fn scenario(slots: [Slot; 2], ops: [&'static [Op]; 3], may_die: bool) -> Scenario {
    Scenario {
        slots,
        ops,
        may_die,
        is_torn: false,
    }
}

fn update() -> Scenario {
    scenario(
        [entry(MOVES, 1), entry(STAYS, 1)],
        [&[Op::Put(MOVES, 2)], &[], &[GET, GET]],
        true,
    )
}

fn update_and_delete() -> Scenario {
    scenario(
        [entry(MOVES, 1), entry(STAYS, 1)],
        [&[Op::Put(MOVES, 2)], &[Op::Delete(MOVES)], &[GET]],
        true,
    )
}

fn inserts() -> Scenario {
    scenario(
        [EMPTY; 2],
        [&[Op::Put(MOVES, 1)], &[Op::Put(MOVES, 2)], &[GET]],
        false,
    )
}

fn adds() -> Scenario {
    scenario(
        [EMPTY; 2],
        [&[Op::Add(MOVES, 1)], &[Op::Add(MOVES, 2)], &[GET]],
        false,
    )
}

/// The first slot becomes empty when the split has looked at it already.
fn late_insert() -> Scenario {
    scenario(
        [entry(STAYS, 1), EMPTY],
        [&[Op::Put(MOVES, 1)], &[Op::Delete(STAYS)], &[GET]],
        true,
    )
}

/// A delete makes the first slot empty while another client inserts into the second one; a third one deletes what it
/// finds.
fn duplicates() -> Scenario {
    scenario(
        [entry(STAYS, 1), EMPTY],
        [
            &[Op::Put(MOVES, 1)],
            &[Op::Delete(STAYS), Op::Put(MOVES, 2)],
            &[Op::Delete(MOVES)],
        ],
        false,
    )
}

fn assert_right(scenario: &Scenario) {
    let explored = explore(scenario, Flaw::None);
    let wrong = (explored.stuck, explored.wrong, explored.duplicates);
    assert!(wrong == (0, 0, 0) && explored.finals > 50, "{explored:?}");
    println!("{explored:?}");
}

#[test]
#[cfg_attr(miri, ignore = "a hundred thousand states")]
fn race_updates_and_deletes_survive_a_split_whose_client_dies() {
    assert_right(&update());
    assert_right(&update_and_delete());
}

#[test]
#[cfg_attr(miri, ignore = "a hundred thousand states")]
fn race_one_of_two_inserts_survives_a_split() {
    assert_right(&inserts());
    assert_right(&late_insert());
}

/// The published insert checks for duplicates after the entry is visible, so both clients may report that they were
/// first.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand states")]
fn race_defect_add_succeeds_twice() {
    assert_right(&adds());
    let explored = explore(&adds(), Flaw::NotTentative);
    assert!(
        explored.wrong > 0 && explored.duplicates > 0,
        "the canary: {explored:?}"
    );
}

/// With published inserts, of two entries of a key one is removed: a delete that has seen the other one only leaves a
/// value that vanishes later.
#[test]
#[cfg_attr(miri, ignore = "two hundred thousand states")]
fn race_defect_delete_revives_a_duplicate() {
    assert_right(&duplicates());
    let explored = explore(&duplicates(), Flaw::NotTentative);
    assert!(
        explored.wrong > 0 && explored.duplicates > 0,
        "the canary: {explored:?}"
    );
}

/// Public code copies an entry and then deletes it, whatever was written in between.
#[test]
#[cfg_attr(miri, ignore = "ten thousand states")]
fn race_defect_update_lost_between_copy_and_delete() {
    for flaw in [Flaw::NoFreezing, Flaw::ClearedFirst] {
        let explored = explore(&update(), flaw);
        assert!(explored.wrong > 0, "the canary, {flaw:?}: {explored:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "ten thousand states")]
fn race_defect_dead_splitter_keeps_its_lock() {
    let explored = explore(&update(), Flaw::NotResumed);
    assert!(explored.stuck > 0, "the canary: {explored:?}");
    let explored = explore(&update(), Flaw::CopiedAgain);
    assert!(explored.wrong > 0, "the canary: {explored:?}");
}

#[test]
#[cfg_attr(miri, ignore = "ten thousand states")]
fn race_the_model_finds_readers_that_miss() {
    for flaw in [Flaw::PendingTrusted, Flaw::OldTrusted, Flaw::HeaderAfterMiss] {
        let explored = explore(&update(), flaw);
        assert!(explored.wrong > 0, "the canary, {flaw:?}: {explored:?}");
    }
}

/// A READ may see a bucket's header as it was before a split, and its slots as they are after the split has cleared
/// them: only if it lasts longer than what is left of the split by then. A second look at the header, behind the slots,
/// tells.
#[test]
#[cfg_attr(miri, ignore = "forty thousand states")]
fn race_a_torn_read_is_no_miss_when_the_header_is_read_again() {
    let torn = Scenario {
        is_torn: true,
        ..update()
    };
    assert_right(&torn);
    let explored = explore(&torn, Flaw::MissBelieved);
    assert!(explored.wrong > 0, "the canary: {explored:?}");
    let whole = explore(&update(), Flaw::MissBelieved);
    assert_eq!(whole.wrong, 0, "a READ that is not torn needs no second look");
}
