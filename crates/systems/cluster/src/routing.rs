//! [`Routed`]: what a request says of its way.

use crate::Epoch;

/// Under which map a request was sent, and whether it may be sent on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Routed {
    /// Epoch of the sender's map. [`Epoch::NONE`]: the sender has none.
    pub epoch: Epoch,
    /// Whether a member that does not own the shard answers "elsewhere" instead of forwarding the request. Native clients set it, since
    /// they can ask the owner themselves; a member sets it on every request that it forwards. So nothing is forwarded twice, and
    /// requests cannot go round in circles, whatever the maps say.
    pub is_final: bool,
}

impl Routed {
    /// A request that is answered where it arrives, or not at all.
    pub fn direct(epoch: Epoch) -> Routed {
        let is_final = true;
        Routed { epoch, is_final }
    }
}
