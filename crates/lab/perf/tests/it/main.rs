//! The integration tests of `drover-perf`: one program, because linking is what test programs cost most.

mod no_allocation;
mod shm;
mod sim;
