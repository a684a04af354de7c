//! What a process holds according to the kernel: descriptors, mappings, threads, memory.

/// What a process holds according to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    pub fd_count: usize,
    /// Number of mappings. Advice about pages divides the memory for items as it fills: adjacent private ones count once.
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
            map_count: mappings(&maps),
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

/// Number of mappings in the text of `maps`.
fn mappings(maps: &str) -> usize {
    // Range, permissions, and what it is: nothing, for private memory without a name.
    let fields = |line: &'_ str| -> Option<[String; 3]> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (from, to) = words.first()?.split_once('-')?;
        let kind = format!("{} {}", words.get(1)?, words.get(5).unwrap_or(&""));
        Some([from.to_owned(), to.to_owned(), kind])
    };
    let all: Vec<[String; 3]> = maps.lines().filter_map(fields).collect();
    let is_divided =
        |pair: &&[[String; 3]]| pair[0][1] == pair[1][0] && pair[0][2] == pair[1][2] && pair[0][2] == "rw-p ";
    all.len() - all.windows(2).filter(is_divided).count()
}

#[test]
fn divided_memory_is_one_mapping() {
    let maps = "1000-2000 rw-p 00000000 00:00 0\n2000-3000 rw-p 00000000 00:00 0\n4000-5000 rw-p 00000000 00:00 0\n\
                5000-6000 rw-s 00000000 00:01 7 /memfd:x\n6000-7000 rw-s 00000000 00:01 7 /memfd:x\n";
    assert_eq!(mappings(maps), 4);
}
