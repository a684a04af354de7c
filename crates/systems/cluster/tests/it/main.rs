//! The integration tests of `drover-cluster`: one program, because linking is what test programs cost most.

mod copies;
mod drafts;
mod map;
mod ownership;
mod sim;
