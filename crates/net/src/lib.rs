//! Sockets of one core: listeners, connections and their buffers. What is said on a connection is a [`Talk`]: a
//! protocol without I/O, which is shown what came and adds what goes.
//!
//! - [`Talk`] is one connection's side of a protocol, [`Advance`] what it did with what came.
//! - [`Output`] is what waits to be written; it may have holes, for replies that another core still owes.
//! - [`Pool`] lends memory to connections while they need some: one that waits for its peer holds none.
#![forbid(unsafe_code)]

mod output;
mod pool;
mod talk;

pub use output::{Hole, Output};
pub use pool::Pool;
pub use talk::{Advance, Talk, Wants};
