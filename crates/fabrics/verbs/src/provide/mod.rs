//! Code that providers share: checks of options, tables of keys, and names for objects within one process.
//!
//! Protocols do not use this module.

mod checks;
mod keys;
mod names;
mod no_shared_queue;

pub use crate::card::{NoDeviceMemory, check_device_copy, check_device_memory};
pub use checks::{Want, check_domain, check_limit, check_queue_pair, check_registration, sge_within};
pub use keys::{Keys, KnownKeys};
pub use names::{Name, Names, kind_code, kind_of};
pub use no_shared_queue::NoSharedQueue;
