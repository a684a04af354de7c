//! Which memory items are in.

use super::offered::Feature::MemoryFile;
use super::{flags, path, value};
use std::path::PathBuf;

flags! {
    /// Arguments about the items' memory.
    #[command(next_help_heading = "Pages and files")]
    struct MemoryArgs;
    /// The items' memory.
    struct MemorySettings();

    /// Require reserved huge pages; too few are an error
    #[switch(long = "enable-largepages", short = 'L')]
    large_pages: bool = value(false);

    /// Keep items in this file, on tmpfs or hugetlbfs for speed. After a clean stop (SIGTERM, SIGINT, SIGUSR1) the next
    /// start takes them over; PATH.meta describes the file in between
    #[arg(long = "memory-file", short = 'e', value_name = "PATH")]
    memory_file: PathBuf as Option<PathBuf> = path().needs(MemoryFile);

    /// Lock all memory to prevent swapping
    #[switch(long = "lock-memory", short = 'k')]
    lock_memory: bool = value(false);

    /// Let a crash leave a core file, of any size that the limits of the process allow
    #[switch(long = "enable-coredumps", short = 'r')]
    core_dumps: bool = value(false);
}
