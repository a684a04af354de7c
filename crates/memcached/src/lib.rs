//! memcached's text and meta protocol over a partition of the store: parsing, execution and replies, without I/O.
#![forbid(unsafe_code)]
