//! The integration tests of `drover-fuzz-targets`: one program, because linking is what test programs cost most.

mod replay;
