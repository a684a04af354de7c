//! [`Helper`]: this program as a child process that ends with its parent.
//!
//! A child started through it never outlives its parent, even one killed with SIGKILL: it requests a death signal from
//! the kernel before it runs its task.

use crate::bound::echo_main;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Command line that starts this program again as a child for a bench. The started program must call [`helper_main`]
/// with the arguments that follow [`arguments`](Helper::arguments).
#[derive(Clone, Debug)]
pub struct Helper {
    /// Path of the program to start, usually the running one.
    pub program: PathBuf,
    /// First arguments, which make that program call [`helper_main`]: usually a hidden subcommand.
    pub arguments: Vec<String>,
}

impl Helper {
    /// Helper that starts the running program, with `arguments` as its first arguments.
    ///
    /// # Errors
    /// The program's path is unknown.
    pub fn current(arguments: &[&str]) -> std::io::Result<Helper> {
        Ok(Helper {
            program: std::env::current_exe()?,
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
        })
    }

    /// Command for an echo process of the bounds.
    pub(crate) fn echo(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("echo");
        command
    }

    /// Command that runs `program` in a child that the kernel kills when the thread that spawned it ends. The caller
    /// appends the arguments of `program`.
    pub fn exec(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("exec").arg(program);
        command
    }
}

/// Makes the kernel end this process with its parent, even if that is killed. Stays in force across `exec`.
pub(crate) fn die_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// Main function of a child started through a [`Helper`]: with `arguments` `echo` it is the echo process of the bounds,
/// with `exec PROGRAM ARGUMENTS...` it becomes that program; with any others it fails. The kernel kills the child when
/// the thread that started it ends.
pub fn helper_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    die_with_parent();
    let mut arguments = arguments.into_iter();
    let role = arguments.next();
    match (role.as_ref().and_then(|r| r.to_str()), arguments.next()) {
        (Some("echo"), None) => echo_main(),
        (Some("exec"), Some(program)) => {
            let error = Command::new(&program).args(arguments).exec();
            eprintln!("{}: {error}", program.display());
            ExitCode::FAILURE
        }
        _ => {
            eprintln!("this command is started by bench itself");
            ExitCode::FAILURE
        }
    }
}
