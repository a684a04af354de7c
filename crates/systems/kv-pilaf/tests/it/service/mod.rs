//! Servers and clients of Pilaf in one thread: what the suite of all systems does not ask.

mod batches;
mod bed;
mod growth;
mod hostile;
mod limits;
mod raw;
mod restart;
mod secret;
mod shards;
