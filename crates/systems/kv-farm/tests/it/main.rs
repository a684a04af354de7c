//! The integration tests of `drover-kv-farm`: one program, because linking is what test programs cost most.

mod conformance;
mod hostile;
mod no_allocation;
mod raw;
mod shards;
