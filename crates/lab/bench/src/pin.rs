//! Pinning threads and child processes to cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Cores that the calling thread may run on, in the order in which to use them: SMT siblings last.
///
/// # Errors
/// The system call failed.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    Ok(drover_rt::cores::cores()?.iter().map(|core| core.index).collect())
}

/// Pins the calling thread to `cores`. Threads and processes that it starts later inherit that.
///
/// # Errors
/// `cores` is empty or contains no core that this process may use, or the system call failed otherwise.
///
/// # Panics
/// If the number of a core is 1024 or more.
pub fn pin(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Runs `work` pinned to `cores`, then restores the thread's former cores. Threads and processes that `work` starts
/// stay pinned.
///
/// # Errors
/// The thread could not be pinned, so `work` did not run; or its former cores could not be restored afterwards.
///
/// # Panics
/// If the number of a core is 1024 or more.
pub fn pinned<R>(cores: &[usize], work: impl FnOnce() -> R) -> io::Result<R> {
    let before = sched_getaffinity(None)?;
    pin(cores)?;
    let result = work();
    sched_setaffinity(None, &before)?;
    Ok(result)
}

/// Numbers of the cores on which servers and clients of a run are pinned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cores {
    /// Cores of the server under test. The rivals (other servers to compare with) run on the same cores.
    pub server: Vec<usize>,
    /// Cores of the clients.
    pub client: Vec<usize>,
    /// Whether there are fewer cores than servers and clients, so that some are used by several of them.
    pub shared: bool,
}

impl Cores {
    /// Assigns the first cores of `allowed` to `client_count` clients and the next to `server_count` servers (a count of
    /// 0 is taken as 1). If there are too few for all, each server has a core to itself and the clients share what is
    /// left, as it is with `drover serve`. If that leaves none for clients, all cores are used twice or more often.
    ///
    /// # Panics
    /// If `allowed` is empty.
    pub fn choose(allowed: &[usize], server_count: usize, client_count: usize) -> Cores {
        let (servers, clients) = (server_count.max(1), client_count.max(1));
        let pick = |from: &[usize], start: usize, count: usize| {
            (start..start + count).map(|i| from[i % from.len()]).collect()
        };
        let left = allowed.len().saturating_sub(servers).min(clients);
        let (client, server) = match left {
            0 => (pick(allowed, 0, clients), pick(allowed, clients, servers)),
            _ => (pick(&allowed[..left], 0, clients), pick(allowed, left, servers)),
        };
        Cores {
            server,
            client,
            shared: allowed.len() < servers + clients,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_first_servers_next() {
        let cores = Cores::choose(&[2, 3, 7], 1, 1);
        assert_eq!(
            (cores.client, cores.server, cores.shared),
            (vec![2], vec![3], false)
        );
        assert!(Cores::choose(&[0], 1, 1).shared);
        assert_eq!(Cores::choose(&[0, 1], 2, 1).server, [1, 0]);
    }

    #[test]
    fn servers_keep_cores_of_their_own_while_one_is_left_for_clients() {
        let cores = Cores::choose(&[0, 1], 1, 4);
        assert_eq!(
            (cores.client, cores.server, cores.shared),
            (vec![0, 0, 0, 0], vec![1], true)
        );
        let cores = Cores::choose(&[0, 1, 2, 3], 2, 3);
        assert_eq!((cores.client, cores.server), (vec![0, 1, 0], vec![2, 3]));
        let cores = Cores::choose(&[5, 6, 7, 8], 1, 2);
        assert_eq!((cores.client, cores.server), (vec![5, 6], vec![7]));
    }

    #[test]
    fn pinning_ends_with_the_work() {
        let before = allowed_cores().expect("affinity");
        let inside = pinned(&before[..1], || allowed_cores().expect("affinity")).expect("pinning");
        assert_eq!(inside, before[..1]);
        assert_eq!(allowed_cores().expect("affinity"), before);
    }
}
