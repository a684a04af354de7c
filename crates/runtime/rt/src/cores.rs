//! Lists the cores of the machine, and pins threads to them.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::path::Path;

/// A logical core that the caller of [`cores`] may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Core {
    /// Number of the logical core: N of `/sys/devices/system/cpu/cpuN`, and the argument of [`pin`].
    pub index: usize,
    /// Number of its CPU socket; 0 if the system does not report it.
    pub package: usize,
    /// Number of its physical core, unique within the socket; `index` if the system does not report it.
    pub physical: usize,
    /// Rank among the usable logical cores of its physical core: 0 for the first, 1 for the next SMT sibling, ...
    pub sibling_rank: usize,
}

/// Lists the logical cores that the calling thread may use (only one, if it is pinned), in the order in which to use
/// them: one per physical core first, then SMT siblings; among equals by socket, then by number. If the system reports
/// no topology, every logical core counts as a physical one.
///
/// # Errors
/// The affinity of the calling thread cannot be read.
pub fn cores() -> io::Result<Vec<Core>> {
    let allowed = sched_getaffinity(None)?;
    let topology = Path::new("/sys/devices/system/cpu");
    let all = (0..CpuSet::MAX_CPU).filter(|&index| allowed.is_set(index));
    Ok(rank(all.map(|index| place(topology, index)).collect()))
}

/// Restricts the calling thread to the logical core with [`Core::index`] `index`.
///
/// # Errors
/// There is no such core, or this process may not use it.
pub fn pin(index: usize) -> io::Result<()> {
    if index >= CpuSet::MAX_CPU {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("there is no core {index}"),
        ));
    }
    let mut set = CpuSet::new();
    set.set(index);
    Ok(sched_setaffinity(None, &set)?)
}

fn place(topology: &Path, index: usize) -> Core {
    let read = |name: &str| {
        let file = topology.join(format!("cpu{index}/topology/{name}"));
        std::fs::read_to_string(file)
            .ok()
            .and_then(|text| text.trim().parse().ok())
    };
    Core {
        index,
        package: read("physical_package_id").unwrap_or(0),
        physical: read("core_id").unwrap_or(index),
        sibling_rank: 0,
    }
}

/// Numbers the siblings and sorts the cores.
fn rank(mut cores: Vec<Core>) -> Vec<Core> {
    for i in 0..cores.len() {
        let same = |c: &&Core| (c.package, c.physical) == (cores[i].package, cores[i].physical);
        cores[i].sibling_rank = cores[..i].iter().filter(same).count();
    }
    cores.sort_by_key(|core| (core.sibling_rank, core.package, core.index));
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_come_last() {
        let core = |index, physical| Core {
            index,
            package: 0,
            physical,
            sibling_rank: 0,
        };
        let ranked = rank(vec![core(0, 0), core(1, 0), core(2, 1), core(3, 1)]);
        let order: Vec<_> = ranked
            .iter()
            .map(|core| (core.index, core.sibling_rank))
            .collect();
        assert_eq!(order, [(0, 0), (2, 0), (1, 1), (3, 1)]);
    }

    #[test]
    fn a_thread_can_be_pinned_to_a_core_that_is_listed() {
        let core = *cores().expect("affinity").last().expect("at least one core");
        let seen = std::thread::spawn(move || {
            pin(core.index).expect("pin");
            cores().expect("affinity")
        });
        let seen: Vec<usize> = seen
            .join()
            .expect("thread")
            .iter()
            .map(|core| core.index)
            .collect();
        assert_eq!(seen, [core.index]);
        assert!(pin(usize::MAX).is_err());
    }
}
