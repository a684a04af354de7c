//! Overflow: chains of blocks for keys without a slot near their home.

use super::{Content, HopscotchTable, TableFull};
use crate::TableMemory;
use drover_base::KeyHash;

/// Number of slots of an overflow block, which one READ fetches. *(our choice: chains longer than a block are rare
/// below a load of 0.9)*
pub const BLOCK_SLOTS: usize = 2;

/// Blocks outside all chains, numbered from 1.
#[derive(Debug)]
pub(super) struct Blocks {
    free: Vec<u32>,
}

impl Blocks {
    pub(super) fn new(count: u32) -> Blocks {
        Blocks {
            free: (1..=count).rev().collect(),
        }
    }
}

impl<M: TableMemory> HopscotchTable<M> {
    /// First slots of the blocks of `home`'s chain, in order.
    pub(super) fn chain(&self, home: u64) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut at = self.options.geometry.first(home);
        while let Some(first) = self.options.block_slot(self.slot(at).link) {
            chain.push(first);
            at = first;
        }
        chain
    }

    pub(super) fn find_in_overflow(
        &self,
        home: u64,
        wanted: impl Fn(&Option<KeyHash>) -> bool,
    ) -> Option<usize> {
        let mut at = self.options.geometry.first(home);
        while let Some(first) = self.options.block_slot(self.slot(at).link) {
            let mut slots = first..first + BLOCK_SLOTS;
            if let Some(found) = slots.find(|slot| wanted(&self.keys[*slot])) {
                return Some(found);
            }
            at = first;
        }
        None
    }

    /// Puts a new key of `home` into a block of its chain, or into a new block in front, which is linked after the key
    /// is in it.
    pub(super) fn put_into_overflow(
        &mut self,
        home: u64,
        hash: KeyHash,
        content: Content<'_>,
    ) -> Result<(), TableFull> {
        match self.find_in_overflow(home, Option::is_none) {
            Some(slot) => self.fill(slot, hash, content),
            None => {
                let block = self.blocks.free.pop().ok_or(TableFull)?;
                let slot = self.options.block_slot(block).expect("a block of ours");
                let head = self.options.geometry.first(home);
                self.set_link(slot, self.slot(head).link);
                self.fill(slot, hash, content);
                self.set_link(head, block);
            }
        }
        self.overflow_len += 1;
        Ok(())
    }

    /// Removes empty blocks from `home`'s chain. A reader of such a block finds no key of its own in it, or one of
    /// another home, and has its miss confirmed: a change of a chain counts as a move.
    pub(super) fn give_back(&mut self, home: u64) {
        let mut at = self.options.geometry.first(home);
        loop {
            let block = self.slot(at).link;
            let Some(first) = self.options.block_slot(block) else {
                return;
            };
            if self.keys[first..first + BLOCK_SLOTS].iter().all(Option::is_none) {
                self.header.begin_moves(&mut self.memory);
                self.set_link(at, self.slot(first).link);
                self.set_link(first, 0);
                self.header.end_moves(&mut self.memory);
                self.blocks.free.push(block);
            } else {
                at = first;
            }
        }
    }

    /// After slot `free` of the table became free: moves a key of one of its homes back from overflow.
    pub(super) fn bring_back(&mut self, free: usize) {
        let geometry = self.options.geometry;
        let last = (free / geometry.stride).min(self.options.home_count - 1) as u64;
        for home in geometry.first_home_of(free)..=last {
            if let Some(slot) = self.find_in_overflow(home, Option::is_some) {
                self.move_slot(slot, free);
                self.overflow_len -= 1;
                return self.give_back(home);
            }
        }
    }
}
