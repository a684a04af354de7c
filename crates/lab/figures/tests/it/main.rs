//! The integration tests of `drover-figures`: one program, because linking is what test programs cost most.

mod ablations;
mod emulations;
mod herd;
mod points;
mod rfp;
mod simulated;
mod smart;
mod smart_ht;
