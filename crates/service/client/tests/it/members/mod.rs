//! Clients of a service of several members: HERD services in this process over shared memory, whose shards the tests give away.

mod bed;
mod follows;
mod histories;
mod losses;
mod windows;
