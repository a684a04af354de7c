//! Masked CAS: its operands, and where a list keeps them.

use crate::{Payload, RemoteAddr, SendList, SendOp, SendWr};
use drover_mem::Region;
use std::sync::atomic::Ordering;

/// Bytes of the operands of one request in a list's arena.
const BYTES: usize = 32;

/// Operands of a masked CAS: compares and replaces only those bits of a word that a mask names. The old value comes back
/// whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MaskedSwap {
    /// Value that the word must have in the bits of `compare_mask` to be changed.
    pub compare: u64,
    /// Bits that are compared. None: the word is changed whatever it is.
    pub compare_mask: u64,
    /// Value that the bits of `swap_mask` get.
    pub swap: u64,
    /// Bits that are replaced.
    pub swap_mask: u64,
}

impl MaskedSwap {
    /// The word after the request, if it was `old` before: `old` itself if the comparison fails.
    #[inline]
    pub fn of(&self, old: u64) -> u64 {
        match (old ^ self.compare) & self.compare_mask {
            0 => old & !self.swap_mask | self.swap & self.swap_mask,
            _ => old,
        }
    }

    /// Executes the request on the word at `offset` of `region`, a multiple of 8, with atomic operations of this core; returns
    /// the old value. For fabrics that execute requests so.
    ///
    /// # Panics
    /// If the word is not inside the region or not aligned, or if the region is read-only.
    pub fn execute(&self, region: &Region, offset: usize) -> u64 {
        let mut old = region.load_u64(offset, Ordering::Acquire);
        loop {
            // Also where nothing changes: then it orders memory as a CAS does.
            match region.compare_swap_u64(offset, old, self.of(old)) {
                seen if seen == old => return old,
                seen => old = seen,
            }
        }
    }

    fn words(&self) -> [u64; 4] {
        [self.compare, self.compare_mask, self.swap, self.swap_mask]
    }

    fn of_words([compare, compare_mask, swap, swap_mask]: [u64; 4]) -> MaskedSwap {
        MaskedSwap {
            compare,
            compare_mask,
            swap,
            swap_mask,
        }
    }
}

/// Place of a [`MaskedSwap`] in the arena of a list: four words would make every request longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaskedOperands {
    start: u32,
}

impl SendList {
    /// Copies the operands of a masked CAS into the list's arena; returns their place, to be used in a request of this list.
    pub fn masked_swap(&mut self, swap: &MaskedSwap) -> MaskedOperands {
        let (payload, space) = self.inline_space(BYTES);
        for (to, word) in space.chunks_exact_mut(8).zip(swap.words()) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        match payload {
            Payload::Inline { start, .. } => MaskedOperands { start },
            _ => unreachable!("space in the arena is an inline payload"),
        }
    }

    /// The operands that [`masked_swap`](SendList::masked_swap) of this list stored.
    ///
    /// # Panics
    /// If the place is not inside the arena.
    pub fn masked_operands(&self, operands: MaskedOperands) -> MaskedSwap {
        let bytes = self.inline_bytes(operands.start, BYTES as u32);
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
        }
        MaskedSwap::of_words(words)
    }

    /// Copies `op` of the list `from` into a request for this one: operands that are in the arena of `from` come along.
    pub fn copy_op(&mut self, from: &SendList, op: SendOp) -> SendOp {
        match op {
            SendOp::MaskedCompareSwap { remote, operands } => SendOp::MaskedCompareSwap {
                remote,
                operands: self.masked_swap(&from.masked_operands(operands)),
            },
            other => other,
        }
    }
}

impl SendWr {
    /// A masked CAS of the word at `remote`, unsignaled, with operands from [`SendList::masked_swap`] of its list. The 8
    /// bytes of `into` receive the old value of the whole word, whether it was changed or not. Only fabrics with
    /// [`Support::masked_atomics`](crate::Support::masked_atomics) have it.
    #[inline]
    pub fn masked_compare_swap(
        remote: RemoteAddr,
        operands: MaskedOperands,
        into: impl Into<Payload>,
    ) -> SendWr {
        SendWr::new(SendOp::MaskedCompareSwap { remote, operands }, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_masked_bits_are_compared_and_replaced() {
        let swap = MaskedSwap {
            compare: 0xff00_1234,
            compare_mask: 0xffff,
            swap: 0xaaaa_bbbb,
            swap_mask: 0xffff_0000,
        };
        assert_eq!(swap.of(0x5678_1234), 0xaaaa_1234);
        assert_eq!(swap.of(0x5678_1235), 0x5678_1235);
        let anyway = MaskedSwap {
            compare_mask: 0,
            ..swap
        };
        assert_eq!(anyway.of(0x1_5678_1235), 0x1_aaaa_1235);
        assert_eq!(MaskedSwap::default().of(7), 7);
    }

    #[test]
    fn operands_are_kept_in_the_arena_and_do_not_lengthen_requests() {
        let mut list = SendList::default();
        list.inline(b"before");
        let words = [1, 2, 3, u64::MAX];
        let operands = list.masked_swap(&MaskedSwap::of_words(words));
        let mut other = SendList::default();
        let op = SendOp::MaskedCompareSwap {
            remote: RemoteAddr::default(),
            operands,
        };
        let SendOp::MaskedCompareSwap { operands: copied, .. } = other.copy_op(&list, op) else {
            panic!("the copy is of another kind");
        };
        list.inline(b"behind");
        assert_eq!(list.masked_operands(operands).words(), words);
        assert_eq!(other.masked_operands(copied).words(), words);
        assert_eq!(size_of::<SendOp>(), 40, "as long as a CAS");
    }
}
