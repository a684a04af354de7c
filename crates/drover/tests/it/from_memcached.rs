//! `docs/from-memcached.md` leaves nothing out: each flag of `memcached -h`, each word of its `-o`, and each counter of its `stats` that
//! drover lacks, stands in the page; and what the page says is missing is missing.

use crate::common::{Serving, folder};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PAGE: &str = include_str!("../../../../docs/from-memcached.md");

/// The words in backticks of the rows of the tables under headings that begin with `heading`.
fn named(heading: &str) -> BTreeSet<String> {
    let section = PAGE
        .split("\n## ")
        .find(|section| section.starts_with(heading))
        .expect("a section");
    let rows = section.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let words = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words.map(str::to_owned).collect()
}

/// memcached's help; `None` if it is not installed.
fn help() -> Option<String> {
    let out = Command::new("memcached").arg("-h").output();
    let Ok(out) = out else {
        println!("skipped: memcached is not installed");
        return None;
    };
    Some(String::from_utf8(out.stdout).expect("text"))
}

#[test]
fn every_flag_of_memcached_stands_in_the_page() {
    let Some(help) = help() else { return };
    let flags = named("Flags");
    let mut count = 0;
    for line in help.lines() {
        let word = line.split([',', ' ']).next().unwrap_or_default();
        if word.len() == 2 && word.starts_with('-') {
            assert!(flags.contains(word), "{word} is not in the page: {line}");
            count += 1;
        }
        let option = line.strip_prefix("   - ").and_then(|line| line.split_once(':'));
        if let Some((name, _)) = option.filter(|(name, _)| !name.contains(' ')) {
            let is_known = flags.contains(name) || name.starts_with("ext_");
            assert!(is_known, "-o {name} is not in the page");
            count += 1;
        }
    }
    assert!(count > 60, "only {count} flags and words are in its help: {help}");
}

/// A memcached at a socket in a folder of its own, ended when dropped.
struct Memcached(Child);

impl Memcached {
    fn start(socket: &Path) -> Option<Memcached> {
        help()?;
        let child = Command::new("memcached")
            .args(["-u", "root", "-s"])
            .arg(socket)
            .stderr(Stdio::inherit())
            .spawn();
        Some(Memcached(child.expect("it is installed")))
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The names of the counters of `stats`.
fn counters(socket: &Path) -> BTreeSet<String> {
    let mut attempts = 0;
    let mut stream = loop {
        match UnixStream::connect(socket) {
            Ok(stream) => break stream,
            Err(error) => {
                attempts += 1;
                assert!(attempts < 2_000, "{}: {error}", socket.display());
                std::thread::park_timeout(Duration::from_millis(10));
            }
        }
    };
    stream.write_all(b"stats\r\n").expect("sent");
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let lines = lines.take_while(|line| line != "END");
    let name = |line: String| line.split(' ').nth(1).expect("a name").to_owned();
    lines.map(name).collect()
}

#[test]
fn every_counter_of_memcached_is_there_or_in_the_page() {
    let folder = folder("from-memcached");
    let (theirs, ours) = (folder.join("theirs.sock"), folder.join("ours.sock"));
    let Some(memcached) = Memcached::start(&theirs) else {
        return;
    };
    let server = Serving::start("from-memcached-own", &["-s", ours.to_str().expect("text")]);
    let (theirs, ours) = (counters(&theirs), counters(&ours));
    let missing: BTreeSet<String> = theirs.difference(&ours).cloned().collect();
    let said = named("Counters");
    let unsaid: Vec<_> = missing.difference(&said).collect();
    assert!(unsaid.is_empty(), "missing, and not in the page: {unsaid:?}");
    let there: Vec<_> = said.intersection(&ours).collect();
    assert!(
        there.is_empty(),
        "there, though the page says that they are not: {there:?}"
    );
    drop(memcached);
    assert_eq!(server.stop(), 0);
}

/// Commands of memcached's description of its protocol.
const COMMANDS: [&str; 33] = [
    "get",
    "gets",
    "gat",
    "gats",
    "set",
    "add",
    "replace",
    "append",
    "prepend",
    "cas",
    "delete",
    "incr",
    "decr",
    "touch",
    "mg",
    "ms",
    "md",
    "ma",
    "mn",
    "me",
    "flush_all",
    "version",
    "verbosity",
    "quit",
    "shutdown",
    "watch",
    "cache_memlimit",
    "lru_crawler",
    "lru",
    "slabs",
    "refresh_certs",
    "stats",
    "extstore",
];

#[test]
fn every_command_of_memcached_stands_in_the_page() {
    let commands = named("Commands");
    for command in COMMANDS {
        assert!(commands.contains(command), "{command} is not in the page");
    }
}
