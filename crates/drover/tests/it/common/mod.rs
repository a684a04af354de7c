//! A server process that ends with the test, and the binary as a function.

pub mod memcached;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// Exit status (-1 after a signal), standard output and standard error of a command.
pub type Answer = (i32, String, String);

/// Runs the binary with `args`, passes `input` to its standard input, and waits until it ends.
pub fn drover(args: &[&str], input: &str) -> Answer {
    let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let _ = stdin.write_all(input.as_bytes()); // a command that fails early does not read it
    drop(stdin);
    let out = child.wait_with_output().expect("the binary ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        out.status.code().unwrap_or(-1),
        text(&out.stdout),
        text(&out.stderr),
    )
}

/// Creates a temporary folder, whose name contains this process's id, the calling file's name and `name`.
#[track_caller]
pub fn folder(name: &str) -> PathBuf {
    let file = Path::new(Location::caller().file()).file_stem();
    let file = file.expect("a file of tests").to_string_lossy();
    let path = std::env::temp_dir().join(format!("drover-cli-{}-{file}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).expect("temporary folder");
    path
}

/// Sends `request` and then `mn` to a memcached listener; returns the server's reply to `request`.
pub fn ask_memcached(stream: &mut (impl Read + Write), request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("space");
    stream.write_all(b"mn\r\n").expect("space");
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.ends_with(b"MN\r\n") {
        let count = stream.read(&mut buffer).expect("an answer in time");
        assert!(
            count > 0,
            "it closed after {:?}",
            String::from_utf8_lossy(&answer)
        );
        answer.extend_from_slice(&buffer[..count]);
    }
    answer.truncate(answer.len() - 4);
    String::from_utf8(answer).expect("text")
}

/// A running `drover serve`, killed when dropped.
pub struct Serving {
    child: Child,
    /// Address of the server, as in `--fabric`.
    pub addr: String,
    /// Log of the server up to the line `serving at`.
    pub said: String,
    /// Thread that reads the rest of the log.
    rest: Option<JoinHandle<String>>,
}

impl Serving {
    /// Starts a server at a socket in the caller's [`folder`] for `name` and waits until it serves. Unless `args` say
    /// otherwise it has one worker and no memcached port.
    #[track_caller]
    pub fn start(name: &str, args: &[&str]) -> Serving {
        Serving::start_at(&format!("shm:{}", folder(name).join("s.sock").display()), args)
    }

    /// As [`start`](Serving::start), at address `addr`.
    pub fn start_at(addr: &str, args: &[&str]) -> Serving {
        Serving::start_with(addr, args, &[])
    }

    /// As [`start_at`](Serving::start_at), with the environment variables `envs` in addition.
    pub fn start_with(addr: &str, args: &[&str], envs: &[(&str, &str)]) -> Serving {
        Serving::launch("--fabric", addr, args, envs)
    }

    /// Starts a gateway to the service at `addr`, at any free port.
    pub fn gateway(addr: &str, args: &[&str]) -> Serving {
        Serving::launch("--connect", addr, &[&["-p", "-1"], args].concat(), &[])
    }

    /// Starts a gateway to the pool of the nodes at `addrs`, separated by commas, at any free port.
    pub fn pool_gateway(addrs: &str, args: &[&str]) -> Serving {
        Serving::launch("--pool", addrs, &[&["-p", "-1"], args].concat(), &[])
    }

    /// What the admin port shows, which was asked for by `--metrics-listen`.
    pub fn metrics(&self) -> String {
        let at = self.said.split("metrics: http://").nth(1);
        let addr = at.expect("the log names the port").split('/').next();
        let mut stream = TcpStream::connect(addr.expect("an address")).expect("the port answers");
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    /// The sum of a metric's samples, whatever their labels.
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.metrics();
        let of_name = |line: &&str| line.split(['{', ' ']).next() == Some(name);
        let values = text.lines().filter(of_name).map(|line| {
            let value = line
                .rsplit(' ')
                .next()
                .and_then(|value| value.parse::<f64>().ok());
            value.expect("a number") as u64
        });
        values.sum()
    }

    fn launch(flag: &str, addr: &str, args: &[&str], envs: &[(&str, &str)]) -> Serving {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        command
            .args(["serve", flag, addr])
            .args(if args.contains(&"-p") {
                &[][..]
            } else {
                // Tests run side by side.
                &["-p", "0"]
            })
            .args(if args.contains(&"-t") {
                &[][..]
            } else {
                &["-t", "1"]
            })
            .args(args)
            .envs(envs.iter().copied());
        Serving::spawn(&mut command, addr)
    }

    /// Starts a server at address `addr` by `command`, and waits until it serves.
    pub fn spawn(command: &mut Command, addr: &str) -> Serving {
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let mut said = String::new();
        loop {
            // The server's end closes the pipe, so this cannot wait for ever.
            let Some(Ok(line)) = lines.next() else {
                panic!("the server ended early:\n{said}")
            };
            said.push_str(&line);
            said.push('\n');
            if line.contains("serving at") {
                break;
            }
        }
        // Somebody has to go on reading, or the server would block when the pipe is full.
        let rest = std::thread::spawn(move || {
            let mut text = String::new();
            for line in lines.map_while(Result::ok) {
                text.push_str(&line);
                text.push('\n');
            }
            text
        });
        Serving {
            child,
            addr: addr.to_string(),
            said,
            rest: Some(rest),
        }
    }

    /// Runs a client command against this server.
    pub fn ask(&self, args: &[&str]) -> Answer {
        self.ask_with(args, "")
    }

    /// Runs a client command against this server with `input` as standard input.
    pub fn ask_with(&self, args: &[&str], input: &str) -> Answer {
        drover(&[args, &["--server", &self.addr]].concat(), input)
    }

    /// Port at which the server listens for memcached clients, from its log.
    pub fn memcached_port(&self) -> u16 {
        let rest = self.said.split("memcached 127.0.0.1:").nth(1);
        let port = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        port.unwrap_or_else(|| panic!("no port is told:\n{}", self.said))
    }

    /// Process id of the server.
    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Sends SIGTERM and waits for the end. Returns the exit status, and the log since the server began to serve.
    pub fn stop_with_log(mut self) -> (i32, String) {
        rustix::process::kill_process(self.pid(), rustix::process::Signal::TERM).expect("it is our child");
        let status = self.child.wait().expect("it ends").code().unwrap_or(-1);
        let rest = self.rest.take().expect("nobody else takes it");
        (status, rest.join().expect("a reader of lines"))
    }

    /// Sends SIGTERM, waits for the end and returns the exit status.
    pub fn stop(self) -> i32 {
        self.stop_by(rustix::process::Signal::TERM)
    }

    /// Sends `signal`, waits for the end and returns the exit status.
    pub fn stop_by(mut self, signal: rustix::process::Signal) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it is our child");
        self.child.wait().expect("it ends").code().unwrap_or(-1)
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
