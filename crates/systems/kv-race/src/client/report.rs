//! [`Report`]: what a thread adds to the counts of its process, now and then.

use crate::race::Race;
use drover_base::Ns;
use drover_memnode::Counted;
use drover_verbs::Provider;

/// Time between two reports.
const EVERY: Ns = Ns::from_ms(10);

/// What is reported.
const KINDS: [Counted; 3] = [Counted::Retries, Counted::Rereads, Counted::Limbo];

/// What a thread has reported of its session.
#[derive(Default)]
pub(super) struct Report {
    next: Ns,
    told: [u64; KINDS.len()],
}

impl Report {
    /// Whether it is time for another one.
    #[inline]
    pub(super) fn is_due(&self, now: Ns) -> bool {
        now >= self.next
    }

    /// Adds what has happened since the last report.
    pub(super) fn tell<P: Provider>(&mut self, race: &Race<P>, now: Ns) {
        self.next = now + EVERY;
        let (stats, arena) = (race.stats(), race.arena());
        let pool = arena.nodes().pool();
        let limbo = (0..pool.node_count()).map(|node| arena.stats(node).limbo as u64);
        let counts = [stats.waits + stats.gave_way, stats.rereads, limbo.sum()];
        for ((kind, told), count) in KINDS.into_iter().zip(&mut self.told).zip(counts) {
            pool.activity().add(kind, count.wrapping_sub(*told));
            *told = count;
        }
    }

    /// The session ends: its memory does not wait any more.
    pub(super) fn end<P: Provider>(&mut self, race: &Race<P>) {
        self.tell(race, self.next);
        let [.., limbo] = std::mem::take(self).told;
        let pool = race.arena().nodes().pool();
        pool.activity().add(Counted::Limbo, limbo.wrapping_neg());
    }
}
