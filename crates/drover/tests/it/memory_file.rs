//! `drover serve -e`: items outlive a clean stop with all that belongs to them; whatever else is found of a file is a
//! cold start, or no start at all if it cannot be used, with one line that says why.

use crate::common::{Serving, ask_memcached, drover, folder};
use rustix::process::Signal;
use std::fs::{File, OpenOptions, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

const SIZES: [&str; 6] = ["-m", "8", "-t", "2", "-p", "-1"];

struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> TestFolder {
        let folder = folder(name);
        let _ = std::fs::remove_dir_all(&folder); // of an earlier run under the same process number
        std::fs::create_dir_all(&folder).expect("temporary folder");
        TestFolder(folder)
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

    /// Refuses to start with this file; what it says.
    fn refuses(&self, file: &str) -> (i32, String) {
        let args = ["serve", "--fabric", &self.addr(), "-e", file];
        let (code, _, said) = drover(&[&args[..], &SIZES].concat(), "");
        (code, said.lines().last().unwrap_or_default().to_owned())
    }

    fn items(&self) -> PathBuf {
        self.0.join("items")
    }

    fn description(&self) -> PathBuf {
        self.0.join("items.meta")
    }

    fn is_described(&self) -> bool {
        self.0.join("items.meta").exists()
    }
}

fn fill(server: &Serving) {
    let set = |i| {
        let value = format!("value-{i}");
        format!("set key-{i} 0 0 {}\r\n{value}\r\n", value.len())
    };
    let sets: String = (0..20).map(set).collect();
    assert_eq!(ask(server, &sets), "STORED\r\n".repeat(20));
}

/// Items of those that are still there; none may be another.
fn hits(server: &Serving) -> usize {
    let found = |i: &usize| {
        let (key, value) = (format!("key-{i}"), format!("value-{i}"));
        let answer = ask(server, &format!("get {key}\r\n"));
        let item = format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
        assert!(answer == item || answer == "END\r\n", "{answer}");
        answer == item
    };
    (0..20).filter(found).count()
}

#[test]
fn items_outlive_a_clean_stop_by_either_signal() {
    let place = TestFolder::new("warm-clean");
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
    let place = TestFolder::new("warm-killed");
    let server = place.serve(&SIZES);
    fill(&server);
    server.kill();
    let server = place.serve(&SIZES);
    assert!(server.said.contains("cold start"), "{}", server.said);
    assert_eq!(hits(&server), 0);
}

#[test]
fn other_sizes_start_cold_and_the_log_says_why() {
    let place = TestFolder::new("warm-other");
    let server = place.serve(&SIZES);
    fill(&server);
    assert_eq!(server.stop(), 0);
    let server = place.serve(&["-m", "8", "-t", "1", "-p", "-1"]);
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
    let place = TestFolder::new("warm-in-use");
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

/// What a memcached client is told.
fn ask(server: &Serving, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.memcached_port())).expect("it listens");
    ask_memcached(&mut stream, request)
}

/// Number `index` of a line `VA <length> t<seconds> c<cas> ...`.
fn flag(line: &str, flag: char) -> i64 {
    let word = line.split_whitespace().find_map(|word| word.strip_prefix(flag));
    word.and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no {flag} in {line}"))
}

#[test]
fn items_come_back_with_flags_cas_time_left_and_marks() {
    let place = TestFolder::new("warm-whole");
    let server = place.serve(&SIZES);
    let stored = "set plain 4294967295 0 2\r\nab\r\nset timed 7 1000 2\r\ncd\r\nset counted 0 0 2\r\n41\r\nincr counted 1\r\n\
                  set stale 5 0 2\r\nef\r\nmd stale I T500\r\nset empty 1 0 0\r\n\r\nms recached 2 T20\r\ngh\r\n";
    assert_eq!(
        ask(&server, stored),
        "STORED\r\nSTORED\r\nSTORED\r\n42\r\nSTORED\r\nHD\r\nSTORED\r\nHD\r\n"
    );
    // Who asks first wins the right to renew; the others are told so, and that it is stale.
    let won = ask(&server, "mg stale v\r\nmg recached v R30\r\n");
    assert!(
        won.matches(" W").count() == 2 && won.matches(" X").count() == 1,
        "{won}"
    );
    let keys = ["plain", "timed", "counted", "stale", "empty", "recached"];
    let look: String = keys
        .iter()
        .map(|key| format!("mg {key} k v f c t s h\r\n"))
        .collect();
    ask(&server, &look);
    let before = ask(&server, &look);
    let line = |key: &str| before.lines().find(|line| line.contains(key)).unwrap_or_default();
    assert!(
        line("kstale").contains(" Z") && line("kstale").contains(" X"),
        "{before}"
    );
    assert!(
        line("krecached").contains(" Z") && line("kplain").contains("f4294967295"),
        "{before}"
    );
    assert_eq!(server.stop_by(Signal::USR1), 0);

    let server = place.serve(&SIZES);
    assert!(server.said.contains("warm start"), "{}", server.said);
    let after = ask(&server, &look);
    for (was, is) in before.lines().zip(after.lines()) {
        let time = |line: &str| match line.contains(" t") && !line.contains(" t-1") {
            true => flag(line, 't'),
            false => -1,
        };
        assert!(time(is) <= time(was) && time(is) > time(was) - 60, "{was} / {is}");
        let rest = |line: &str| line.replace(&format!(" t{}", time(line)), "");
        assert_eq!(rest(is), rest(was));
    }
    assert_eq!(before.lines().count(), after.lines().count());
    let cas = after
        .lines()
        .find(|line| line.contains("kplain"))
        .map(|line| flag(line, 'c'));
    let cas = cas.expect("it is there");
    assert_eq!(
        ask(
            &server,
            &format!("cas plain 1 0 1 {cas}\r\nx\r\ncas plain 1 0 1 {cas}\r\ny\r\n")
        ),
        "STORED\r\nEXISTS\r\n"
    );
    // Each partition counts its own versions, so the number is compared with the same key's, not with other keys'.
    assert!(flag(&ask(&server, "mg plain c\r\n"), 'c') > cas);
    assert_eq!(
        server.ask(&["get", "timed"]).1,
        "cd\n",
        "native clients see it, too"
    );
}

#[test]
fn what_is_to_be_forgotten_later_is_forgotten_by_the_next_server() {
    let place = TestFolder::new("warm-flush");
    let server = place.serve(&SIZES);
    let keys: Vec<String> = (0..20).map(|i| format!("key{i}")).collect();
    let sets: String = keys
        .iter()
        .map(|key| format!("set {key} 0 0 1 noreply\r\nx\r\n"))
        .collect();
    assert_eq!(ask(&server, &format!("{sets}flush_all 2\r\n")), "OK\r\n");
    assert_eq!(server.stop(), 0);
    let server = place.serve(&SIZES);
    assert!(server.said.contains("warm start"), "{}", server.said);
    let gets = format!("get {}\r\n", keys.join(" "));
    let mut stream = TcpStream::connect(("127.0.0.1", server.memcached_port())).expect("it listens");
    let began = drover_mem::timestamp();
    while ask_memcached(&mut stream, &gets) != "END\r\n" {
        assert!(
            drover_mem::timestamp() - began < 1 << 37,
            "nothing is ever forgotten"
        );
        std::thread::yield_now();
    }
    assert_eq!(
        ask(&server, "set new 0 0 1\r\nx\r\nget new\r\n"),
        "STORED\r\nVALUE new 0 1\r\nx\r\nEND\r\n"
    );
}

/// Changes bytes of a file.
fn flip(path: &Path, at: u64, count: usize) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("it is there");
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, at).expect("so long");
    bytes.iter_mut().for_each(|byte| *byte ^= 0x5a);
    file.write_all_at(&bytes, at).expect("space");
}

fn set_len(path: &Path, len: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("it is there");
    file.set_len(len).expect("space");
}

type Damage = fn(&TestFolder);

#[test]
fn every_doubt_is_a_cold_start_with_one_line() {
    let other_mode =
        |path: PathBuf| std::fs::set_permissions(path, Permissions::from_mode(0o666)).expect("it is ours");
    let damages: &[(Damage, &[&str], &str)] = &[
        (
            |place| set_len(&place.description(), 40),
            &[],
            "its description is cut off",
        ),
        (
            |place| set_len(&place.description(), 0),
            &[],
            "its description is cut off",
        ),
        (
            |place| flip(&place.description(), 0, 4),
            &[],
            "its description is no description of a memory file",
        ),
        (
            |place| flip(&place.description(), 8, 1),
            &[],
            "its description is in the format of another version",
        ),
        (
            |place| flip(&place.description(), 70, 3),
            &[],
            "its description is damaged: its checksum is wrong",
        ),
        (
            |place| set_len(&place.items(), 4096),
            &[],
            "the length of the file was 4096 and is 8388608",
        ),
        (
            |place| set_len(&place.items(), 64 << 20),
            &[],
            "the length of the file was 67108864 and is 8388608",
        ),
        (
            |place| std::fs::remove_file(place.items()).expect("ours"),
            &[],
            "the length of the file was 0 and is 8388608",
        ),
        (
            |place| std::fs::remove_file(place.description()).expect("ours"),
            &[],
            "it was not left by a clean stop",
        ),
        (
            |_| (),
            &["-m", "16"],
            "the memory for items was 4003712 and is 8007360",
        ),
        (|_| (), &["-t", "1"], "the number of partitions was 2 and is 1"),
        (
            |_| (),
            &["-M"],
            "the mode (0 FIFO cache, 1 store, 2 S3-FIFO cache, 3 LRU cache) was 2 and is 1",
        ),
        (
            |_| (),
            &["-I", "512k"],
            "the longest value was 1048576 and is 524288",
        ),
    ];
    let place = TestFolder::new("warm-doubts");
    let check = |more: &[&str], why: &str| {
        let others = SIZES.chunks(2).filter(|pair| more.first() != pair.first());
        let sizes: Vec<&str> = others.flatten().chain(more).copied().collect();
        let server = place.serve(&sizes);
        let said: Vec<&str> = server
            .said
            .lines()
            .filter(|line| line.contains("memory file"))
            .collect();
        assert!(
            said.len() == 1 && said[0].ends_with(&format!("cold start: {why}")),
            "{said:?}: {why}"
        );
        assert_eq!(hits(&server), 0, "{why}");
        assert_eq!(server.stop(), 0);
    };
    let fresh = || {
        let _ = std::fs::remove_file(place.items());
        let _ = std::fs::remove_file(place.description());
        let server = place.serve(&SIZES);
        fill(&server);
        assert_eq!(server.stop(), 0);
    };
    for (damage, more, why) in damages {
        fresh();
        damage(&place);
        check(more, why);
    }
    for path in [place.items(), place.description()] {
        fresh();
        other_mode(path);
        check(&[], "others than its owner could write to it (mode 666)");
        let mode = std::fs::metadata(place.items())
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o600);
    }
}

/// The partitions are checked each by itself: one that cannot be believed costs the others nothing.
#[test]
fn a_damaged_partition_starts_cold_alone() {
    for (at, what) in [(0, "an item"), (4_003_712, "the index")] {
        let place = TestFolder::new("warm-partition");
        let server = place.serve(&SIZES);
        fill(&server);
        assert_eq!(server.stop(), 0);
        flip(&place.items(), at, 64);
        let server = place.serve(&SIZES);
        assert!(
            server
                .said
                .contains(&format!("a partition starts cold: {what} is not as it was left")),
            "{}",
            server.said
        );
        let kept = hits(&server);
        assert!(kept > 0 && kept < 20, "{kept} items of the other partition");
    }
}

#[test]
fn a_file_that_cannot_be_used_is_said_so_and_nothing_is_served() {
    let place = TestFolder::new("warm-unusable");
    let folder = place.0.join("folder");
    std::fs::create_dir(&folder).expect("space");
    let folder = folder.to_str().expect("UTF-8").to_owned();
    let is_told = |(code, said): (i32, String), file: &str, want: i32| {
        assert!(
            code == want && said.starts_with(&format!("drover: memory file {file}: ")),
            "{code}: {said}"
        );
    };
    for file in [&folder, "/dev/full", "/nowhere/at/all"] {
        is_told(place.refuses(file), file, 71);
    }
    if rustix::process::geteuid().is_root() {
        File::create(place.items()).expect("space");
        chown(place.items(), Some(12345), None).expect("we are root");
        is_told(place.refuses(&place.file()), &place.file(), 77);
    } else {
        File::create(place.items()).expect("space");
        std::fs::set_permissions(place.items(), Permissions::from_mode(0o400)).expect("it is ours");
        is_told(place.refuses(&place.file()), &place.file(), 71);
    }
}

/// Memory that the file system does not have must be refused at the start: later it would be a signal that kills.
#[test]
fn a_full_disk_is_noticed_at_the_start() {
    let place = TestFolder::new("warm-full-disk");
    let disk = place.0.join("disk");
    std::fs::create_dir(&disk).expect("space");
    let script = "mount -t tmpfs -o size=4m none \"$1\" || exit 99; shift; exec \"$@\"";
    let out = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(&disk)
        .args([
            "timeout",
            "20",
            env!("CARGO_BIN_EXE_drover"),
            "serve",
            "--fabric",
            &place.addr(),
        ])
        .args(SIZES)
        .arg("-e")
        .arg(disk.join("items"))
        .output();
    let Ok(out) = out else {
        println!("skipped: there is no unshare");
        return;
    };
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.code() == Some(99) || said.starts_with("unshare:") {
        println!("skipped: no file system can be mounted here: {said}");
        return;
    }
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(out.status.code(), Some(71), "{said}");
    let named = format!(
        "drover: memory file {}: 8 MiB do not fit on {}",
        disk.join("items").display(),
        disk.display()
    );
    assert!(
        last.starts_with(&named) && last.contains("No space left"),
        "{last}"
    );
    assert!(
        last.contains("(tmpfs, device none)") && last.contains("4 MiB are free there"),
        "{last}"
    );
}
