//! Oversized keys, values and lines, and other protocols.

use crate::bed::{Bed, Client, settings};
use drover_memcached::{NoHooks, Settings, parse::LINE_BYTES_MAX};
use drover_net::Need;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_value_over_the_limit_is_swallowed_and_the_old_one_goes() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(&mut client, b"set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\n");
    let refused = "SERVER_ERROR object too large for cache\r\n";
    let mut big = b"set a 0 0 1100000\r\n".to_vec();
    big.extend(vec![b'\n'; 1_100_000]);
    big.extend(b"\r\nget a\r\n");
    assert_eq!(text(&bed.say(&mut client, &big)), format!("{refused}END\r\n"));
    // Only `set` drops the old value; the input comes in pieces, without space for the whole.
    assert_eq!(text(&bed.say(&mut client, b"add b 0 0 1100000\r\n")), refused);
    assert_eq!(client.need, Some(Need::Input { at_least: 1 }));
    for _ in 0..1100 {
        assert_eq!(bed.say(&mut client, &[b'x'; 1000]), b"");
    }
    assert_eq!(
        text(&bed.say(&mut client, b"\r\nget b\r\n")),
        "VALUE b 0 1\r\nx\r\nEND\r\n"
    );
    assert_eq!(bed.core.counters.store_too_large, 2);
}

#[test]
fn the_limit_is_memcacheds_to_the_byte() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    let most = (1 << 20) - 48 - 8 - 2 - 2;
    for (len, want) in [
        (most, "STORED\r\n"),
        (most + 1, "SERVER_ERROR object too large for cache\r\n"),
    ] {
        let mut set = format!("set a 0 0 {len}\r\n").into_bytes();
        set.extend(vec![b'x'; len]);
        set.extend(b"\r\n");
        assert_eq!(text(&bed.say(&mut client, &set)), want);
    }
}

/// A joined value counts as one item, with its earlier flags.
#[test]
fn the_limit_of_a_joined_value_is_memcacheds_to_the_byte() {
    let most = (1 << 20) - 48 - 8 - 2 - 2;
    for (flags, before, join, want) in [
        (0, most - 5, "append a 7 0 5", "STORED\r\n"),
        (0, most - 4, "append a 0 0 5", "NOT_STORED\r\n"),
        (7, most - 4 - 5, "prepend a 0 0 5", "STORED\r\n"),
        (7, most - 4 - 4, "prepend a 0 0 5", "NOT_STORED\r\n"),
        (7, most - 4 - 4, "ms a 5 MA", "NS\r\n"),
        (7, most - 4 - 4, "ms a 5 MA C12345678", "EX\r\n"),
    ] {
        let (mut bed, mut client) = (Bed::new(), Client::new());
        let mut set = format!("set a {flags} 0 {before}\r\n").into_bytes();
        set.extend(vec![b'x'; before]);
        set.extend(b"\r\n");
        assert_eq!(text(&bed.say(&mut client, &set)), "STORED\r\n");
        let line = format!("{join}\r\nyyyyy\r\n");
        assert_eq!(text(&bed.say(&mut client, line.as_bytes())), want, "{join}");
    }
}

#[test]
fn space_for_a_long_value_is_asked_for_once() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(&mut client, b"set a 0 0 100000\r\nx");
    assert_eq!(
        client.need,
        Some(Need::Input {
            at_least: 18 + 100_002
        })
    );
}

#[test]
fn a_line_that_never_ends_is_refused() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    let told = bed.say(&mut client, &[b'x'; LINE_BYTES_MAX]);
    assert_eq!(text(&told), "CLIENT_ERROR line too long\r\n");
    assert!(client.is_closed);
}

#[test]
fn a_multiget_may_be_as_long_as_it_likes() {
    let (mut bed, mut client) = (Bed::new(), Client::with(false, 4096));
    bed.say(&mut client, b"set key7 0 0 1\r\nx\r\n");
    let mut told = bed.say(&mut client, b"get ");
    for i in 0..10_000 {
        told.extend(bed.say(&mut client, format!("key{} ", i % 10).as_bytes()));
    }
    told.extend(bed.say(&mut client, b"key7\r\nmn\r\n"));
    let want = "VALUE key7 0 1\r\nx\r\n".repeat(1001) + "END\r\nMN\r\n";
    assert!(text(&told) == want, "{} bytes", told.len());
    assert!(!client.is_closed);
}

#[test]
fn a_key_too_long_ends_an_endless_multiget() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    let mut line = b"get ".to_vec();
    line.extend(b"ab ".repeat(LINE_BYTES_MAX / 3));
    assert_eq!(bed.say(&mut client, &line), b"");
    assert_eq!(
        text(&bed.say(&mut client, &[b'k'; 260])),
        "CLIENT_ERROR bad command line format\r\n"
    );
    assert!(client.is_closed);
}

#[test]
fn a_multiget_stops_when_the_output_is_full_and_goes_on() {
    let (mut bed, mut client) = (Bed::new(), Client::with(false, 2000));
    let value = "v".repeat(900);
    bed.say(&mut client, format!("set a 0 0 900\r\n{value}\r\n").as_bytes());
    let line = format!("get {}\r\nmn\r\n", "a ".repeat(100));
    let want = format!("VALUE a 0 900\r\n{value}\r\n").repeat(100) + "END\r\nMN\r\n";
    let mut most = 0;
    let told = bed.say_watching(&mut client, line.as_bytes(), |client| {
        most = most.max(client.output.len())
    });
    assert_eq!(text(&told), want);
    assert!(most < 4000, "{most} bytes waited to be written");
}

#[test]
fn the_binary_protocol_is_refused_in_its_own_form() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    // `version`, in two parts.
    let request = b"\x80\x0b\0\0\0\0\0\0\0\0\0\0\xca\xfe\xba\xbe\0\0\0\0\0\0\0\0";
    assert_eq!(bed.say(&mut client, &request[..23]), b"");
    assert!(!client.is_closed);
    let told = bed.say(&mut client, &request[23..]);
    let (header, body) = told.split_at(24);
    let why = b"the binary protocol is not supported: use text or meta commands";
    assert_eq!(body, why);
    // Not supported; the client's opaque number.
    let want = b"\x81\x0b\0\0\0\0\0\x83\0\0\0\x3f\xca\xfe\xba\xbe\0\0\0\0\0\0\0\0";
    assert_eq!(header, want);
    assert!(client.is_closed);
}

#[test]
fn a_turn_has_so_many_requests() {
    let settings = Settings {
        requests_per_event: 5,
        ..settings()
    };
    let mut bed = Bed::with(settings, Box::new(NoHooks));
    let mut client = Client::new();
    let mut turns = 0;
    let told = bed.say_watching(&mut client, &b"mn\r\nget a\r\n".repeat(10), |_| turns += 1);
    assert_eq!(text(&told), "MN\r\nEND\r\n".repeat(10));
    assert!((4..=6).contains(&turns), "{turns} turns");
}

#[test]
fn delayed_flushes_happen_when_due() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(&mut client, b"set a 0 0 1\r\nx\r\nflush_all 10\r\n");
    bed.now_s += 9;
    assert_eq!(
        text(&bed.say(&mut client, b"get a\r\n")),
        "VALUE a 0 1\r\nx\r\nEND\r\n"
    );
    bed.now_s += 1;
    assert_eq!(
        text(&bed.say(&mut client, b"get a\r\nset a 0 0 1\r\ny\r\n")),
        "END\r\nSTORED\r\n"
    );
    bed.now_s += 100;
    assert_eq!(
        text(&bed.say(&mut client, b"get a\r\n")),
        "VALUE a 0 1\r\ny\r\nEND\r\n"
    );
}

#[test]
fn items_go_in_their_second() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(&mut client, b"set a 0 10 1\r\nx\r\n");
    bed.now_s += 9;
    assert_eq!(text(&bed.say(&mut client, b"mg a t\r\n")), "HD t1\r\n");
    bed.now_s += 1;
    assert_eq!(text(&bed.say(&mut client, b"mg a t\r\n")), "EN\r\n");
}

#[test]
fn stats_make_sense() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(
        &mut client,
        b"set a 0 0 1\r\nx\r\nget a b\r\ntouch a 0\r\nincr a 1\r\ndelete a\r\ndelete a\r\n",
    );
    let told = text(&bed.say(&mut client, b"stats\r\n"));
    for want in [
        "cmd_get 2",
        "cmd_set 1",
        "get_hits 1",
        "get_misses 1",
        "touch_hits 1",
        "delete_hits 1",
        "delete_misses 1",
        "version 1.2.3",
        "uptime 100",
        "time 1700000100",
        "limit_maxbytes 67108864",
    ] {
        assert!(told.contains(&format!("STAT {want}\r\n")), "{want} in {told}");
    }
    assert!(told.ends_with("END\r\n"));
    assert!(
        told.lines()
            .all(|line| line == "END" || line.split(' ').count() == 3),
        "{told}"
    );
    assert_eq!(text(&bed.say(&mut client, b"stats reset\r\n")), "RESET\r\n");
    assert!(text(&bed.say(&mut client, b"stats\r\n")).contains("STAT cmd_get 0\r\n"));
    let told = text(&bed.say(&mut client, b"stats settings\r\n"));
    assert!(
        told.contains("STAT maxconns 1024\r\n") && told.ends_with("END\r\n"),
        "{told}"
    );
}

#[test]
fn stats_detail_counts_by_prefix() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(&mut client, b"set x:1 0 0 1\r\nx\r\nstats detail on\r\n");
    bed.say(
        &mut client,
        b"set x:1 0 0 1\r\nx\r\nget x:1 x:2 y:1 z\r\ndelete x:1\r\n",
    );
    assert_eq!(
        text(&bed.say(&mut client, b"stats detail dump\r\nstats detail off\r\n")),
        "PREFIX x get 2 hit 1 set 1 del 1\r\nPREFIX y get 1 hit 0 set 0 del 0\r\nEND\r\nOK\r\n"
    );
}

#[test]
fn prefixes_may_end_by_another_character() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.server.detail.count_by(b'/');
    bed.say(&mut client, b"get x/1 y:1\r\n");
    assert_eq!(
        text(&bed.say(&mut client, b"stats detail dump\r\n")),
        "PREFIX x get 1 hit 0 set 0 del 0\r\nEND\r\n"
    );
    let settings = text(&bed.say(&mut client, b"stats settings\r\n"));
    assert!(
        settings.contains("STAT stat_key_prefix /\r\nSTAT detail_enabled yes\r\n"),
        "{settings}"
    );
}

#[test]
fn a_dump_of_few_items_takes_many_turns() {
    let bucket_count: u64 = 1 << 16;
    let settings = Settings {
        bucket_count,
        ..settings()
    };
    let (mut bed, mut client) = (Bed::with(settings, Box::new(NoHooks)), Client::new());
    let mut turns: u64 = 0;
    let dump = bed.say_watching(&mut client, b"lru_crawler metadump all\r\n", |_| turns += 1);
    assert_eq!(text(&dump), "END\r\n");
    assert!(
        turns >= bucket_count / 2048,
        "{bucket_count} buckets in {turns} turns"
    );
}
