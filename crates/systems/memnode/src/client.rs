//! [`ClientId`]: names a compute process among those of a pool.

use std::fmt;

/// Identity of a compute process in a pool. The number may be given to another process later, the pair is not: the
/// epoch of the pool is higher by then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ClientId {
    /// Number, from 1; 0 is nobody.
    pub id: u16,
    /// Lower 16 bits of the epoch of the pool's first node when the process was let in.
    pub epoch: u16,
}

impl ClientId {
    /// Nobody.
    pub const NONE: ClientId = ClientId { id: 0, epoch: 0 };

    /// As 32 bits: number above epoch.
    #[inline]
    pub const fn bits(self) -> u32 {
        (self.id as u32) << 16 | self.epoch as u32
    }

    /// From 32 bits, whatever they are.
    #[inline]
    pub const fn from_bits(bits: u32) -> ClientId {
        ClientId {
            id: (bits >> 16) as u16,
            epoch: bits as u16,
        }
    }

    /// Whether it is nobody.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.id == 0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.id, self.epoch)
    }
}
