//! Runs other programs: shows their command lines, passes their output on and scans it for test counts.

use crate::counts::Counts;
use crate::failures;
use crate::steps::StepResult;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the workspace")
        .to_path_buf()
}

/// Target directory for builds of kind `kind`, separate from ordinary builds so that neither rebuilds the other's
/// crates.
pub fn target_dir(kind: &str) -> PathBuf {
    let base = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    base.join(kind)
}

/// Builds `drover` as steps run it: as tests are built, with every assertion. It is optimised, and a simulation takes only
/// up to twice the time of a release, which would take minutes to build.
pub fn build_drover() -> StepResult {
    build_as_tests("drover")
}

/// Builds the binary called `name` with the workspace and one example, whose features are those of tests: alone it would be
/// rebuilt with fewer.
pub fn build_as_tests(name: &str) -> StepResult {
    let example = ["--example", "01_write_and_read"];
    run(cargo(&["build", "--quiet", "--workspace", "--bin", name]).args(example))
}

/// Path of that build.
pub fn drover_path() -> PathBuf {
    target_dir("debug").join("drover")
}

/// `cargo` with these arguments, at the root of the workspace, in the environment of a shell.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = as_from_a_shell("cargo");
    command.args(args).current_dir(root());
    command
}

/// A program that runs cargo, in the environment of a shell. `cargo run` describes xtask in variables that ring's build script
/// reads: if they stayed, ring and all crates above it would be built again whenever a user changes between `cargo xtask` and
/// cargo itself.
pub fn as_from_a_shell(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if describes_xtask(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command
}

fn describes_xtask(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Words before a command line whose process is killed when the thread that started it ends, however that ends: what a killed
/// chore leaves running would keep ports and cores. The process keeps its id.
pub const ENDS_WITH_PARENT: [&str; 3] = ["setpriv", "--pdeathsig", "KILL"];

/// A command that runs `program` until it ends, or this thread does.
pub fn ending_with_us(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let [first, rest @ ..] = ENDS_WITH_PARENT;
    let mut command = Command::new(first);
    command.args(rest).arg(program);
    command
}

/// Whether a program of this name is in `PATH`.
pub fn has(program: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else {
        return false;
    };
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs `command`.
///
/// # Errors
/// Its command line, if the exit status is not 0.
pub fn run(command: &mut Command) -> StepResult {
    show(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|e| cannot_start(command, &e))?;
    if status.success() {
        Ok(Counts::default())
    } else {
        Err(format!("{} ended with {status}", line_of(command)))
    }
}

/// Numbers of lines, the first and the last ones, of a failed program's output that are shown again.
const QUOTED: (usize, usize) = (12, 24);

/// Runs `command` and passes its standard output on.
///
/// # Errors
/// Its command line, if the exit status is not 0, and below it the first and last lines that it wrote: in a long log of many
/// programs they would be hard to find.
pub fn run_and_quote(command: &mut Command) -> StepResult {
    show(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| cannot_start(command, &e))?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut lines = Vec::new();
    for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        println!("{line}");
        lines.push(line);
        if lines.len() > QUOTED.0 + QUOTED.1 {
            lines.remove(QUOTED.0);
        }
    }
    let status = child
        .wait()
        .map_err(|e| format!("waiting for {}: {e}", line_of(command)))?;
    if status.success() {
        return Ok(Counts::default());
    }
    Err(format!(
        "{} ended with {status}\n{}",
        line_of(command),
        lines.join("\n")
    ))
}

/// Runs `command` and returns what it wrote to its standard output.
pub fn output(command: &mut Command) -> Result<String, String> {
    let out = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| cannot_start(command, &e))?;
    if !out.status.success() {
        return Err(format!("{} ended with {}", line_of(command), out.status));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Runs a test runner, passes its output on and sums its closing lines.
///
/// # Errors
/// The runner failed without a number of failed tests.
pub fn run_tests(command: &mut Command) -> StepResult {
    show(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| cannot_start(command, &e))?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    let counts = std::thread::scope(|scope| {
        let other = scope.spawn(|| pass_on(stderr, std::io::stderr()));
        let mut counts = pass_on(stdout, std::io::stdout());
        counts.add(other.join().expect("reading stderr does not panic"));
        counts
    });
    let status = child
        .wait()
        .map_err(|e| format!("waiting for {}: {e}", line_of(command)))?;
    if !status.success() && counts.failed == 0 {
        return Err(format!("{} ended with {status}", line_of(command)));
    }
    Ok(counts)
}

fn pass_on(from: impl Read, mut to: impl Write) -> Counts {
    let mut counts = Counts::default();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let _ = to.write_all(&line).and_then(|()| to.write_all(b"\n"));
        let line = String::from_utf8_lossy(&line);
        failures::read(&line);
        if let Some(more) = Counts::from_line(&line) {
            counts.add(more);
        }
    }
    counts
}

/// Prints a command before it runs.
pub fn show(command: &Command) {
    eprintln!("    {}", line_of(command));
}

/// The command as a shell line.
fn line_of(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

fn cannot_start(command: &Command, why: &std::io::Error) -> String {
    format!("cannot start {}: {why}", command.get_program().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The grandchild holds the writing end of the pipe, so reading ends when it has.
    #[test]
    fn what_ends_with_its_parent_does_not_outlive_it() {
        let grandchild = "sh -c 'echo started; exec sleep 600'";
        let line = format!("{} {grandchild} & wait", ENDS_WITH_PARENT.join(" "));
        let mut parent = Command::new("sh");
        let mut parent = parent
            .args(["-c", &line])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut said = BufReader::new(parent.stdout.take().expect("piped"));
        let mut started = String::new();
        said.read_line(&mut started).expect("it writes that");
        parent.kill().expect("it waits");
        parent.wait().expect("it was killed");
        said.read_to_string(&mut started).expect("the pipe ends");
        assert_eq!(started, "started\n");
    }
}
