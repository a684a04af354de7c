//! [`Helper`]: this program started again as a child that ends when we do.
//!
//! A child started through it never outlives its parent, even one killed with SIGKILL: it asks the kernel for a
//! death signal before it becomes what was asked for.

use crate::bound::echo_main;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// How to start this program again so that it calls [`helper_main`] with the arguments that follow.
#[derive(Clone, Debug)]
pub struct Helper {
    /// This program.
    pub program: PathBuf,
    /// What leads to [`helper_main`], a hidden subcommand as a rule.
    pub arguments: Vec<String>,
}

impl Helper {
    /// The running program with `arguments`.
    pub fn current(arguments: &[&str]) -> std::io::Result<Helper> {
        Ok(Helper {
            program: std::env::current_exe()?,
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
        })
    }

    /// Will become an echo process of the bounds.
    pub(crate) fn echo(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("echo");
        command
    }

    /// Will become `program`; the caller appends its arguments.
    pub fn exec(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("exec").arg(program);
        command
    }
}

/// Has the kernel end this process with its parent: one that is killed cannot say so. Stays set across `exec`.
pub(crate) fn die_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// The child's side: `echo`, or `exec PROGRAM ARGUMENTS...`.
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
