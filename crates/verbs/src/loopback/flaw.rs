//! [`Flaw`]: one way each to break a rule. A conformance suite that lets one pass is no suite.

/// A switchable bug of the reference provider.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Flaw {}
