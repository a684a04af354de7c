//! Prints how often every region of a program's sources was executed, from what `-C instrument-coverage` left behind:
//!
//! ```text
//! drover-coverage PROGRAM FOLDER/ PROFILE...
//! client/bulk.rs <tab> first line <tab> column <tab> last line <tab> column after it <tab> count
//! ```
//!
//! Only sources below `FOLDER/` are printed, by their path in there. A generic function has a record for each of its
//! instances, and one of zeros from the crate that defines it: equal regions are one region, and their counts are added.
#![forbid(unsafe_code)]

use llvm_profparser::{CoverageMapping, merge_profiles};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(program), Some(folder)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: drover-coverage PROGRAM FOLDER/ PROFILE...");
        return ExitCode::from(2);
    };
    let profiles: Vec<PathBuf> = arguments.collect();
    match regions(program, &folder.to_string_lossy(), &profiles) {
        Ok(regions) => {
            for ((path, [from, from_column, to, to_column]), count) in regions {
                println!("{path}\t{from}\t{from_column}\t{to}\t{to_column}\t{count}");
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("drover-coverage: {why}");
            ExitCode::FAILURE
        }
    }
}

type Regions = BTreeMap<(String, [usize; 4]), usize>;

fn regions(program: PathBuf, folder: &str, profiles: &[PathBuf]) -> Result<Regions, String> {
    let profile = merge_profiles(profiles).map_err(|e| format!("the profiles: {e}"))?;
    let programs = [program];
    let mapping = CoverageMapping::new(&programs, &profile, false).map_err(|e| e.to_string())?;
    let ours = |paths: &[PathBuf]| paths.iter().any(|path| within(path, folder).is_some());
    let report = mapping.generate_subreport(ours).map_err(|e| e.to_string())?;
    let mut regions = Regions::new();
    for (path, result) in &report.files {
        let Some(path) = within(path, folder) else {
            continue;
        };
        for (at, count) in &result.hits {
            let place = [at.line_start, at.column_start, at.line_end, at.column_end];
            let sum = regions.entry((path.clone(), place)).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    match regions.is_empty() {
        true => Err(format!("{} has no regions of {folder}", programs[0].display())),
        false => Ok(regions),
    }
}

/// What comes behind the folder in a path.
fn within(path: &Path, folder: &str) -> Option<String> {
    let text = path.to_string_lossy();
    text.find(folder).map(|at| text[at + folder.len()..].to_owned())
}
