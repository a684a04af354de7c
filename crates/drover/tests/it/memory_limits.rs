//! Memory that cannot be had is refused at the start, with the flag and the most that would work.

use crate::common::{Serving, drover, folder};
use drover_systems::System;
use std::process::Command;

/// `-m` in MiB that a refusal advises.
fn advised(said: &str) -> u64 {
    let rest = said.split_once("at most -m ").expect("an advice").1;
    let number = rest.split(' ').next().expect("a number");
    number.parse().expect("a number")
}

#[test]
fn more_than_the_machine_has_is_refused_and_what_is_advised_works() {
    let addr = format!("shm:{}", folder("too-much").join("s.sock").display());
    let refused = |mib: u64| {
        let mib = mib.to_string();
        let (status, _, said) = drover(
            &["serve", "--fabric", &addr, "-p", "0", "-t", "1", "-m", &mib],
            "",
        );
        assert_eq!(status, 71, "{said}");
        let last = said.lines().last().expect("a line").to_owned();
        assert!(last.starts_with(&format!("drover: -m {mib}: ")), "{last}");
        advised(&last)
    };
    let most = refused(1 << 30);
    assert_eq!(refused(most + 1), most);
    // Memory is touched when items come, so this takes no time.
    let server = Serving::start_at(&addr, &["-m", &most.to_string()]);
    assert_eq!(server.stop(), 0);
}

/// With `-k` everything counts that a server of any system maps, not only its items.
#[test]
fn a_limit_on_locked_memory_counts_all_that_is_mapped() {
    let script = "ulimit -l 8192 || exit 99; exec \"$@\"";
    for system in System::ALL.iter().filter(|system| system.facts().offers.service) {
        let name = system.facts().name;
        let addr = format!("shm:{}", folder("locked").join("s.sock").display());
        let out = Command::new("setpriv")
            .args([
                "--bounding-set=-ipc_lock",
                "--inh-caps=-ipc_lock",
                "sh",
                "-c",
                script,
                "sh",
            ])
            .args([
                env!("CARGO_BIN_EXE_drover"),
                "serve",
                "--system",
                name,
                "--fabric",
                &addr,
            ])
            .args(["-p", "0", "-t", "1", "-m", "4", "-k"])
            .output();
        let Ok(out) = out else {
            println!("skipped: there is no setpriv");
            return;
        };
        let said = String::from_utf8_lossy(&out.stderr);
        if out.status.code() == Some(99) || said.starts_with("setpriv:") {
            println!("skipped: the limit cannot be set here: {said}");
            return;
        }
        let last = said.lines().last().unwrap_or_default();
        assert_eq!(out.status.code(), Some(77), "{name}: {said}");
        let wanted = last
            .split("too low: ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let wanted: u64 = wanted.and_then(|mib| mib.parse().ok()).expect("a figure");
        assert!(wanted > 8, "{name}: {last}");
        assert!(
            last.contains("(4 MiB for items, -m, and ") && last.contains("8192 KiB allowed"),
            "{last}"
        );
    }
}
