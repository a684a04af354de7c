//! The integration tests of `drover-rt`: one program, because linking is what test programs cost most.

mod acceptor;
mod common;
mod control_channel;
mod control_frames;
mod out_of_descriptors;
mod run_loop;
mod tasks;
