//! [`BucketLines`]: the addresses of a table's buckets.

use drover_base::{KeyHash, Line};
use drover_mem::{LineAddrs, LineTable};

/// Computes the address of any bucket's cache line, to prefetch it. It consists of the table's base address and
/// [spread](drover_mem::Spread), which stay in registers in a loop over requests. It does not keep the table's memory alive.
#[derive(Clone, Copy, Debug)]
pub struct BucketLines {
    addrs: LineAddrs,
}

impl BucketLines {
    pub(crate) fn new(lines: &LineTable) -> BucketLines {
        BucketLines { addrs: lines.addrs() }
    }

    /// Address of the cache line of the bucket that keys with `hash` use; in a [`StoreTable`](crate::StoreTable), of
    /// the main bucket, without the spare ones of its chain.
    #[inline(always)]
    pub fn of(self, hash: KeyHash) -> Line {
        self.addrs.of_hash(hash.bucket_bits())
    }
}

#[cfg(test)]
mod tests {
    use crate::{CacheTable, StoreTable};
    use drover_base::HashSeed;
    use drover_mem::PageWish;

    #[test]
    fn lines_are_those_of_the_buckets() {
        let cache = CacheTable::private(13, PageWish::Small).expect("memory");
        let store = StoreTable::private(13, PageWish::Small).expect("memory");
        for i in 0..100u32 {
            let hash = HashSeed::new(1, 2).hash(&i.to_le_bytes());
            assert_eq!(cache.bucket_lines().of(hash), cache.bucket(hash).line());
            assert_eq!(store.bucket_lines().of(hash), store.bucket(hash).line());
        }
    }
}
