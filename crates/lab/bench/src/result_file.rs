//! Result files: one per run, `DIRECTORY/MACHINE/TIME-bench.json`, with the latencies as HDR text next to it.

use crate::latency::Latency;
use crate::report::Report;
use std::io;
use std::path::{Path, PathBuf};

/// Default directory of result files: `$XDG_STATE_HOME/drover/results`, or if that variable is no absolute path,
/// `$HOME/.local/state/drover/results`; `None` if neither variable is.
pub fn default_directory() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("drover/results"))
}

/// Writes the report and the latency distribution to two new files in a folder of `directory` named after the machine;
/// creates both folders if missing. Returns the report's path; the distribution's differs in the extension, `hgrm`.
///
/// # Errors
/// A file or folder could not be written.
pub fn write(directory: &Path, report: &Report, latency: &Latency) -> io::Result<PathBuf> {
    let folder = directory.join(&report.run.machine.name);
    std::fs::create_dir_all(&folder)?;
    let stem = format!("{}-bench", stamp(report.run.time));
    let (path, mut file) = create_new(&folder, &stem)?;
    serde_json::to_writer_pretty(&mut file, report)?;
    std::fs::write(path.with_extension("hgrm"), latency.to_hdr_text())?;
    Ok(path)
}

/// Reads a report from a file.
///
/// # Errors
/// The file could not be read, or is not a report.
pub fn read(path: &Path) -> io::Result<Report> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// Creates a new file: two runs within a second do not overwrite each other.
fn create_new(folder: &Path, stem: &str) -> io::Result<(PathBuf, std::fs::File)> {
    for nth in 1.. {
        let name = if nth == 1 {
            format!("{stem}.json")
        } else {
            format!("{stem}-{nth}.json")
        };
        let path = folder.join(name);
        match std::fs::File::create_new(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("some number is free")
}

/// Current time in seconds since 1970 (UTC), for result files only; 0 if the clock is set to an earlier time.
#[allow(clippy::disallowed_methods, reason = "result files carry a date")]
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| d.as_secs())
}

/// A time as `20261122T004211Z`.
fn stamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Gregorian date of a day since 1970: 400-year eras that begin in March, so that leap days come last.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Placement;
    use crate::report::tests::sample;

    #[test]
    fn dates() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_782_400), "20000229T000000Z");
        assert_eq!(stamp(1_795_305_731), "20261122T000211Z");
        assert_eq!(stamp(4_107_542_399), "21000228T235959Z");
    }

    #[test]
    fn a_report_survives_the_file_and_a_second_one_overwrites_nothing() {
        let directory = std::env::temp_dir().join(format!("drover-results-{}", std::process::id()));
        let mut report = Report {
            system: "herd".to_owned(),
            samples: vec![sample(1e6, Placement::Near), sample(3e6, Placement::Near)],
            ..Report::default()
        };
        report.run.seed = 42;
        report.run.machine.name = "m".to_owned();
        report.summarize();
        let first = write(&directory, &report, &Latency::new()).expect("a file");
        let second = write(&directory, &report, &Latency::new()).expect("a file");
        assert_ne!(first, second);
        assert_eq!(read(&first).expect("a report"), report);
        assert!(first.with_extension("hgrm").exists());
        std::fs::remove_dir_all(&directory).expect("ours");
    }
}
