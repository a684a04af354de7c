//! The integration tests of `drover-net`: one program, because linking is what test programs cost most.

mod common;
mod descriptors;
mod limits;
mod listeners;
mod routes;
mod sleeping;
mod talking;
