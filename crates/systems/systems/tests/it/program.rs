//! The program `drover` with the table of these tests: its commands serve, ask, measure and simulate the sample.

use crate::Table;
use drover_client::{Client, Connected, Options};
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

/// The words of a command line, one a line, for a child.
const WORDS: &str = "DROVER_WORDS";

/// The test that is the program.
const TEST: &str = "program::the_program";

/// Set for a child of a [`Script`]: its standard error is what its standard output is to be, to which the harness would print.
const SCRIPT: &str = "DROVER_SCRIPT";

/// What a child does: this executable is the program, too.
#[test]
fn the_program() {
    let Ok(words) = std::env::var(WORDS) else { return };
    if std::env::var_os(SCRIPT).is_some() {
        rustix::stdio::dup2_stdout(std::io::stderr()).expect("dup2");
        rustix::stdio::dup2_stderr(File::create("/dev/null").expect("a file")).expect("dup2");
    }
    let words = ["drover"].into_iter().chain(words.lines());
    let status = drover::main_with::<Table>(words.map(Into::into));
    assert_eq!(status, ExitCode::SUCCESS);
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command
        .args([TEST, "--exact", "--nocapture"])
        .env(WORDS, words.join("\n"))
        .stdin(Stdio::null());
    command
}

/// A file that is the program and nothing else, for `bench`, which starts the program again. Removed when dropped.
struct Script(PathBuf);

impl Script {
    fn write(test: &str) -> Script {
        let path = std::env::temp_dir().join(format!("drover-sample-{test}-{}", std::process::id()));
        let text = format!(
            "#!/bin/sh\nexec 2>&1 >/dev/null\n{WORDS}=$(printf '%s\\n' \"$@\") {SCRIPT}=1 exec '{}' {TEST} --exact --nocapture\n",
            std::env::current_exe().expect("own path").display()
        );
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("it is ours");
        Script(path)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What a command prints that succeeds.
fn run(words: &[&str]) -> String {
    let out = command(words).output().expect("a child process");
    let (told, errors) = (
        String::from_utf8_lossy(&out.stdout).into_owned(),
        String::from_utf8_lossy(&out.stderr),
    );
    assert!(out.status.success(), "{words:?}: {told}\n{errors}");
    told
}

/// A server process, which is asked to stop in the end.
struct Server {
    child: Child,
    addr: String,
    metrics: String,
}

impl Server {
    fn start() -> Server {
        let addr = format!("shm:sample-{}", std::process::id());
        let mut child = command(&[
            "serve",
            "--system=sample",
            "--fabric",
            &addr,
            "--threads=2",
            "--memory-limit=64",
            "--metrics-listen=127.0.0.1:0",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child process");
        let mut log = BufReader::new(child.stderr.take().expect("it is piped"));
        let (mut metrics, mut line) = (String::new(), String::new());
        while !line.contains("serving at") {
            line.clear();
            assert!(log.read_line(&mut line).expect("text") > 0, "it has ended");
            eprint!("{line}");
            if let Some((_, rest)) = line.split_once("metrics: http://") {
                metrics = rest.split('/').next().unwrap_or_default().to_owned();
            }
        }
        std::thread::spawn(move || log.read_to_string(&mut String::new()));
        Server { child, addr, metrics }
    }

    fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(&self.metrics).expect("the admin port");
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        text
    }

    fn stop(mut self) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it runs");
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left to kill when it has been stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_is_served_asked_counted_and_measured() {
    let server = Server::start();
    let addr = server.addr.as_str();
    run(&["set", "greeting", "hello", "--server", addr]);
    assert!(run(&["get", "greeting", "--server", addr]).contains("hello"));

    let addr_of_client = addr.parse().expect("an address");
    let connected = Connected::to_one_of::<Table>(addr_of_client, &Options::default());
    let mut client = Client::from(connected.expect("a session"));
    assert_eq!(client.get(b"greeting"), Ok(Some(b"hello".to_vec())));
    client
        .set(b"long", &[7; 4000])
        .expect("longer than a slot, shorter than a message");
    assert_eq!(client.get(b"long"), Ok(Some(vec![7; 4000])));
    assert_eq!(
        (client.delete(b"long"), client.get(b"long")),
        (Ok(true), Ok(None))
    );
    drop(client);

    let stats = run(&["stats", "--server", addr]);
    for line in ["system sample", "shards 2", "puts 2", "deletes 1", "items 1"] {
        assert!(stats.lines().any(|told| told == line), "{line}: {stats}");
    }
    let metrics = server.scrape();
    for line in [
        "drover_up 1",
        "drover_system{system=\"sample\"} 1",
        "# TYPE drover_puts_total counter",
        "# TYPE drover_current_items gauge",
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line}: {metrics}");
    }
    assert!(metrics.contains("drover_puts_total{shard=\"1\"} "), "{metrics}");
    let top = run(&["top", "--once", &server.metrics]);
    for counter in [
        "get_messages/s",
        "puts/s",
        "deletes/s",
        "items",
        "evictions/s",
        "clients",
    ] {
        let is_its = |line: &str| line.split(' ').next() == Some(counter);
        assert!(top.lines().any(is_its), "{counter}: {top}");
    }
    let script = Script::write("address");
    let report = run(&bench(&script, &["--address", addr]));
    assert!(report.contains("\"system\": \"sample\""), "{report}");
    server.stop();
}

fn bench<'a>(script: &'a Script, others: &[&'a str]) -> Vec<&'a str> {
    let usual =
        "bench --keys 1000 --seconds 0.05 --warm-up 0 --repeats 1 --no-results --quiet --json - --again";
    let again = script.0.to_str().expect("a path of ours is text");
    usual
        .split(' ')
        .chain([again])
        .chain(others.iter().copied())
        .collect()
}

#[test]
fn bench_starts_a_server_of_it_and_measures_it_beside_all_others() {
    let script = Script::write("own");
    let report = run(&bench(&script, &["--system", "sample"]));
    assert!(report.contains("\"system\": \"sample\""), "{report}");
    let report = run(&bench(&script, &["--system", "auto"]));
    for system in Table::ALL {
        assert!(report.contains(&format!("\"system\": \"{system}\"")), "{report}");
    }
}

/// Without values that fit no message, which the sample refuses.
const WITHOUT: &str = "--without=large,oversize";

#[test]
fn it_is_simulated_with_fixed_seeds_and_fresh_ones() {
    let calm = ["sim", "--system=sample", "--scenario=calm", "--seed=1"];
    assert_eq!(run(&calm).lines().last(), run(&calm).lines().last());
    for seeds in [&["--seed=1", "--seeds=10"][..], &["--seeds=5"]] {
        let words = [&["sim", "--system=sample", WITHOUT], seeds].concat();
        assert!(run(&words).contains("no violation"));
    }
}

#[test]
fn a_planted_mistake_of_its_is_found() {
    let told = run(&["sim", "--system=sample", "--planted", "--seed=1", "--seeds=100"]);
    assert!(told.contains("trusts-slots   found at seed"), "{told}");
}

#[test]
fn a_name_that_is_not_in_the_table_is_refused_with_those_that_are() {
    let out = command(&["sim", "--system=redis"]).output().expect("a child");
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success());
    assert!(
        errors.contains(
            "expected herd or pilaf or farm or jakiro or server-reply or server-reply-faithful or rdma-memcached \
             or race or sample"
        ),
        "{errors}"
    );
}

/// The words given decide, not those of this process.
#[test]
fn the_exit_status_of_bad_usage_depends_on_the_command() {
    let status = |words: &[&str]| drover::main_with::<Table>(words.iter().map(Into::into));
    assert_eq!(status(&["drover", "get", "--nonsense"]), ExitCode::from(2));
    assert_eq!(status(&["drover", "sim", "--nonsense"]), ExitCode::from(64));
    assert_eq!(status(&["drover", "--help"]), ExitCode::SUCCESS);
}
