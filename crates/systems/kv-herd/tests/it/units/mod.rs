//! HERD's decisions and bytes, piece by piece, as far as they are public.

mod control;
mod hold;
mod layout;
mod look_around;
mod parse;
mod plan;
mod slot;
mod turn;
