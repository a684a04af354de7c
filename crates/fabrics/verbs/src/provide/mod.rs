//! What providers have in common: the checks every one of them makes, tables of keys, and names for what lives in
//! one process.
//!
//! Protocols need nothing from here.

mod checks;
mod keys;
mod names;

pub use checks::{Want, check_limit, check_queue_pair, check_registration, sge_within};
pub use keys::Keys;
pub use names::{Name, Names, kind_code, kind_of};
