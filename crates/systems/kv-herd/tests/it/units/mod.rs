//! HERD's decisions and bytes, piece by piece, as far as they are public.

mod control;
mod plan;
