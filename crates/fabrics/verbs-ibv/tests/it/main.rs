//! The integration tests of `drover-verbs-ibv`: one program, because linking is what test programs cost most.

mod conformance;
mod counters;
mod domains;
mod no_allocation;
mod ownership;
mod survey;
mod texts;
mod watch;
