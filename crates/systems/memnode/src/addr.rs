//! [`Addr`]: the address of a byte in a pool.

use std::fmt;

/// Bits of an [`Addr`] that are the offset in a region.
pub const OFFSET_BITS: u32 = 48;
/// Most nodes of a pool.
pub const NODES_MAX: usize = 256;

/// Address of a byte in the memory of a pool, as it is stored in pointers. Zero is never an address: the first bytes of
/// a node are its header.
///
/// | bits | field | meaning |
/// |---|---|---|
/// | 56..64 | node | index of the node in the pool |
/// | 48..56 | region | index of the region at the node; so far always 0 |
/// | 0..48 | offset | bytes from the start of the region |
///
/// An address that was read from a pool is a peer's number: [`Nodes`](crate::Nodes) checks it before it posts a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Addr(u64);

impl Addr {
    /// No address.
    pub const NULL: Addr = Addr(0);

    /// The address `offset` bytes into region 0 of `node`.
    ///
    /// # Panics
    /// If `node` is 256 or more, or the offset has more than 48 bits.
    #[inline]
    pub fn new(node: usize, offset: u64) -> Addr {
        assert!(
            node < NODES_MAX && offset >> OFFSET_BITS == 0,
            "offset {offset} of node {node}"
        );
        Addr((node as u64) << 56 | offset)
    }

    /// The address that a pointer of these bits holds, whatever they are.
    #[inline]
    pub const fn from_bits(bits: u64) -> Addr {
        Addr(bits)
    }

    /// The address as it is stored.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether it is [`NULL`](Addr::NULL).
    #[inline]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Index of the node.
    #[inline]
    pub const fn node(self) -> usize {
        (self.0 >> 56) as usize
    }

    /// Index of the region at the node.
    #[inline]
    pub const fn region(self) -> usize {
        (self.0 >> OFFSET_BITS & 0xff) as usize
    }

    /// Bytes from the start of the region.
    #[inline]
    pub const fn offset(self) -> u64 {
        self.0 & ((1 << OFFSET_BITS) - 1)
    }

    /// The address `bytes` further on, in the same region.
    ///
    /// # Panics
    /// If the offset leaves 48 bits.
    #[inline]
    #[allow(
        clippy::should_implement_trait,
        reason = "bytes are added to an address, not addresses"
    )]
    pub fn add(self, bytes: u64) -> Addr {
        let offset = self.offset() + bytes;
        assert!(offset >> OFFSET_BITS == 0, "{bytes} bytes behind {self}");
        Addr(self.0 & !((1 << OFFSET_BITS) - 1) | offset)
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{:#x}", self.node(), self.region(), self.offset())
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_come_back(node in 0usize..256, offset in 0u64..1 << 48) {
            let addr = Addr::new(node, offset);
            prop_assert_eq!((addr.node(), addr.region(), addr.offset()), (node, 0, offset));
            prop_assert_eq!(Addr::from_bits(addr.bits()), addr);
        }

        #[test]
        fn any_bits_can_be_looked_at(bits: u64) {
            let addr = Addr::from_bits(bits);
            prop_assert!(addr.node() < NODES_MAX && addr.offset() >> OFFSET_BITS == 0);
            prop_assert_eq!(addr.is_null(), bits == 0);
        }
    }
}
