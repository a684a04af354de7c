//! `watch`: subscribers receive events as memcached's lines.

use crate::bed::{Bed, Client, settings};
use drover_memcached::{ItemSettings, NoHooks, Settings};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

/// Lines that a watcher received, without time and number.
fn heard(bed: &mut Bed, watcher: &mut Client) -> Vec<String> {
    let told = text(bed.say(watcher, b""));
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (time, number) = (words.next().expect("a time"), words.next().expect("a number"));
        assert!(time.starts_with("ts=17") && number.starts_with("gid="), "{line}");
        words.next().expect("an event").to_owned()
    };
    told.lines().map(line).collect()
}

fn watcher(bed: &mut Bed, command: &[u8]) -> Client {
    let mut watcher = Client::new();
    assert_eq!(bed.say(&mut watcher, command), b"OK\r\n");
    watcher
}

#[test]
fn fetches_stores_and_deletions_are_told_to_who_asked() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    let mut all = watcher(&mut bed, b"watch fetchers mutations deletions\r\n");
    let mut fetches = watcher(&mut bed, b"watch\r\n");
    bed.say(
        &mut client,
        b"set a 0 60 2\r\nxx\r\nget a\r\ncas no 0 0 1 9\r\ny\r\nmg a v\r\ndelete a\r\nadd a%b 0 0 1 noreply\r\nz\r\n",
    );
    let (miss, hit) = (
        "type=item_get key=a status=not_found clsid=0 cfd=0 size=0",
        "type=item_get key=a status=found clsid=1 cfd=0 size=2",
    );
    let no = "type=item_get key=no status=not_found clsid=0 cfd=0 size=0";
    let escaped = "type=item_get key=a%25b status=not_found clsid=0 cfd=0 size=0";
    assert_eq!(heard(&mut bed, &mut fetches), [miss, hit, no, hit, escaped]);
    assert_eq!(
        heard(&mut bed, &mut all),
        [
            miss,
            "type=item_store key=a status=stored cmd=set ttl=60 clsid=1 cfd=0 size=2",
            hit,
            no,
            "type=item_store key=no status=not_found cmd=cas ttl=0 clsid=1 cfd=0 size=1",
            hit,
            "type=deleted key=a cmd=delete clsid=1 cfd=0",
            escaped,
            "type=item_store key=a%25b status=stored cmd=add ttl=0 clsid=1 cfd=0 size=1",
        ]
    );
}

#[test]
fn what_goes_to_make_space_is_told() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    let mut watcher = watcher(&mut bed, b"watch evictions\r\n");
    let value = "v".repeat(1_000_000);
    for number in 0..9 {
        bed.say(
            &mut client,
            format!("set k{number} 0 0 1000000 noreply\r\n{value}\r\n").as_bytes(),
        );
    }
    let gone = |number| format!("type=eviction key=k{number} fetch=no ttl=-1 la=100 clsid=1 size=1000000");
    // So long items enter the main log at once, which has nine tenths of 8 MiB.
    assert_eq!(heard(&mut bed, &mut watcher), [gone(0), gone(1)]);
}

#[test]
fn a_slow_watcher_costs_no_more_than_its_queue_and_is_told_what_it_missed() {
    let settings = Settings {
        watcher_bytes: 4096,
        ..settings()
    };
    let mut bed = Bed::with(settings, Box::new(NoHooks));
    let (mut client, mut watcher) = (Client::new(), Client::new());
    bed.say(&mut watcher, b"watch fetchers\r\n");
    for _ in 0..100 {
        bed.say(&mut client, b"get nothing\r\n");
    }
    let told = text(bed.say(&mut watcher, b""));
    assert!(told.len() <= 4096 && told.lines().count() > 10, "{told}");
    let missed = 100 - told.lines().count();
    bed.say(&mut client, b"get nothing\r\n");
    let told = text(bed.say(&mut watcher, b""));
    assert!(told.starts_with(&format!("skipped={missed}\nts=")), "{told}");
    let stats = text(bed.say(&mut client, b"stats\r\n"));
    for line in [
        format!("STAT log_watcher_skipped {missed}\r\n"),
        format!("STAT log_watcher_sent {}\r\n", 101 - missed),
        "STAT log_worker_written 101\r\n".to_owned(),
        "STAT log_watchers 1\r\n".to_owned(),
    ] {
        assert!(stats.contains(&line), "{line}{stats}");
    }
    drop(watcher);
    assert!(text(bed.say(&mut client, b"stats\r\n")).contains("STAT log_watchers 0\r\n"));
}

#[test]
fn without_cas_all_numbers_are_zero_and_any_is_right() {
    let settings = Settings {
        items: ItemSettings {
            cas: false,
            ..ItemSettings::default()
        },
        ..settings()
    };
    let mut bed = Bed::with(settings, Box::new(NoHooks));
    let mut client = Client::new();
    let told = bed.say(
        &mut client,
        b"set n 0 0 1\r\n1\r\ngets n\r\ncas n 0 0 1 77\r\n2\r\nincr n 1\r\nms n 1 c\r\n4\r\nma n c\r\nmg n v c\r\ncas no 0 0 1 0\r\n1\r\n",
    );
    assert_eq!(
        text(told),
        "STORED\r\nVALUE n 0 1 0\r\n1\r\nEND\r\nSTORED\r\n3\r\nHD c0\r\nHD c0\r\nVA 1 c0\r\n5\r\nNOT_FOUND\r\n"
    );
}
