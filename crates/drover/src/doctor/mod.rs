//! `drover doctor`: what this machine offers, and how to fix what is missing. Users of RDMA lose days with set-up, so
//! each finding that is not good ends with a command.

mod cluster;
mod cores;
mod fabric;
mod machine;
mod memory;
mod rdma;
mod systems;
mod verbs;

use crate::cluster::OptionalServiceArgs;
use machine::Machine;
use std::borrow::Cow;
use std::fmt;
use std::process::ExitCode;

/// Arguments of `doctor`.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 if `drover serve` can run here, 1 if something prevents it.")]
pub struct Args {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: OptionalServiceArgs,
}

/// Grade of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// As it should be.
    Good,
    /// `drover serve` works, but slower, with less certain measurements, or without something optional such as RDMA.
    Fair,
    /// Something is missing that `drover serve` needs.
    Bad,
}

/// Result of one check.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Finding {
    /// Short name of what was checked.
    pub what: Cow<'static, str>,
    /// Grade of the result.
    pub grade: Grade,
    /// What was found, with numbers.
    pub found: String,
    /// Advice to a person in a phrase, often with a command in it; `None` if the grade is [`Good`](Grade::Good).
    pub fix: Option<String>,
}

impl Finding {
    fn good(what: impl Into<Cow<'static, str>>, found: impl Into<String>) -> Finding {
        Finding {
            what: what.into(),
            grade: Grade::Good,
            found: found.into(),
            fix: None,
        }
    }

    fn fair(what: impl Into<Cow<'static, str>>, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            what: what.into(),
            grade: Grade::Fair,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }

    fn bad(what: impl Into<Cow<'static, str>>, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            what: what.into(),
            grade: Grade::Bad,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }
}

/// All checks, in the order of the output; what each device's verbs offer comes after them.
const CHECKS: &[fn(&Machine) -> Finding] = &[
    cores::count,
    cores::siblings,
    cores::round_trip,
    cores::clock,
    memory::huge_pages,
    memory::shared_transparent,
    memory::private_transparent,
    memory::locked,
    memory::open_files,
    fabric::runtime_folder,
    fabric::infiniband,
    rdma::library,
    rdma::active_ports,
    rdma::address,
    systems::offers,
];

/// Runs all checks and prints the results. Exit status 1: some finding is [bad](Grade::Bad).
pub fn run(args: &Args) -> ExitCode {
    let machine = Machine::this();
    let checks = CHECKS.iter().map(|check| check(&machine));
    let findings = checks.chain(verbs::offers(&machine));
    let findings: Vec<Finding> = findings.chain(cluster::findings(&args.service)).collect();
    if args.json {
        println!("{}", serde_json::json!({ "findings": findings }));
    } else {
        findings.iter().for_each(|finding| print!("{finding}"));
    }
    let bad = findings.iter().any(|finding| finding.grade == Grade::Bad);
    ExitCode::from(u8::from(bad))
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.grade {
            Grade::Good => "ok  ",
            Grade::Fair => "note",
            Grade::Bad => "BAD ",
        };
        writeln!(f, "{mark}  {:<22} {}", self.what, self.found)?;
        match &self.fix {
            Some(fix) => writeln!(f, "      {:<22} -> {fix}", ""),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_that_is_not_good_says_what_to_do() {
        let machine = Machine::empty();
        for check in CHECKS {
            let finding = check(&machine);
            assert_eq!(finding.fix.is_none(), finding.grade == Grade::Good, "{finding:?}");
        }
    }

    #[test]
    fn the_fix_stands_below() {
        let finding = Finding::fair("huge pages", "none reserved", "reserve some");
        let text =
            "note  huge pages             none reserved\n                             -> reserve some\n";
        assert_eq!(finding.to_string(), text);
    }
}
