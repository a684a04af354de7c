//! Every order of events of one client, one server and three calls, with changes of the mode both ways: no state is a
//! dead end, and every result is that of its call.
//!
//! An event is as small as the two ends can tell: a verb is executed, its completion polled, a request taken, a result
//! published, modes looked at again, a push lands, its completion is seen, the client looks for a push, the next call
//! begins. Time stands still, and everything that waits for time may happen at any time.

use super::pair::{Memory, NERVOUS, Pair, Verb};
use super::{NoRecheck, NoSequence};
use crate::CallError;
use crate::fetch::{CallerOptions, Format, Guarded, Guards, Layout};
use drover_base::Ns;
use std::collections::{BTreeMap, BTreeSet};

const CALLS: u8 = 3;

const LAYOUT: Layout = Layout {
    format: Format::V1,
    place_count: 1,
    rpc_count: 2,
    request_bytes: 8,
    result_bytes: 8,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Begin,
    Execute(usize),
    Complete,
    Take,
    Publish,
    LookAgain,
    Land,
    Landed,
    Poll,
}

/// A pair that is one of many possible ones.
#[derive(Clone)]
struct State<G: Guards> {
    pair: Pair<G>,
    bytes: [Vec<u8>; 5],
    begun: u8,
    is_executing: bool,
    /// The requests that were executed.
    executed: Vec<u8>,
    /// Pushes that have landed, and whose completion the server has not seen.
    landed: u32,
}

fn regions(memory: &Memory) -> [&drover_mem::Region; 5] {
    [
        &memory.requests,
        &memory.landing,
        &memory.pushed,
        &memory.inbound,
        &memory.results,
    ]
}

impl<G: Guards> State<G> {
    fn first() -> State<G> {
        let options = CallerOptions {
            switch: NERVOUS,
            ..CallerOptions::default()
        };
        let mut state = State {
            pair: Pair::new(LAYOUT, options),
            bytes: Default::default(),
            begun: 0,
            is_executing: false,
            executed: Vec::new(),
            landed: 0,
        };
        state.save();
        state
    }

    /// All states share the memory, so each keeps a copy of what it has there.
    fn save(&mut self) {
        let used = LAYOUT.inbound_bytes();
        for (bytes, region) in self.bytes.iter_mut().zip(regions(&self.pair.memory)) {
            bytes.resize(used, 0);
            region.copy_out(0, bytes);
        }
    }

    fn restore(&self) {
        for (bytes, region) in self.bytes.iter().zip(regions(&self.pair.memory)) {
            region.copy_in(0, bytes);
        }
    }

    fn key(&self) -> String {
        let pair = &self.pair;
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {} {} {} {}",
            pair.request,
            (pair.caller.state(), pair.caller.stats().switches),
            pair.callee.state(),
            pair.wire,
            pair.completions,
            pair.pushes,
            pair.ended,
            self.bytes,
            self.executed,
            self.begun,
            self.is_executing,
            self.landed,
            pair.callee.next_look() == Ns::MAX
        )
    }

    fn is_final(&self) -> bool {
        self.pair.ended.len() == usize::from(CALLS)
    }

    /// What may happen next. `in_order`: the client's verbs are executed in the order of posting, as on one queue pair.
    /// Otherwise modes travel on another one.
    fn events(&self, in_order: bool) -> Vec<Event> {
        let pair = &self.pair;
        let mut events = Vec::new();
        let mut add = |may: bool, event: Event| {
            if may {
                events.push(event);
            }
        };
        add(self.begun < CALLS && pair.caller.is_free(0), Event::Begin);
        let first = |is_mode: bool| {
            pair.wire
                .iter()
                .position(|verb| matches!(verb, Verb::Mode(_)) == is_mode)
        };
        for index in [first(true), first(false)].into_iter().flatten() {
            add(index == 0 || !in_order, Event::Execute(index));
        }
        add(!pair.completions.is_empty(), Event::Complete);
        add(!self.is_executing, Event::Take);
        add(self.is_executing, Event::Publish);
        add(pair.callee.next_look() != Ns::MAX, Event::LookAgain);
        add(!pair.pushes.is_empty(), Event::Land);
        add(self.landed > 0, Event::Landed);
        add(pair.caller.is_waiting(0), Event::Poll);
        events
    }

    fn after(&self, event: Event) -> State<G> {
        let mut next = self.clone();
        next.restore();
        let pair = &mut next.pair;
        match event {
            Event::Begin => {
                pair.begin(0, &[next.begun]);
                next.begun += 1;
            }
            Event::Execute(index) => {
                let verb = pair.wire.remove(index).expect("a verb under way");
                pair.execute_one(verb);
            }
            Event::Complete => pair.complete(),
            Event::Take => {
                next.is_executing = pair.take(0).is_some();
                if next.is_executing {
                    next.executed.push(pair.request[0]);
                }
            }
            Event::Publish => {
                let request = pair.request.clone();
                pair.publish(0, &request, Ns(0));
                next.is_executing = false;
            }
            Event::LookAgain => {
                pair.now = pair.callee.next_look();
                pair.look_again();
                pair.now = Ns(0);
            }
            Event::Land => {
                let (push, bytes) = pair.pushes.pop_front().expect("a push under way");
                pair.land_one(push, &bytes);
                next.landed += 1;
            }
            Event::Landed => {
                pair.callee.pushed(0);
                next.landed -= 1;
            }
            Event::Poll => drop(pair.poll(0)),
        }
        next.save();
        next
    }
}

/// What all orders of events lead to.
#[derive(Default, Debug)]
struct Explored {
    states: usize,
    /// States from which no order of events ends all calls.
    stuck: usize,
    /// Final states in which a call has another's result.
    wrong: usize,
    /// Final states in which a call was executed more than once.
    repeated: usize,
    /// Numbers of changes of the mode, in both directions, that final states have seen.
    switches: BTreeSet<[u64; 2]>,
}

fn explore<G: Guards>(in_order: bool) -> Explored {
    let first = State::<G>::first();
    let mut explored = Explored::default();
    let mut numbers = BTreeMap::from([(first.key(), 0)]);
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut finals = Vec::new();
    let mut open = vec![(0, first)];
    while let Some((number, state)) = open.pop() {
        if state.is_final() {
            let right = (0..CALLS).map(|call| (0, Ok::<_, CallError>(vec![call])));
            explored.wrong += usize::from(!state.pair.ended.iter().cloned().eq(right));
            explored.repeated += usize::from(state.executed != [0, 1, 2]);
            explored.switches.insert(state.pair.caller.stats().switches);
            finals.push(number);
            continue;
        }
        for event in state.events(in_order) {
            let next = state.after(event);
            let count = numbers.len();
            let reached = *numbers.entry(next.key()).or_insert(count);
            if reached == count {
                before.push(Vec::new());
                open.push((reached, next));
            }
            before[reached].push(number);
        }
    }
    explored.states = numbers.len();
    let mut can_end = vec![false; before.len()];
    while let Some(number) = finals.pop() {
        if !std::mem::replace(&mut can_end[number], true) {
            finals.extend(&before[number]);
        }
    }
    explored.stuck = can_end.iter().filter(|can| !**can).count();
    explored
}

#[test]
fn rfp_every_order_of_events_ends_three_calls() {
    let explored = explore::<Guarded>(true);
    assert_eq!(
        (explored.stuck, explored.wrong, explored.repeated),
        (0, 0, 0),
        "{explored:?}"
    );
    // Fetched throughout; to reply and back; twice.
    for switches in [[0, 0], [1, 1], [2, 2]] {
        assert!(explored.switches.contains(&switches), "{explored:?}");
    }
}

/// Modes that overtake requests do no harm as long as the server looks again.
#[test]
fn rfp_looking_again_heals_modes_that_overtake() {
    let explored = explore::<Guarded>(false);
    assert_eq!((explored.stuck, explored.wrong), (0, 0), "{explored:?}");
}

#[test]
fn rfp_the_model_finds_what_is_missing() {
    let explored = explore::<NoRecheck>(true);
    assert!(explored.stuck > 0, "the canary: {explored:?}");
    let explored = explore::<NoSequence>(true);
    assert!(explored.wrong > 0, "the canary: {explored:?}");
}
