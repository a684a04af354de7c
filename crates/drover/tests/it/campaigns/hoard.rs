//! Clients that connect, claim what a session gives, hang up, and keep every descriptor that they were given: the server keeps
//! nothing of them.

use crate::campaigns::bed::settle;
use crate::campaigns::client::{self, Role};
use crate::campaigns::footprint::Footprint;
use crate::campaigns::proxy;
use crate::common::{Serving, folder};
use drover_base::Rng;
use drover_systems::System;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Clients of each system, one after the other.
const CLIENTS: usize = 1000;
/// Clients before the server's memory is looked at first: what is made once is there then.
const FIRST: usize = 20;

/// Descriptors that a session of any system passes, at most.
const SESSION_FDS: usize = 12;

/// Clients of each system, fewer where this process may not have as many descriptors.
fn client_count() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, most).expect("up to the maximum");
    let allowed = limit.maximum.map_or(CLIENTS, |fds| fds as usize / SESSION_FDS);
    if allowed < CLIENTS {
        println!("only {allowed} clients: this process may have no more descriptors");
    }
    allowed.min(CLIENTS)
}

/// Descriptors that passed.
type Hoard = Arc<Mutex<Vec<Arc<OwnedFd>>>>;

/// Connects at `proxy` and stores an item.
fn visit(system: &str, proxy: &Path, number: usize) {
    let role = Role {
        addr: format!("unix:{}", proxy.display()),
        id: 0,
        place: 0,
        seed: number as u64,
        datagrams: number.is_multiple_of(2),
        is_herd: system == "herd",
        guarded: false,
        deadline_ms: 60_000,
        rest_ms: 0,
    };
    let mut kv = client::connect(&role, Rng::new(role.seed, 0, 0));
    kv.put(b"key", b"value", 0).expect("an answer");
}

#[test]
fn a_thousand_clients_that_keep_their_descriptors_leave_nothing() {
    let clients = client_count();
    for facts in System::ALL.iter().map(|system| system.facts()) {
        // Processes of a pool are trusted with its memory.
        if !facts.offers.service || facts.name == "race" {
            continue;
        }
        let server = Serving::start(facts.name, &["--system", facts.name]);
        let pid = server.pid().as_raw_nonzero().get() as u32;
        let (hoard, at) = (Hoard::default(), folder(facts.name).join("proxy.sock"));
        let keeps = hoard.clone();
        proxy::start(&at, &server.addr, move |_, _, frame| {
            keeps.lock().expect("no panic").extend(frame.fds.iter().cloned());
            1
        });
        (0..FIRST).for_each(|number| visit(facts.name, &at, number));
        let before = Footprint::of(pid);
        (FIRST..clients).for_each(|number| visit(facts.name, &at, number));
        settle("the server", &before, 0, || Footprint::of(pid));
        let kept = hoard.lock().expect("no panic").len();
        println!(
            "{}: {kept} descriptors kept; {before:?}, then {:?}",
            facts.name,
            Footprint::of(pid)
        );
        assert!(kept >= clients, "{}: sessions without memory", facts.name);
        hoard.lock().expect("no panic").clear();
        assert_eq!(server.stop(), 0);
    }
}
