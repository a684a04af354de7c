//! [`Routed`]: what a request says of its way, in eight bytes.

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

/// The bit of [`Routed::is_final`]; the epoch has the others.
const FINAL: u64 = 1 << 63;

impl Routed {
    /// A request that is answered where it arrives, or not at all.
    pub fn direct(epoch: Epoch) -> Routed {
        let is_final = true;
        Routed { epoch, is_final }
    }

    /// The word that travels in the request.
    pub fn to_bits(self) -> u64 {
        let bit = if self.is_final { FINAL } else { 0 };
        self.epoch.0.min(Epoch::MAX.0) | bit
    }

    /// What the word of a request says.
    pub fn from_bits(bits: u64) -> Routed {
        Routed {
            epoch: Epoch(bits & !FINAL),
            is_final: bits & FINAL != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_carries_both() {
        for epoch in [Epoch::NONE, Epoch(7), Epoch::MAX] {
            for is_final in [false, true] {
                let routed = Routed { epoch, is_final };
                assert_eq!(Routed::from_bits(routed.to_bits()), routed);
            }
        }
    }
}
