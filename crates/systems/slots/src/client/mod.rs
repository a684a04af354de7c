//! The client's end: builds requests, and keeps a record of what is in flight.

mod conflict;
mod due;
pub mod request;
mod routes;
mod rto;
mod tally;
mod ticker;
mod waiting;
mod window;

pub use conflict::Conflicts;
pub use due::{Due, outcome_of_update};
pub use routes::Routes;
pub use rto::{RETRIES_MAX, Rto};
pub use tally::Tally;
pub use ticker::{TICK, Ticker};
pub use waiting::{NEVER_SENT, WaitQueue, Waiting};
pub use window::{Before, Claim, Slot, SlotPhase, Window, answered};
