//! Integration tests of the waiting clients.

mod calls;
mod systems;
