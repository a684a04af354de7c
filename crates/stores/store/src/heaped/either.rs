//! [`EitherHeaped`]: store mode or LRU mode. What partitions' users inline is the cache of logs; this is out of line.

use super::Heaped;
use crate::item::{ItemRef, Key};
use crate::partition::{Hint, PutOutcome};
use crate::sharing::Sharing;
use drover_base::{Condition, Cpu, KeyHash};
use drover_index::{BucketLines, LruTable, StoreTable};

/// Items in a heap, in one of the two modes.
#[derive(Debug)]
pub(crate) enum EitherHeaped<S> {
    Store(Heaped<S, StoreTable>),
    Lru(Heaped<S, LruTable>),
}

/// Calls the same function in either mode.
macro_rules! either {
    ($inner:expr, $mode:ident => $call:expr) => {
        match $inner {
            EitherHeaped::Store($mode) => $call,
            EitherHeaped::Lru($mode) => $call,
        }
    };
}

impl<S: Sharing> EitherHeaped<S> {
    #[inline(never)]
    pub(crate) fn bucket_lines(&self) -> BucketLines {
        either!(self, mode => mode.bucket_lines())
    }

    #[inline(never)]
    pub(crate) fn prefetch_bucket<C: Cpu>(&self, cpu: &C, hash: KeyHash) {
        cpu.prefetch(either!(self, mode => mode.bucket_lines().of(hash)));
    }

    #[inline(never)]
    pub(crate) fn prefetch_item<C: Cpu>(&self, cpu: &C, hash: KeyHash) -> Hint {
        either!(self, mode => mode.prefetch_item(cpu, hash))
    }

    /// Offset of the key's item. The key in two arguments, so that the call costs its caller little.
    #[inline(never)]
    pub(crate) fn get_offset<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        bytes: &[u8],
        now_s: u32,
        hint: Hint,
    ) -> Option<u64> {
        either!(self, mode => mode.get_offset(cpu, hash, bytes, now_s, hint))
    }

    #[inline]
    pub(crate) fn item(&self, offset: u64) -> ItemRef<'_> {
        ItemRef::new(either!(self, mode => mode.memory()).place(offset))
    }

    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "one call, all of it the PUT")]
    pub(crate) fn put<C: Cpu>(
        &mut self,
        cpu: &C,
        hash: KeyHash,
        bytes: &[u8],
        value: &[u8],
        expire_s: u32,
        now_s: u32,
        condition: Condition,
    ) -> PutOutcome {
        let key = Key { hash, bytes };
        either!(self, mode => mode.put(cpu, key, value, expire_s, now_s, condition))
    }
}
