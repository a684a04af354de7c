//! The integration tests of `drover-memnode`: one program, because linking is what test programs cost most.

mod allocation;
mod entering;
mod epochs;
mod given_back;
mod leases;
mod no_allocation;
mod random_tables;
mod recovery;

use drover_testkit::beds::pool as bed;
