//! The integration tests of `drover-rt`: one program, because linking is what test programs cost most.

mod bed;
mod run_loop;
mod task;
mod tasks;
