//! The integration tests of `drover-rpc`: one program, because linking is what test programs cost most.
#![cfg(not(loom))]

mod bed;
mod fetch;
mod messages;
mod no_allocation;
