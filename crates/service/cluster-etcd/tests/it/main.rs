//! The registry against etcd itself, which each test starts for itself, with data in a folder of its own.
//!
//! Where no etcd is installed they say so and pass, except in CI, where that is a failure.

mod agents;
mod etcd;
mod faults;
mod promises;
mod settings;
mod tls;
