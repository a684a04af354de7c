//! `docs/from-memcached.md` leaves nothing out: each flag of `memcached -h`, each word of its `-o`, each command of its description of the
//! protocol, and each counter of its `stats` that drover lacks, stands in the page; and what the page says is missing is
//! missing. `cargo xtask newest-memcached` holds it against the newest memcached, too.

use crate::common::{Serving, ask_memcached as ask, folder};
use std::collections::{BTreeMap, BTreeSet};
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

/// The memcached to compare with: the program that this variable names, or else the installed one.
const PROGRAM: &str = "DROVER_MEMCACHED";

/// memcached's help; `None` if none is named or installed.
fn help() -> Option<String> {
    let named = std::env::var(PROGRAM).ok();
    let program = named.as_deref().unwrap_or("memcached");
    match Command::new(program).arg("-h").output() {
        Ok(out) => Some(String::from_utf8(out.stdout).expect("text")),
        Err(error) if named.is_some() => panic!("{PROGRAM}={program}: {error}"),
        Err(_) => {
            println!("skipped: memcached is not installed");
            None
        }
    }
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
        let program = std::env::var(PROGRAM).unwrap_or("memcached".to_owned());
        let child = Command::new(program)
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

/// Connects to a server that is starting.
fn connect(socket: &Path) -> UnixStream {
    let mut attempts = 0;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) => {
                attempts += 1;
                assert!(attempts < 2_000, "{}: {error}", socket.display());
                std::thread::park_timeout(Duration::from_millis(10));
            }
        }
    }
}

/// The names in the answer to `command`, without the class before them, of a server that has an item.
fn names(socket: &Path, command: &str) -> BTreeSet<String> {
    let text = ask(
        &mut connect(socket),
        &format!("set a 0 0 1\r\nx\r\n{command}\r\n"),
    );
    let names = text.lines().filter_map(|line| line.strip_prefix("STAT "));
    let names = names.filter_map(|line| line.split(' ').next()?.rsplit(':').next());
    names.map(str::to_owned).collect()
}

/// Commands whose answers are numbers, and the headings over what drover leaves out of them.
const ANSWERS: [(&str, &str); 4] = [
    ("stats", "Counters of `stats` "),
    ("stats settings", "Lines of `stats settings` "),
    ("stats items", "Counters of `stats items` "),
    ("stats slabs", "Counters of `stats slabs` "),
];

#[test]
fn every_counter_of_memcached_is_there_or_in_the_page() {
    let folder = folder("from-memcached");
    let (theirs, ours) = (folder.join("theirs.sock"), folder.join("ours.sock"));
    let Some(memcached) = Memcached::start(&theirs) else {
        return;
    };
    let server = Serving::start("from-memcached-own", &["-s", ours.to_str().expect("text")]);
    for (command, heading) in ANSWERS {
        let (theirs, ours) = (names(&theirs, command), names(&ours, command));
        assert!(theirs.len() > 10, "{command}: {theirs:?}");
        let said = named(heading);
        let is_said = |name: &&String| said.contains(*name) || is_of_storage(name);
        let unsaid: Vec<_> = theirs.difference(&ours).filter(|name| !is_said(name)).collect();
        assert!(
            unsaid.is_empty(),
            "{command}: missing, and not in the page: {unsaid:?}"
        );
        let there: Vec<_> = said.intersection(&ours).collect();
        assert!(
            there.is_empty(),
            "{command}: there, though the page says that they are not: {there:?}"
        );
    }
    drop(memcached);
    assert_eq!(server.stop(), 0);
}

/// The page has one row for all that is about storage on disks, or about TLS without `-Z`.
fn is_of_storage(name: &str) -> bool {
    name.starts_with("ext_") || name.starts_with("ssl_")
}

/// memcached's description of its protocol: the file that DROVER_MEMCACHED_PROTOCOL names, or that of Debian's package.
fn protocol() -> Option<String> {
    if let Ok(path) = std::env::var("DROVER_MEMCACHED_PROTOCOL") {
        return Some(std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")));
    }
    let file = "/usr/share/doc/memcached/protocol.txt.gz";
    let unpacked = Command::new("gzip").args(["-dc", file]).output();
    let text = unpacked.ok().filter(|unpacked| unpacked.status.success());
    if text.is_none() {
        println!("skipped: no {file}");
    }
    text.map(|text| String::from_utf8_lossy(&text.stdout).into_owned())
}

/// The commands that a description of the protocol has, each with the words that may come second. They are in lines that are
/// patterns of a request, and in quotes before the word "command".
fn commands_of(protocol: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut commands: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in protocol.lines() {
        let request = line.strip_suffix("\\r\\n");
        let words: Vec<&str> = request.unwrap_or(line).split(' ').collect();
        let seconds: Vec<&str> = match words[..] {
            [_] if request.is_some() => Vec::new(),
            [_, second, ..] if is_argument(second) => match second.trim_matches(['<', '>']) {
                choice if choice.contains('|') => choice.split('|').collect(),
                _ => Vec::new(),
            },
            [_, second, third, ..] if is_name(second) && is_argument(third) => vec![second],
            _ => continue,
        };
        if is_name(words[0]) {
            let known = commands.entry(words[0].to_owned()).or_default();
            known.extend(seconds.into_iter().map(str::to_owned));
        }
    }
    let prose = protocol.split_whitespace().collect::<Vec<_>>().join(" ");
    let quoted: Vec<&str> = prose.split('"').collect();
    // A quote, and the text from its end to the next one's start.
    for pair in quoted[1..].chunks_exact(2) {
        let (name, after) = (pair[0].trim_end_matches("\\r\\n"), pair[1].trim_start());
        if is_name(name) && (after.starts_with("command") || after.starts_with("is a command")) {
            commands.entry(name.to_owned()).or_default();
        }
    }
    for rest in prose.split("\"stats\" command with the argument of \"").skip(1) {
        let second = rest.split('"').next().unwrap_or_default();
        commands
            .entry("stats".to_owned())
            .or_default()
            .insert(second.to_owned());
    }
    commands
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn is_argument(word: &str) -> bool {
    word.starts_with(['<', '['])
}

/// The rows of the page's commands that name `command` first.
fn rows_of(command: &str) -> String {
    let section = PAGE
        .split("\n## ")
        .find(|section| section.starts_with("Commands"));
    let rows = section.expect("a section").lines();
    let names = |row: &&str| {
        let first = row.split('|').nth(1).unwrap_or_default();
        let mut quoted = first.split('`').skip(1).step_by(2);
        quoted.any(|words| words.split(' ').next() == Some(command))
    };
    rows.filter(names).collect()
}

#[test]
fn every_command_of_memcached_stands_in_the_page() {
    let Some(protocol) = protocol() else { return };
    let commands = commands_of(&protocol);
    assert!(commands.len() > 30, "only {commands:?}");
    for (command, seconds) in commands {
        let rows = rows_of(&command);
        assert!(!rows.is_empty(), "{command} is not in the page");
        for second in seconds {
            let is_there = rows.split('`').skip(1).step_by(2);
            let is_there = is_there
                .flat_map(|words| words.split(' '))
                .any(|word| word == second);
            // Numbers are values, not words of the protocol.
            assert!(
                is_there || !is_name(&second),
                "{command} {second} is not in the page"
            );
        }
    }
}
