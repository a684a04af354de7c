//! The waiting clients.

mod calls;
mod systems;
