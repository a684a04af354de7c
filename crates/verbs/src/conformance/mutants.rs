//! [`MUTANTS`]: which rule catches which flaw of the reference provider.

use crate::loopback::Flaw;

/// A broken provider and the rules that must notice.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// What is broken.
    pub flaw: Flaw,
    /// Every one of these rules fails.
    pub caught_by: &'static [&'static str],
}

/// All mutants.
pub const MUTANTS: &[Mutant] = &[];
