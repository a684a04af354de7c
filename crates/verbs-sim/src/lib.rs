//! The provider `sim`: network cards, links and hosts of a modelled kind, in virtual time.
#![forbid(unsafe_code)]

pub mod profile;
