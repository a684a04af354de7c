//! The integration tests of `drover-memcached`: one program, because linking is what test programs cost most.

mod bed;
mod cores;
mod handover;
mod history;
mod limits;
mod login;
mod members;
mod model;
mod no_allocation;
mod pieces;
mod replicas;
mod rings;
mod transcripts;
mod watch;
