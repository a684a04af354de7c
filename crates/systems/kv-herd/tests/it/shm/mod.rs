//! HERD over shared memory, server and clients in one thread, which alone decides who runs when.

mod datagram_windows;
mod forged_sender;
pub mod pair;
mod program_order;
mod short_slots;
mod wakes;
