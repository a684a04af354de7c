//! Compares a server that speaks memcached's protocol with memcached, through sockets only.
//!
//! [`differ`] sends the same random commands to two servers and compares their answers. It contains no code of drover's
//! server: `cargo xtask differ` starts the servers, and a run with memcached as both must find no difference. [`abuse`]
//! misuses one server and meanwhile watches its memory and other clients' requests (`cargo xtask abuse`). [`lie`]
//! changes answers in transit; the tests of real clients must notice.
//!
//! ```
//! use drover_versus::differ::{Relation, compare};
//!
//! let mut pairs = Relation::default();
//! // Versions differ, but correspond one to one.
//! assert_eq!(compare(b"VALUE k 0 1 7\r\nx\r\nEND\r\n", b"VALUE k 0 1 91\r\nx\r\nEND\r\n", &mut pairs), None);
//! assert!(compare(b"VALUE k 0 1 8\r\nx\r\nEND\r\n", b"VALUE k 0 1 91\r\nx\r\nEND\r\n", &mut pairs).is_some());
//! ```
#![forbid(unsafe_code)]

pub mod abuse;
pub mod differ;
pub mod lie;
