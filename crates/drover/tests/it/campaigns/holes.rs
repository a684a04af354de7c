//! Clients whose shared memory loses its pages: only their own sessions suffer.
//!
//! Memory of reserved huge pages is dangerous: its owner can punch a hole and use up the reserve, and who touches the hole then is killed by
//! the system. So the server takes none of it, whether the machine has a reserve or not. A hole in ordinary memory reads as zeros.

use crate::campaigns::proxy::{self, Speaker};
use crate::common::{Serving, folder};
use drover_base::Ns;
use drover_client::{Client, Options};
use drover_systems::System;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate, memfd_create,
};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// Bytes of a huge page.
const HUGE_BYTES: u64 = 2 << 20;

/// Longest wait of a client whose session is spoilt.
const PATIENCE: Ns = Ns::from_ms(300);

/// Memory of huge pages, at least as long as `fd`, sealed as the server wants it. Pages need not be there. `None`: this system has no huge
/// pages at all.
fn huge(fd: &OwnedFd) -> Option<OwnedFd> {
    let bytes = fstat(fd).map_or(HUGE_BYTES, |stat| stat.st_size as u64);
    let flags = MemfdFlags::HUGETLB | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let huge = memfd_create("huge", flags).ok()?;
    ftruncate(&huge, bytes.next_multiple_of(HUGE_BYTES)).ok()?;
    fcntl_add_seals(&huge, SealFlags::SHRINK | SealFlags::GROW).ok()?;
    Some(huge)
}

/// Punches a hole that leaves nothing. The kernel refuses it where the descriptor is for reading only.
fn empty(fd: &OwnedFd) -> bool {
    let bytes = fstat(fd).map_or(0, |stat| stat.st_size as u64);
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(fd, hole, 0, bytes).is_ok()
}

#[test]
fn hole_in_shared_memory_ends_only_that_client() {
    for facts in System::ALL.iter().map(|system| system.facts()) {
        // Processes of a pool are trusted with its memory.
        if !facts.offers.service || facts.name == "race" {
            continue;
        }
        let server = Serving::start(facts.name, &["--system", facts.name]);
        let folder = folder(facts.name);
        let hurried = Options {
            connect_timeout: PATIENCE,
            call_timeout: PATIENCE,
            ..Options::default()
        };
        let mut honest = Client::connect(&server.addr).expect("it serves");
        honest.set(b"honest", b"value").expect("stored");

        let path = folder.join("huge.sock");
        let replaced = Arc::new(Mutex::new(0));
        let count = replaced.clone();
        proxy::start(&path, &server.addr, move |_, who, frame| {
            for fd in frame.fds.iter_mut().filter(|_| who == Speaker::Client) {
                let Some(huge) = huge(fd) else { continue };
                *fd = Arc::new(huge);
                *count.lock().expect("no panic") += 1;
            }
            1
        });
        let refused = Client::connect_with(&format!("unix:{}", path.display()), &hurried);
        let replaced = *replaced.lock().expect("no panic");
        match replaced {
            0 => println!("{}: no huge pages to pass", facts.name),
            _ => assert!(refused.is_err(), "{}: huge pages were taken", facts.name),
        }
        assert_eq!(honest.get(b"honest"), Ok(Some(b"value".to_vec())));

        let path = folder.join("hole.sock");
        let passed = Arc::new(Mutex::new(Vec::new()));
        let keeps = passed.clone();
        proxy::start(&path, &server.addr, move |_, _, frame| {
            keeps.lock().expect("no panic").extend(frame.fds.iter().cloned());
            1
        });
        let mut holed =
            Client::connect_with(&format!("unix:{}", path.display()), &hurried).expect("a session");
        holed.set(b"holed", b"value").expect("stored");
        let mut holes = 0;
        for _ in 0..20 {
            holes += passed
                .lock()
                .expect("no panic")
                .iter()
                .filter(|fd| empty(fd))
                .count();
            // Its session may be gone.
            let _ = holed.set(b"holed", b"other");
            assert_eq!(
                honest.get(b"honest"),
                Ok(Some(b"value".to_vec())),
                "{}",
                facts.name
            );
        }
        println!("{}: {replaced} descriptors replaced, {holes} holes", facts.name);
        assert!(holes > 0, "{}: nothing was shared", facts.name);
        drop(holed);
        let mut another = Client::connect(&server.addr).expect("it still serves");
        assert_eq!(another.get(b"honest"), Ok(Some(b"value".to_vec())));
        assert_eq!(server.stop(), 0);
    }
}
