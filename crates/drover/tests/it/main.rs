//! The integration tests of `drover`: one program, because linking is what test programs cost most.

mod bench;
mod campaigns;
mod capacity;
mod cli;
mod common;
mod devices;
mod doors;
mod figure;
mod from_memcached;
mod gateway;
mod guarded;
mod hash;
mod history;
mod lives;
mod memcached;
mod memory_file;
mod one_sided;
mod operations;
mod packaging;
mod perf;
mod pool;
mod pool_gateway;
mod report;
mod syscalls;
mod tls;
mod users;
