//! Services of several members on one machine, each at an address of its own on loopback.

mod bed;
mod changes;
mod commands;
mod encrypted;
mod outages;
mod rights;
mod starts;
mod watching;
