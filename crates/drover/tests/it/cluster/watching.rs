//! Goal: `drover cluster watch` prints what happens to a service, a line each, and outlives an outage of etcd.

use super::bed::Service;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

/// A running command. Ends when it is dropped.
struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
}

impl Watch {
    fn start(service: &Service, flags: &[&str]) -> Watch {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["cluster", "watch", "--cluster", &service.url()])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        Watch {
            lines: BufReader::new(child.stdout.take().expect("it is piped")),
            errors: BufReader::new(child.stderr.take().expect("it is piped")),
            child,
        }
    }

    /// Reads lines until one ends like this.
    #[track_caller]
    fn until(&mut self, end: &str) {
        until(&mut self.lines, end);
    }

    /// Reads what it complains about until a line ends like this.
    #[track_caller]
    fn until_error(&mut self, end: &str) {
        until(&mut self.errors, end);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn until(reader: &mut BufReader<impl Read>, end: &str) {
    let mut said = String::new();
    while !said.trim_end().ends_with(end) {
        let count = reader.read_line(&mut said).expect("a pipe of text");
        assert!(count > 0, "it ended without {end:?}:\n{said}");
    }
}

#[test]
fn changes_are_printed_as_they_happen() {
    let Some(mut service) = Service::new("watch") else {
        return;
    };
    let first = service.start(1, &[]);
    service.settled(1);
    let mut watch = Watch::start(&service, &["--timeout-ms", "300"]);
    let mut json = Watch::start(&service, &["--json"]);
    watch.until(": m1 is here, settled, with 4096 shards");
    json.until(r#","member":"m1","what":"is here, settled, with 4096 shards"}"#);
    service.etcd.kill();
    watch.until_error("waiting for etcd");
    service.etcd.restart();
    let second = service.start(2, &[]);
    watch.until(": m2 was joining, is settled");
    json.until(r#","member":"m2","what":"was joining, is settled"}"#);
    assert_eq!(first.stop(), 0);
    watch.until(": m1 has left");
    assert_eq!(second.stop(), 0);
}
