//! The integration tests of `drover-slots`: one program, because linking is what test programs cost most.

mod hold;
mod layout;
mod look_around;
mod parse;
mod slot;
mod turn;
