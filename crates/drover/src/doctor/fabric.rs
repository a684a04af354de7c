//! Checks of what the fabrics need: a folder for sockets, device files of cards.

use super::Finding;
use super::machine::Machine;
use drover_control::runtime_dir;

/// Checks that the folder of `shm:NAME` sockets exists, or its parent does. Permissions are not checked.
pub fn runtime_folder(machine: &Machine) -> Finding {
    let what = "sockets of shm:NAME";
    let folder = runtime_dir();
    let exists = std::fs::metadata(&folder).is_ok_and(|data| data.is_dir());
    let parent = folder.parent().is_some_and(|parent| parent.is_dir());
    if machine.is_real() && (exists || parent) {
        return Finding::good(what, folder.display().to_string());
    }
    Finding::bad(
        what,
        format!("{} cannot be made", folder.display()),
        "set XDG_RUNTIME_DIR to a folder that only you can write to, or use unix:/path.sock addresses",
    )
}

/// Checks that at least one RDMA device can be opened (`/dev/infiniband/uverbs*`), not merely seen.
pub fn infiniband(machine: &Machine) -> Finding {
    let what = "RDMA devices";
    let seen = machine.names("sys/class/infiniband");
    let verbs: Vec<String> = machine
        .names("dev/infiniband")
        .into_iter()
        .filter(|name| name.starts_with("uverbs"))
        .collect();
    let usable = verbs
        .iter()
        .filter(|name| machine.can_open(&format!("dev/infiniband/{name}")))
        .count();
    match (seen.len(), usable) {
        (0, 0) => Finding::fair(
            what,
            "none; shared memory needs none",
            "for a card: install rdma-core and its driver; to try without one: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0",
        ),
        (_, 0) => Finding::fair(
            what,
            format!("{} seen ({}), none can be opened", seen.len(), seen.join(", ")),
            "pass them on: --device /dev/infiniband (docker), DeviceAllow=/dev/infiniband/* rw (systemd); join the group rdma",
        ),
        _ => Finding::good(what, format!("{usable} can be opened: {}", seen.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn devices_none_seen_only_and_usable() {
        assert!(
            infiniband(&Machine::made_of("bare", &[]))
                .found
                .starts_with("none;")
        );
        let seen = Machine::made_of("seen", &[("sys/class/infiniband/mlx5_0/x", "")]);
        assert_eq!(infiniband(&seen).found, "1 seen (mlx5_0), none can be opened");
        let files = [
            ("sys/class/infiniband/mlx5_0/x", ""),
            ("dev/infiniband/uverbs0", ""),
        ];
        assert_eq!(infiniband(&Machine::made_of("usable", &files)).grade, Grade::Good);
    }
}
