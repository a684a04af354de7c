//! The client's end: builds requests, and keeps a record of what is in flight.

mod conflict;
pub mod request;
mod rto;
mod tally;
mod ticker;
mod window;

pub use conflict::Conflicts;
pub use rto::{RETRIES_MAX, Rto};
pub use tally::Tally;
pub use ticker::{TICK, Ticker};
pub use window::{Before, Claim, Slot, SlotPhase, Window};
