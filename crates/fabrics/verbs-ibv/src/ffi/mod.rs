//! The binding to libibverbs: the structures and symbols that we use and no more, named as in its header
//! `infiniband/verbs.h` without the prefix. Public for programs that bring a library of their own, as our tests do.
//!
//! The library is loaded at run time ([`Library::load`]), so nothing of it is needed to build or to start. Layouts are
//! facts of its ABI, fixed since version 1.1, and asserted when we are compiled (`layout.rs`).

#![allow(
    missing_docs,
    reason = "fields and numbers are described in infiniband/verbs.h under the same names"
)]

mod layout;
mod library;
mod objects;

pub use layout::*;
pub use library::{Library, SONAME};
pub use objects::*;
