//! The integration tests of `drover-cluster`: one program, because linking is what test programs cost most.

mod copies;
mod map;
mod ownership;
mod sim;
