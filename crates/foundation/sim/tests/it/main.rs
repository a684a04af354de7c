//! The integration tests of `drover-sim`: one program, because linking is what test programs cost most.

mod step_rule;
