//! The integration tests of `drover-links`: one program, because linking is what test programs cost most.

mod bed;
mod control;
mod loss;
mod no_allocation;
mod order;
mod pressure;
mod strangers;
