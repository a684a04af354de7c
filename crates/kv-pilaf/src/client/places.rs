//! Operations from their beginning to their outcome: who may begin, whose time is over, what a lost session means.

use super::operation::{Operation, State};
use super::{PilafClient, Sink};
use crate::logic::Lookup;
use drover_base::{Cpu, Ns};
use drover_kv::{Completion, Outcome, Refusal};
use drover_verbs::Provider;

impl<P: Provider> PilafClient<P> {
    /// Says the outcome of an operation, and frees its place as soon as nothing of it is under way.
    pub(super) fn finish(&mut self, at: usize, outcome: Outcome<'_>, sink: Sink<'_>) {
        let place = &mut self.places[at];
        let token = place.token;
        self.release_large(at);
        let place = &mut self.places[at];
        place.state = State::Sending;
        self.in_flight -= 1;
        self.stirred = true;
        if !place.sending {
            self.vacate(at);
        }
        sink(Completion { token, outcome });
    }

    pub(super) fn vacate(&mut self, at: usize) {
        self.places[at].state = State::Free;
        self.free.push(at as u32);
    }

    pub(super) fn release_large(&mut self, at: usize) {
        let place = &mut self.places[at];
        let (State::Reply { large } | State::Record { large, .. }) = &mut place.state else {
            return;
        };
        if let (Some(large), Some(session)) = (large.take(), self.links[place.shard].session()) {
            session.free_large.push(large);
            self.stirred = true;
        }
    }

    /// The session with `shard` is over: reads begin again with the next; updates that were sent are unknown for ever.
    pub(super) fn lost(&mut self, shard: usize, sink: Sink<'_>) {
        self.stats.lost += 1;
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            if place.shard != shard {
                continue;
            }
            place.sending = false;
            match place.state {
                State::Free | State::Waiting => {}
                State::Sending => self.vacate(at),
                State::Reply { .. } if place.is_update() => self.finish(at, Outcome::Indeterminate, sink),
                _ => place.state = State::Waiting,
            }
        }
        self.stirred = true;
    }

    /// Begins whatever can begin, and ends what took too long.
    pub(super) fn stir(&mut self, cpu: &P::Cpu, sink: Sink<'_>) {
        self.stirred = false;
        let now = cpu.now();
        for at in 0..self.places.len() {
            match self.places[at].state {
                State::Free | State::Sending => continue,
                State::Waiting => self.begin(at),
                State::Resting { until } if now >= until => self.look_up(at),
                _ => {}
            }
            if now >= self.places[at].deadline {
                self.give_up(at, sink);
            }
        }
    }

    /// Its time is over.
    fn give_up(&mut self, at: usize, sink: Sink<'_>) {
        let place = &self.places[at];
        let shard = place.shard;
        if matches!(place.state, State::Waiting | State::Resting { .. }) {
            return self.finish(at, Outcome::Refused(Refusal::Unavailable), sink);
        }
        // Whatever it waits for may still come: with the session it never will.
        if !place.is_update() {
            self.places[at].state = State::Waiting;
            self.finish(at, Outcome::Refused(Refusal::Unavailable), sink);
        }
        if let Some(session) = self.links[shard].session() {
            session.broken = true;
        }
    }

    /// Earlier operations on its key have ended.
    fn is_first(&self, at: usize) -> bool {
        let place = &self.places[at];
        let is_before =
            |other: &Operation| other.is_open() && other.order < place.order && other.key == place.key;
        !self.places.iter().any(is_before)
    }

    fn begin(&mut self, at: usize) {
        let shard_count = self.links.len();
        let place = &mut self.places[at];
        // Any session tells the hash, and the hash the shard; all shards of a service have one seed.
        let Some(hasher) = self
            .links
            .iter_mut()
            .find_map(|link| link.session().map(|s| s.hasher.clone()))
        else {
            return;
        };
        place.hash = hasher.hash(&place.key);
        place.shard = place.hash.partition_index(shard_count);
        if self.links[place.shard].session().is_none() || !self.is_first(at) {
            return;
        }
        match self.places[at].is_update() {
            true => self.send_update(at),
            false => {
                let place = &mut self.places[at];
                let session = self.links[place.shard].session().expect("looked at above");
                place.lookup = Some(Lookup::new(place.hash, &session.shape, self.options.miss));
                self.look_up(at);
            }
        }
    }

    /// Whether some operation waits for time alone.
    pub(super) fn is_due(&self, now: Ns) -> bool {
        self.stirred || self.in_flight > 0 && self.next_event() <= now
    }

    /// When an operation's rest or time ends.
    pub(super) fn next_event(&self) -> Ns {
        let open = self.places.iter().filter(|place| place.is_open());
        let event = |place: &Operation| match place.state {
            State::Resting { until } => until.min(place.deadline),
            _ => place.deadline,
        };
        open.map(event).min().unwrap_or(Ns::MAX)
    }
}
