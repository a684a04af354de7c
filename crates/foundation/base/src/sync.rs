//! Atomics and locks that a model checker can replace: `core` normally, loom under `--cfg loom`, shuttle under `--cfg shuttle`.
//! Pure ring and seqlock logic imports from here; memory shared with devices or other processes (`Region` of
//! `drover-mem`) always uses the hardware atomics of `core`.

#[cfg(loom)]
pub use loom::{
    hint,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread,
};

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::{
    hint,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread,
};

#[cfg(not(any(loom, shuttle)))]
pub use std::{
    hint,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread,
};
