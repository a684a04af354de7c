//! The integration tests of `drover-verbs-sim`: one program, because linking is what test programs cost most.

mod conformance;
mod identical;
mod model;
