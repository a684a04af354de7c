//! Members, their cores, and clients, in one process.

pub mod copies;
pub mod core;
pub mod load;
pub mod network;
pub mod service;

use drover_testkit::seeds::Seeds;

/// A mistake that a test plants in the cores or in the network, and that the checks must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// Cores count rounds while they execute, so that a barrier waits for nothing.
    RoundsCountForNothing,
    /// The owner does not send what was noted.
    NotedKeysNotSent,
    /// Void items are not deleted.
    DiscardSkipped,
    /// Replies do not wait for the keepers of copies.
    RepliesLeaveEarly,
    /// A copy counts as filled though its keeper has not taken all of it.
    DrainCountsForNothing,
}

/// A seed for what clients do; how threads are interleaved, it does not say.
pub fn fresh_seed() -> u64 {
    let mut seed = 0;
    Seeds::new(0, 1).each(|fresh| seed = fresh);
    println!("seed {seed}");
    seed
}
