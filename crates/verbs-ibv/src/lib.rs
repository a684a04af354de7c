//! Verbs over libibverbs: cards that speak InfiniBand or RoCE, and the kernel's software RoCE.

pub mod ffi;
