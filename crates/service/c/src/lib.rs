//! `libdrover.so`: clients of a drover service for C, and for languages that can call C.
//!
//! The functions are thin over [`Pipeline`](drover_client::Pipeline); `include/drover.h`, which cbindgen makes of this crate, says
//! what a C program needs to know. What its caller must do is under `# Safety` of each function; where it can be checked, it is:
//!
//! | misuse | what happens |
//! |---|---|
//! | a null pointer where one is not allowed, an unknown number | `DROVER_INVALID` |
//! | a client used by another thread than the one that connected it | `DROVER_WRONG_THREAD`; the client stays as it is |
//! | a client used in a child after `fork` | `DROVER_FORKED`: the memory that it shares with the server is the parent's |
//! | a client used after `drover_close`, or closed twice | `DROVER_CLOSED` in builds with debug assertions, else undefined |
//! | an output that points to less memory, a length that is wrong | undefined |
//!
//! *No decisions, no protocol, nothing that Rust programs would miss in `drover-client`.*

mod blocking;
mod client;
mod connect;
mod foreign;
mod outcomes;
mod pipelined;
mod status;
