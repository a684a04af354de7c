//! The integration tests of `drover-member`: members in one process, whose cores are threads with real partitions.

mod bed;
mod changes;
mod losses;
mod measure;
mod mutants;
mod replicas;
