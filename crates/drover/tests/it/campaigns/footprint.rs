//! What a process holds according to the kernel: descriptors, mappings, threads, memory.

/// What a process holds according to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    pub fd_count: usize,
    pub map_count: usize,
    /// Number of mappings of shared memory, its own and imported ones.
    pub shared_map_count: usize,
    pub thread_count: usize,
    /// Resident anonymous memory, KiB.
    pub anon_kib: usize,
}

impl Footprint {
    /// Reads the footprint of process `pid`.
    pub fn of(pid: u32) -> Footprint {
        let count = |name: &str| std::fs::read_dir(format!("/proc/{pid}/{name}")).map_or(0, Iterator::count);
        let text = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let maps = text("maps");
        assert!(
            !maps.contains("/dev/shm"),
            "something has a name in /dev/shm:\n{maps}"
        );
        let anon = text("status").lines().find_map(|line| {
            line.strip_prefix("RssAnon:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        });
        Footprint {
            fd_count: count("fd"),
            map_count: maps.lines().count(),
            shared_map_count: maps.lines().filter(|line| line.contains("/memfd:")).count(),
            thread_count: count("task"),
            anon_kib: anon.unwrap_or(0),
        }
    }

    /// Whether this is no more than `before`, apart from a fixed allowance for what the allocator keeps, and from
    /// `items_kib` of memory for items.
    pub fn is_within(&self, before: &Footprint, items_kib: usize) -> bool {
        self.fd_count <= before.fd_count
            && self.thread_count <= before.thread_count
            && self.shared_map_count <= before.shared_map_count
            && self.map_count <= before.map_count + 8
            && self.anon_kib <= before.anon_kib + 4096 + items_kib
    }
}
