//! The integration tests of `drover-cluster`: one program, because linking is what test programs cost most.

mod map;
mod ownership;
mod sim;
