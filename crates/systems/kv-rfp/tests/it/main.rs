//! The integration tests of `drover-kv-rfp`: one program, because linking is what test programs cost most.

mod conformance;
mod hostile;
mod map;
mod no_allocation;
mod raw;
mod threads;
mod transfer;
