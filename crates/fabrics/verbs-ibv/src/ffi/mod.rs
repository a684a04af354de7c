//! The binding to libibverbs: only the structures and symbols that we use, named as in its header `infiniband/verbs.h`
//! without the prefix. Public for programs that provide their own library, as our tests do.
//!
//! The library is loaded at run time ([`Library::load`]), so it is not needed to build or to start. Layouts belong to
//! its ABI, fixed since version 1.1, and are asserted at compile time (`layout.rs`, `attributes.rs`).

#![allow(
    missing_docs,
    reason = "fields and numbers are described in infiniband/verbs.h under the same names"
)]

mod attributes;
mod layout;
mod library;
mod objects;

pub use attributes::*;
pub use layout::*;
pub use library::{Library, SONAME};
pub use objects::*;
