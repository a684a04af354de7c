//! Integration tests of the waiting clients.

mod calls;
mod members;
mod systems;
