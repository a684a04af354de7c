//! The integration tests of `drover-bench`: one program, because linking is what test programs cost most.

mod driver;
mod echo;
mod rivals;
mod session;
