//! The integration tests of `drover-index`: one program, because linking is what test programs cost most.

mod common;
mod cuckoo;
mod cuckoo_costs;
mod hopscotch;
