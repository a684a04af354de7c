//! Holds a server that speaks memcached's protocol against memcached, over sockets and nothing else.
//!
//! [`differ`] sends the same random commands to two servers and compares what they answer. It is no unit test of the
//! parser, and knows nothing of drover: `cargo xtask differ` starts the servers, and a run against memcached twice
//! proves it. [`abuse`] does to one server what nobody should, and looks at its memory and at others' requests
//! meanwhile (`cargo xtask abuse`). [`lie`] changes answers on their way, which real clients' rounds must notice.
//!
//! ```
//! use drover_versus::differ::{Relation, compare};
//!
//! let mut pairs = Relation::default();
//! // The numbers that stand for versions differ, but the same ones do on both sides.
//! assert_eq!(compare(b"VALUE k 0 1 7\r\nx\r\nEND\r\n", b"VALUE k 0 1 91\r\nx\r\nEND\r\n", &mut pairs), None);
//! assert!(compare(b"VALUE k 0 1 8\r\nx\r\nEND\r\n", b"VALUE k 0 1 91\r\nx\r\nEND\r\n", &mut pairs).is_some());
//! ```
#![forbid(unsafe_code)]

pub mod abuse;
pub mod differ;
pub mod lie;
