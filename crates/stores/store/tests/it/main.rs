//! The integration tests of `drover-store`: one program, because linking is what test programs cost most.

mod cache_mode;
mod common;
mod cost;
mod crew;
mod defects;
mod elastic;
mod evicted;
mod extras;
mod hard_loads;
mod lru_mode;
mod model;
mod store_mode;
mod warm;
