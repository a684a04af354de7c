//! Commands on keys: several keys at once, JSON, files, conditions and numbers, over a server of each kind.

use crate::common::{Answer, Serving, folder};

fn ok(text: &str) -> Answer {
    (0, text.to_owned(), String::new())
}

fn miss(error: &str) -> Answer {
    (1, String::new(), format!("drover: {error}\n"))
}

#[test]
fn several_keys_are_printed_one_after_the_other() {
    let server = Serving::start("several", &[]);
    for (key, value) in [("a", "1"), ("b", "two"), ("c", "")] {
        assert_eq!(server.ask(&["set", key, value]), ok(""));
    }
    assert_eq!(server.ask(&["get", "b", "a", "c", "b"]), ok("two1two"));
    assert_eq!(
        server.ask(&["get", "a", "x", "b", "y"]),
        (1, "1two".into(), "drover: no key x\ndrover: no key y\n".into())
    );
    let (status, text, _) = server.ask(&["get", "b", "a", "--details"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((status, lines.len()), (0, 4), "{text}");
    assert!(
        lines[0].starts_with("version ") && lines[0].ends_with(" flags 0"),
        "{text}"
    );
    assert_eq!((lines[1], lines[3]), ("two", "1"));
    assert_eq!(server.ask(&["get", "a", "b", "--raw"]), ok("1two"));
    assert_eq!(server.ask(&["set", "-x", "3"]), ok(""));
    assert_eq!(server.ask(&["get", "-x", "a"]), ok("31"));
    let keys: Vec<String> = (0..300).map(|key| format!("key{key}")).collect();
    let words: Vec<&str> = std::iter::once("get")
        .chain(keys.iter().map(String::as_str))
        .collect();
    let (status, text, error) = server.ask(&words);
    assert_eq!((status, text.as_str(), error.lines().count()), (1, "", 300));
}

#[test]
fn json_says_what_was_found_and_what_is_no_text() {
    let server = Serving::start("json", &[]);
    let file = folder("json").join("bytes");
    std::fs::write(&file, b"\xff\0").expect("temporary file");
    let file = file.to_str().expect("UTF-8");
    assert_eq!(server.ask(&["set", "text", "\"x\"\n", "--flags", "7"]), ok(""));
    assert_eq!(server.ask(&["set", "bytes", "--file", file]), ok(""));
    let (status, text, error) = server.ask(&["get", "text", "bytes", "none", "--json"]);
    assert_eq!((status, error.as_str()), (1, "drover: no key none\n"));
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(
        (&lines[0]["key"], &lines[0]["value"]),
        (&"text".into(), &"\"x\"\n".into())
    );
    assert_eq!(
        (&lines[0]["found"], &lines[0]["flags"]),
        (&true.into(), &7.into())
    );
    assert!(
        lines[0]["version"].as_u64().is_some_and(|version| version > 0),
        "{text}"
    );
    assert_eq!(
        (&lines[1]["value_base64"], lines[1].get("value")),
        (&"/wA=".into(), None)
    );
    assert_eq!(lines[2], serde_json::json!({"key": "none", "found": false}));
}

#[test]
fn values_come_from_files_and_go_into_files() {
    let server = Serving::start("files", &[]);
    let place = folder("files");
    let path = |name: &str| place.join(name).to_str().expect("UTF-8").to_owned();
    let value: Vec<u8> = (0..50_000_u32).map(|i| (i % 251) as u8).collect();
    std::fs::write(path("in"), &value).expect("temporary file");
    assert_eq!(server.ask(&["set", "k", "--file", &path("in")]), ok(""));
    assert_eq!(server.ask(&["get", "k", "--file", &path("out")]), ok(""));
    assert_eq!(std::fs::read(path("out")).expect("written"), value);
    assert_eq!(
        server.ask(&["get", "none", "--file", &path("none")]),
        miss("no key none")
    );
    assert!(!place.join("none").exists(), "a miss leaves no file");
    for words in [["set", "k"], ["get", "k"]] {
        let (status, _, error) = server.ask(&[&words[..], &["--file", &path("no/file")]].concat());
        assert_eq!(status, 2);
        assert!(
            error.contains("No such file or directory: create folder "),
            "{error}"
        );
    }
    assert_eq!(
        server.ask(&["set", "k", "v", "--file", &path("in")]).0,
        2,
        "two values"
    );
}

/// Every system offers the operations on which these commands rest.
#[test]
fn conditions_numbers_and_times_on_every_kind_of_server() {
    for system in ["herd", "pilaf", "farm", "jakiro", "rdma-memcached", "race"] {
        let server = Serving::start(&format!("commands-{system}"), &["--system", system]);
        let ask = |words: &[&str]| server.ask(words);
        assert_eq!(ask(&["replace", "k", "x"]), miss("no key k"), "{system}");
        assert_eq!(ask(&["append", "k", "x"]), miss("no key k"), "{system}");
        assert_eq!(ask(&["add", "k", "b", "--flags", "5"]), ok(""), "{system}");
        assert_eq!(ask(&["add", "k", "x"]), miss("key k exists"), "{system}");
        assert_eq!(ask(&["append", "k", "c"]), ok(""), "{system}");
        assert_eq!(ask(&["prepend", "k", "a"]), ok(""), "{system}");
        let (_, text, _) = ask(&["get", "k", "--details"]);
        assert!(text.ends_with(" flags 5\nabc\n"), "{system}: {text}");
        let version = text.split(' ').nth(1).expect("a number");
        assert_eq!(ask(&["cas", "k", version, "d"]), ok(""), "{system}");
        let another = format!("key k has another version than {version}");
        assert_eq!(ask(&["cas", "k", version, "e"]), miss(&another), "{system}");
        assert_eq!(ask(&["replace", "k", "f"]), ok(""), "{system}");

        assert_eq!(ask(&["incr", "n"]), miss("no key n"), "{system}");
        assert_eq!(ask(&["incr", "n", "--initial", "9"]), ok("9\n"), "{system}");
        assert_eq!(ask(&["incr", "n", "--initial", "9"]), ok("10\n"), "{system}");
        assert_eq!(ask(&["decr", "n", "3"]), ok("7\n"), "{system}");
        assert_eq!(ask(&["decr", "n", "30"]), ok("0\n"), "{system}");
        assert_eq!(ask(&["get", "n"]), ok("0"), "{system}");
        let (status, _, error) = ask(&["incr", "k"]);
        assert_eq!(status, 2, "{system}");
        assert!(
            error.starts_with("drover: the value of k is no decimal number"),
            "{error}"
        );

        assert_eq!(ask(&["touch", "n", "0"]), ok(""), "{system}");
        assert_eq!(ask(&["touch", "none", "1"]), miss("no key none"), "{system}");
        assert_eq!(server.stop(), 0, "{system}");
    }
}

/// What native clients and memcached's leave is one number.
#[test]
fn numbers_are_shared_with_clients_of_memcached() {
    let server = Serving::start("shared", &["-p", "-1"]);
    let addr = ("127.0.0.1", server.memcached_port());
    let mut stream = std::net::TcpStream::connect(addr).expect("it listens");
    let mut text = |request: &str| crate::common::ask_memcached(&mut stream, request);
    assert_eq!(text("set n 0 0 2\r\n10\r\n"), "STORED\r\n");
    assert_eq!(text("decr n 1\r\n"), "9\r\n");
    assert_eq!(server.ask(&["incr", "n"]), ok("10\n"));
    assert_eq!(text("incr n 5\r\n"), "15\r\n");
}

/// Processes that count at once lose nothing, though each reads and then writes.
#[test]
fn processes_that_count_at_once_lose_nothing() {
    const EACH: usize = 10;
    let server = Serving::start("count", &[]);
    let count = &|direction: &str| {
        for _ in 0..EACH {
            let (status, _, error) = server.ask(&[direction, "n", "--initial", "1000"]);
            assert_eq!((status, error.as_str()), (0, ""));
        }
    };
    std::thread::scope(|scope| {
        for direction in ["incr", "incr", "incr", "decr"] {
            scope.spawn(move || count(direction));
        }
    });
    // The first of all stored the number as it is.
    let (_, text, _) = server.ask(&["get", "n"]);
    let net = EACH * 2;
    let possible = [1000 + net - 1, 1000 + net + 1];
    assert!(
        text.parse().is_ok_and(|number| possible.contains(&number)),
        "{text}"
    );
}
