//! The Python package `drover-kv`: what Python cannot do itself.
//!
//! [`Sessions`](blocking::Sessions) are what `drover_kv.Client` uses, [`Calls`](asynchronous::Calls) what `drover_kv.AsyncClient`
//! uses. Both take and give bytes; keys that are text, values that are objects, and everything that is like pymemcache is in the
//! Python files beside (`drover_kv/`). *No protocol, no decisions.*

#![forbid(unsafe_code)]

mod asynchronous;
mod blocking;
mod errors;
mod op;
mod options;

/// Names of the module `drover_kv._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::asynchronous::Calls;
    #[pymodule_export]
    use super::blocking::Sessions;

    /// Version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
