//! Which memory items are in.

use super::show::path_or_none;
use super::{Origin, Row, Setting, pick, row};
use std::path::PathBuf;

/// Arguments about the items' memory.
#[derive(clap::Args, Clone, Default, Debug)]
pub struct MemoryArgs {
    /// Require reserved huge pages; too few are an error
    #[arg(short = 'L', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_largepages: Option<bool>,
    /// Keep items in this file, on tmpfs or hugetlbfs for speed. After a clean stop (SIGTERM, SIGINT, SIGUSR1) the next
    /// start takes them over; PATH.meta describes the file in between
    #[arg(short = 'e', long, value_name = "PATH")]
    pub memory_file: Option<PathBuf>,
    /// Lock all memory to prevent swapping
    #[arg(short = 'k', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub lock_memory: Option<bool>,
}

/// The items' memory.
#[derive(Clone, Debug)]
pub struct MemorySettings {
    /// Whether reserved huge pages are required.
    pub large_pages: Setting<bool>,
    /// Path of the memory file, whose items outlive the process after a clean stop; `None`: no memory file.
    pub memory_file: Setting<Option<PathBuf>>,
    /// Whether all memory of the process is locked, to prevent swapping.
    pub lock_memory: Setting<bool>,
}

impl MemorySettings {
    /// Merges command line, file and defaults, in this order.
    pub(super) fn fill(typed: MemoryArgs, file: MemoryArgs) -> MemorySettings {
        MemorySettings {
            large_pages: pick(
                typed.enable_largepages,
                file.enable_largepages,
                false,
                Origin::Default,
            ),
            memory_file: Setting::optional(typed.memory_file, file.memory_file),
            lock_memory: pick(typed.lock_memory, file.lock_memory, false, Origin::Default),
        }
    }

    /// Rows of `drover config`.
    pub(super) fn rows(&self) -> [Row; 3] {
        [
            row("enable-largepages", &self.large_pages, bool::to_string),
            row("memory-file", &self.memory_file, path_or_none),
            row("lock-memory", &self.lock_memory, bool::to_string),
        ]
    }
}
