//! `drover serve -e`: items outlive a clean stop, and nothing else.

#[path = "common/mod.rs"]
mod common;

use common::{Serving, drover, folder};
use rustix::process::Signal;
use std::path::PathBuf;

const SIZES: [&str; 4] = ["-m", "8", "-t", "2"];

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let folder = folder(name);
        let _ = std::fs::remove_dir_all(&folder); // of an earlier run under the same process number
        std::fs::create_dir_all(&folder).expect("temporary folder");
        Place(folder)
    }

    fn file(&self) -> String {
        self.0.join("items").to_str().expect("UTF-8").to_owned()
    }

    fn addr(&self) -> String {
        format!("shm:{}", self.0.join("s.sock").display())
    }

    fn serve(&self, sizes: &[&str]) -> Serving {
        Serving::start_at(&self.addr(), &[sizes, &["-e", &self.file()]].concat())
    }

    fn is_described(&self) -> bool {
        self.0.join("items.meta").exists()
    }
}

fn fill(server: &Serving) {
    for i in 0..20 {
        let (key, value) = (format!("key-{i}"), format!("value-{i}"));
        assert_eq!(server.ask(&["set", &key, &value]).0, 0);
    }
}

fn hits(server: &Serving) -> usize {
    let found = |i: &usize| {
        let answer = server.ask(&["get", &format!("key-{i}")]);
        answer.0 == 0 && answer.1 == format!("value-{i}\n")
    };
    (0..20).filter(found).count()
}

#[test]
fn items_outlive_a_clean_stop_by_either_signal() {
    let place = Place::new("warm-clean");
    let server = place.serve(&SIZES);
    assert!(
        server
            .said
            .contains("cold start: it was not left by a clean stop"),
        "{}",
        server.said
    );
    fill(&server);
    assert_eq!(server.stop(), 0);
    for signal in [Signal::USR1, Signal::TERM] {
        assert!(place.is_described());
        let server = place.serve(&SIZES);
        assert!(server.said.contains("warm start"), "{}", server.said);
        assert!(!place.is_described());
        assert_eq!(hits(&server), 20);
        assert_eq!(server.stop_by(signal), 0);
    }
}

#[test]
fn a_killed_server_leaves_nothing() {
    let place = Place::new("warm-killed");
    let server = place.serve(&SIZES);
    fill(&server);
    server.kill();
    let server = place.serve(&SIZES);
    assert!(server.said.contains("cold start"), "{}", server.said);
    assert_eq!(hits(&server), 0);
}

#[test]
fn other_sizes_start_cold_and_the_log_says_why() {
    let place = Place::new("warm-other");
    let server = place.serve(&SIZES);
    fill(&server);
    assert_eq!(server.stop(), 0);
    let server = place.serve(&["-m", "8", "-t", "1"]);
    assert!(
        server
            .said
            .contains("cold start: the number of partitions was 2 and is 1"),
        "{}",
        server.said
    );
    assert_eq!(hits(&server), 0);
}

#[test]
fn a_file_in_use_is_refused() {
    let place = Place::new("warm-in-use");
    let _server = place.serve(&SIZES);
    let other = format!("shm:{}", place.0.join("other.sock").display());
    let args = [
        "serve",
        "--fabric",
        &other,
        "-p",
        "0",
        "-t",
        "1",
        "-e",
        &place.file(),
    ];
    let (code, _, said) = drover(&args, "");
    assert!(
        code != 0 && said.contains("another process uses it"),
        "{code}: {said}"
    );
}
