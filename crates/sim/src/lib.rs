//! A discrete-event simulation of a room of machines: virtual time, cores, servers with queues, seeds.
//!
//! It knows neither verbs nor keys and values; what a network card does is `drover-verbs-sim`'s.
#![forbid(unsafe_code)]
