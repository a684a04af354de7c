//! `drover completions`: what completes commands and options in a shell, generated from the command line's definition.

use crate::cli::Cli;
use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::generate;
use std::io::Write;
use std::process::ExitCode;

/// Arguments of `completions`.
#[derive(clap::Args)]
#[command(after_help = "\
The Debian package installs all three. To have them in the present shell:
  bash  source <(drover completions bash)
  zsh   source <(drover completions zsh)
  fish  drover completions fish | source")]
pub struct Args {
    /// Shell that completes
    shell: Shell,
}

/// Shells that a package has completions for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the completions of a shell. Always succeeds: a closed output has seen enough.
pub fn run(args: &Args) -> ExitCode {
    let _ = std::io::stdout().lock().write_all(&text(args.shell));
    ExitCode::SUCCESS
}

fn text(shell: Shell) -> Vec<u8> {
    let mut program = shown();
    let mut text = Vec::new();
    match shell {
        Shell::Bash => generate(clap_complete::Shell::Bash, &mut program, "drover", &mut text),
        Shell::Zsh => generate(clap_complete::Shell::Zsh, &mut program, "drover", &mut text),
        Shell::Fish => generate(clap_complete::Shell::Fish, &mut program, "drover", &mut text),
    }
    text
}

/// The command line without the commands that are hidden.
fn shown() -> Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
    let shown: Vec<Command> = shown.cloned().collect();
    Command::new("drover")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_has_every_command_and_option_that_is_shown() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(text(shell)).expect("UTF-8");
            for command in shown().get_subcommands() {
                assert!(
                    text.contains(command.get_name()),
                    "{shell:?}: {}",
                    command.get_name()
                );
                for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                    let long = arg.get_long().unwrap_or_default();
                    assert!(text.contains(long), "{shell:?}: {} --{long}", command.get_name());
                }
            }
            assert!(!text.contains(crate::bench::HELPER), "{shell:?}: hidden commands");
        }
    }
}
