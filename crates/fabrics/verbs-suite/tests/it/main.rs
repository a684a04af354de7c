//! The suite proves itself: against the reference provider, its mutants, and the wrappers.

mod conformance;
mod faults;
mod model;
mod mutants;
mod wrappers;
