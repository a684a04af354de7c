//! [`Order`]: times that keep the requests of a queue pair in the order of posting.

use drover_sim::Ps;

/// Times of the last request of a queue pair at several stages: the next one is not earlier.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    /// Time when the last request is in the card.
    ingested_at: Ps,
    /// Number of lists that the card is fetching, and of requests that wait for them.
    fetches: u32,
    /// Time from which the card may fetch the next request of a list.
    fetch_at: Ps,
    /// Time when the last request was ready for the link.
    departed_at: Ps,
    /// Time when the last message to this queue pair, or the effect of its last atomic, is completely visible.
    landed_at: Ps,
}

impl Order {
    /// A request written by a core could be in the card at `end`. Returns when it is, and whether it waits until then
    /// for an earlier list, which takes longer to fetch, or for a request that waits for such a list.
    #[inline]
    pub(crate) fn ingest(&mut self, end: Ps) -> (Ps, bool) {
        self.ingested_at = end.max(self.ingested_at);
        let waits = self.ingested_at > end || self.fetches > 0;
        self.fetches += u32::from(waits);
        (self.ingested_at, waits)
    }

    /// The card begins to fetch a list.
    #[inline]
    pub(crate) fn begin_fetch(&mut self) {
        self.fetches += 1;
    }

    /// A list, or a request that waited for one, is in the card.
    #[inline]
    pub(crate) fn end_fetch(&mut self) {
        self.fetches -= 1;
    }

    /// A request of a list could be in the card at `arrived`. Returns when it is; the next one follows after `spacing`.
    #[inline]
    pub(crate) fn fetch(&mut self, arrived: Ps, spacing: Ps) -> Ps {
        let at = arrived.max(self.fetch_at).max(self.ingested_at);
        self.fetch_at = at + spacing;
        self.ingested_at = at;
        at
    }

    /// A request could be ready for the link at `ready`. Returns when it is.
    #[inline]
    pub(crate) fn depart(&mut self, ready: Ps) -> Ps {
        self.departed_at = ready.max(self.departed_at);
        self.departed_at
    }

    /// Time when the last message to this queue pair, or the effect of its last atomic, is completely visible.
    #[inline]
    pub(crate) fn landed_at(&self) -> Ps {
        self.landed_at
    }

    /// The last message to this queue pair is completely visible at `at`, or earlier ones are later.
    #[inline]
    pub(crate) fn land(&mut self, at: Ps) {
        self.landed_at = at.max(self.landed_at);
    }
}
