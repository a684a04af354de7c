//! The integration tests of `drover-simcluster`: one program, because linking is what test programs cost most.

mod calls;
mod costs;
mod one_sided;
mod pools;
mod threads;
