//! The integration tests of `drover-kv-pilaf`: one program, because linking is what test programs cost most.

mod conformance;
mod no_allocation;
mod service;
