//! The integration tests of `drover-verbs-shm`: one program, because linking is what test programs cost most.

mod common;
mod conformance;
mod domains;
mod faulty;
mod fenced;
mod files;
mod hostile;
mod killed;
mod lifetimes;
mod one_context;
mod short_lists;
mod sleeping;
