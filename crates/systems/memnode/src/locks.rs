//! [`Lock`]: the word of a lock in a pool. The only place that knows its bits.

use crate::client::ClientId;

/// A lock word.
///
/// | bits | field | meaning |
/// |---|---|---|
/// | 48..64 | owner | number of the client that holds it; 0: free |
/// | 32..48 | epoch | the client's epoch |
/// | 0..32 | sequence | another one each time a client takes a lock |
///
/// A lock is never taken because somebody waited for long. [`owner_is_dead`](Lock::owner_is_dead) is true once the
/// owner was fenced: nothing of it lands any more, and what it left half done can be repaired.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lock(u64);

impl Lock {
    /// Nobody holds it.
    pub const FREE: Lock = Lock(0);

    /// Held by `owner`, who takes a lock for the `sequence`-th time.
    #[inline]
    pub const fn held(owner: ClientId, sequence: u32) -> Lock {
        Lock((owner.bits() as u64) << 32 | sequence as u64)
    }

    /// The lock of these bits, whatever they are.
    #[inline]
    pub const fn from_bits(bits: u64) -> Lock {
        Lock(bits)
    }

    /// As it is stored.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether nobody holds it.
    #[inline]
    pub const fn is_free(self) -> bool {
        self.owner().is_none()
    }

    /// The client that holds it; [`ClientId::NONE`]: nobody.
    #[inline]
    pub const fn owner(self) -> ClientId {
        ClientId::from_bits((self.0 >> 32) as u32)
    }

    /// How often its owner had taken a lock before.
    #[inline]
    pub const fn sequence(self) -> u32 {
        self.0 as u32
    }

    /// Whether `me` holds it.
    #[inline]
    pub fn is_mine(self, me: ClientId) -> bool {
        !self.is_free() && self.owner() == me
    }

    /// Whether its owner is known to be fenced, by what the client table says of the owner's number.
    pub fn owner_is_dead(self, line: &crate::clients::ClientLine) -> bool {
        use crate::clients::ClientState;
        let is_this = line.client == self.owner();
        !self.is_free() && (!is_this || matches!(line.state, ClientState::Free | ClientState::Fenced))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{ClientLine, ClientState};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_come_back(id in 1u16.., epoch: u16, sequence: u32) {
            let owner = ClientId { id, epoch };
            let lock = Lock::from_bits(Lock::held(owner, sequence).bits());
            prop_assert_eq!((lock.owner(), lock.sequence(), lock.is_free()), (owner, sequence, false));
            prop_assert!(lock.is_mine(owner) && !Lock::FREE.is_mine(owner));
            let later = ClientId { epoch: epoch.wrapping_add(1), ..owner };
            prop_assert!(!lock.is_mine(later));
        }
    }

    #[test]
    fn only_a_fenced_owner_is_dead() {
        let client = ClientId { id: 3, epoch: 8 };
        let line = |state, client| ClientLine {
            client,
            state,
            ..ClientLine::default()
        };
        let lock = Lock::held(client, 1);
        for (state, is_dead) in [
            (ClientState::Live, false),
            (ClientState::Suspected, false),
            (ClientState::Fenced, true),
            (ClientState::Free, true),
        ] {
            assert_eq!(lock.owner_is_dead(&line(state, client)), is_dead, "{state:?}");
        }
        // The number belongs to another process by now.
        assert!(lock.owner_is_dead(&line(ClientState::Live, ClientId { id: 3, epoch: 9 })));
        assert!(!Lock::FREE.owner_is_dead(&line(ClientState::Fenced, client)));
    }
}
