//! Cost of operations in cache lines, as the simulator prices it: the lines touched, their number, and whether the two
//! earlier passes prefetched them.

use crate::common::{FIFO, hash_at, partition};
use drover_base::{Cpu, Line, Ns};
use drover_store::{Key, Mode, Partition, PutOutcome};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Records touched and prefetched lines.
#[derive(Default)]
struct Notes {
    touched: RefCell<Vec<usize>>,
    prefetched: RefCell<BTreeSet<usize>>,
}

impl Cpu for Notes {
    fn now(&self) -> Ns {
        Ns::ZERO
    }
    fn refresh(&self) -> Ns {
        Ns::ZERO
    }
    fn touch(&self, line: Line) {
        self.touched.borrow_mut().push(line.0 / 64);
    }
    fn prefetch(&self, line: Line) {
        self.prefetched.borrow_mut().insert(line.0 / 64);
    }
    fn random(&self) -> u64 {
        0
    }
}

impl Notes {
    /// Distinct lines touched since the last call.
    fn lines(&self) -> BTreeSet<usize> {
        self.touched.borrow_mut().drain(..).collect()
    }
}

fn put(p: &mut Partition, cpu: &Notes, key: Key<'_>, value: &[u8]) {
    assert!(matches!(p.put(cpu, key, value, 0, 0), PutOutcome::Stored { .. }));
}

#[test]
fn a_get_touches_bucket_and_item_and_both_were_asked_for() {
    for mode in [FIFO, Mode::Store, Mode::Lru] {
        let cpu = Notes::default();
        let mut p = partition(mode, 1 << 16, 64);
        let keys: Vec<_> = (0..40u64)
            .map(|k| (hash_at(k, k as u16 + 1, k), k.to_le_bytes()))
            .collect();
        for (hash, bytes) in &keys {
            put(&mut p, &cpu, Key { hash: *hash, bytes }, &[1; 56]); // 72 bytes: two lines, or three at worst.
        }
        for (hash, bytes) in &keys {
            cpu.lines();
            cpu.prefetched.take();
            p.prefetch_bucket(&cpu, *hash, false);
            assert!(p.prefetch_item(&cpu, *hash).is_candidate());
            assert_eq!(cpu.lines().len(), 1, "the bucket is looked at");
            let got = p.get(&cpu, Key { hash: *hash, bytes }, 0).is_some();
            let touched = cpu.lines();
            assert!(got && (3..=4).contains(&touched.len()), "{touched:?}");
            let surprises: Vec<_> = touched.difference(&cpu.prefetched.borrow()).copied().collect();
            assert!(
                surprises.len() <= usize::from(touched.len() == 4),
                "{mode:?}: {surprises:?}"
            );
        }
    }
}

#[test]
fn one_line_items_cost_one_line() {
    // A hash for a key, or a key of the same 16 bytes.
    for key_len in [0, 16] {
        one_line_each(key_len);
    }
}

fn one_line_each(key_len: usize) {
    let cpu = Notes::default();
    let mut p = partition(FIFO, 1 << 16, 64);
    let bytes: Vec<[u8; 16]> = (0..2000u128).map(u128::to_le_bytes).collect();
    let key = |k: u64| Key {
        hash: hash_at(k, 1, k),
        bytes: &bytes[k as usize][..key_len],
    };
    for k in 0..40 {
        cpu.lines();
        put(&mut p, &cpu, key(k), &[1; 40]);
        assert_eq!(cpu.lines().len(), 2, "bucket and the tail of the log");
    }
    for k in 0..40 {
        assert!(p.get(&cpu, key(k), 0).is_some());
        assert_eq!(cpu.lines().len(), 2, "bucket and item");
        put(&mut p, &cpu, key(k), &[2; 40]);
        assert_eq!(cpu.lines().len(), 2, "bucket and item, in place");
        assert!(p.get(&cpu, key(k + 1000), 0).is_none());
        assert_eq!(
            cpu.lines().len(),
            1 + usize::from((k + 1000) % 64 < 40),
            "a miss, perhaps a stranger's item"
        );
    }
}
