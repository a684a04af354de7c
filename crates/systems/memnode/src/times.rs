//! [`LeaseTimes`]: how often leases are renewed, and what happens when they are not.

use drover_base::Ns;

/// Times of leases, options of a node that clients learn when they connect. The order `renew_every < stop_after <
/// suspect_after` is what makes it work: a client has stopped writing by itself before anybody suspects it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseTimes {
    /// Time between two renewals, each a WRITE of a counter and of the epoch that the client has reached. Also the time
    /// between two looks of the node at its clients. A lease alone would need a tenth of these; how soon freed memory
    /// can be used again depends on it. *(our choice)*
    pub renew_every: Ns,
    /// A client that has not renewed its lease for so long stops writing [SMART, our choice].
    pub stop_after: Ns,
    /// A client whose counter has not changed for so long is suspected, and fenced [SMART, our choice].
    pub suspect_after: Ns,
}

impl Default for LeaseTimes {
    fn default() -> LeaseTimes {
        LeaseTimes {
            renew_every: Ns::from_ms(10),
            stop_after: Ns::from_ms(700),
            suspect_after: Ns::from_s(1),
        }
    }
}

impl LeaseTimes {
    /// Whether a client stops before it is suspected, and can renew several times before it stops.
    pub fn are_consistent(&self) -> bool {
        self.renew_every > Ns::ZERO
            && self.renew_every * 2 < self.stop_after
            && self.stop_after < self.suspect_after
    }
}
