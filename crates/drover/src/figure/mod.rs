//! `drover figure`: published figures, run in the simulator, next to the published values.

use crate::exit::{self, Failure, OS_ERROR, USAGE};
use crate::sim::seeds_from;
use clap::ValueEnum;
use drover_bench::Progress;
use drover_figures::figure::Figure;
use drover_figures::in_cluster::SEEN;
use drover_figures::output::{self, About};
use drover_figures::published::Expected;
use drover_figures::run::{FigureRun, Profiles, RunOptions, run_count, run_figures};
use drover_figures::sim::Simulated;
use drover_verbs_sim::Ablations;
use drover_verbs_sim::profile::{KEYS, Profile, Tag};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;

/// Arguments of `figure`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  drover figure list                    names, one per line
  drover figure herd-3 --out figures    figures/herd-3.csv, figures/herd-3.svg and figures/report.html
  drover figure herd-3 herd-4 --out d   both, and d/report.html with both
  drover figure all --out figures       every figure, and figures/report.html with all of them
  drover figure herd-13 --without cpu   the card's limit if cores took no time

All results are simulated; the columns `expected` and `ratio` hold the published value and the ratio to it. Claims about whole \
curves, where there are any, are judged below the values: where curves peak, which is higher, ratios at the greatest load.")]
pub struct Args {
    /// Names of figures, `all`, or `list`
    #[arg(value_name = "NAME", default_value = "list")]
    names: Vec<String>,
    /// Directory for NAME.csv, NAME.svg, NAME-judged.csv if anything is claimed of its curves, and report.html with all
    /// figures of this run, which needs no other file
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seeds per point; the mean is shown
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Shorter runs, good to a few percent
    #[arg(long)]
    quick: bool,
    /// Remove a limit of the simulated machines, to see its effect; the published values stay in the output
    #[arg(long, value_name = "LIMIT", value_delimiter = ',')]
    without: Vec<Limit>,
    /// Threads that run points [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Read this profile instead of the built-in one of the same name; may be given several times
    #[arg(long, value_name = "FILE")]
    profile: Vec<PathBuf>,
    /// No progress bar, no tables
    #[arg(long, short)]
    quiet: bool,
}

/// A limit of machines that can be removed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Limit {
    /// Contexts of queue pairs and work requests always hit the card's caches
    Caches,
    /// Doorbell registers have no locks
    Locks,
    /// Links carry any number of bytes at once
    Links,
    /// Cores need no time
    Cpu,
}

fn ablations(without: &[Limit]) -> Ablations {
    let without = |limit| without.contains(&limit);
    Ablations {
        caches: without(Limit::Caches),
        locks: without(Limit::Locks),
        links: without(Limit::Links),
        cpu: without(Limit::Cpu),
    }
}

/// Lists figures, or runs the chosen ones and prints their tables (not with `--quiet`); with `--out` also writes files.
pub fn run(args: &Args) -> ExitCode {
    exit::from_result(figure(args))
}

fn figure(args: &Args) -> Result<(), Failure> {
    let all = figures();
    if args.names == ["list"] {
        all.iter()
            .for_each(|figure| println!("{:<10} {}", figure.name, figure.title));
        return Ok(());
    }
    let chosen = chosen(all, &args.names)?;
    seeds_from(args.seed, args.seeds)?;
    let profiles = profiles(&args.profile)?;
    let options = RunOptions {
        seeds: args.seeds,
        first_seed: args.seed,
        quick: args.quick,
        jobs: args.jobs.unwrap_or_else(jobs),
    };
    let progress = Progress::new(!args.quiet);
    let counter = progress.phase(
        format!("figure {}", args.names.join(" ")),
        run_count(&chosen, &options),
    );
    let results = run_figures(
        &Simulated {
            ablations: ablations(&args.without),
        },
        &chosen,
        &profiles,
        &expected(),
        &options,
        &counter,
    );
    drop(progress);
    if !args.quiet {
        results
            .iter()
            .for_each(|result| println!("{}", output::table(result)));
    }
    if let Some(out) = &args.out {
        write(out, &results, &about(&chosen, &profiles, &options, &args.without))
            .map_err(|error| cannot_write(out, &error))?;
    }
    Ok(())
}

/// The figures that are named, in the order of the list, each once.
fn chosen(all: Vec<Figure>, names: &[String]) -> Result<Vec<Figure>, Failure> {
    let is_known = |name: &String| name == "all" || all.iter().any(|figure| figure.name == name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        let text = format!("no figure is called `{name}`; `drover figure list` lists them");
        return Err(Failure::new(USAGE, text));
    }
    let is_chosen = |figure: &Figure| names.iter().any(|name| name == "all" || name == figure.name);
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// All figures.
fn figures() -> Vec<Figure> {
    drover_figures::catalogue::all()
}

/// Expected values: calibration rows, held-out ones, and those that nothing simulates. Only this crate has all of them.
fn expected() -> Expected {
    let mut expected = Expected::calibration();
    for table in drover_heldout::ALL {
        expected.add(table).expect("our own tables are well-formed");
    }
    let listed = expected.list(drover_heldout::NOT_SIMULATED);
    listed.expect("our own table is well-formed");
    expected
}

/// Names of the figures with held-out values.
fn held_out() -> BTreeSet<&'static str> {
    let rows = drover_heldout::ALL
        .into_iter()
        .flat_map(|table| table.lines().skip(1));
    rows.filter_map(|row| row.split(',').next()).collect()
}

/// The built-in profiles, replaced by those of files with the same names.
pub(crate) fn profiles(files: &[PathBuf]) -> Result<Profiles, Failure> {
    let mut profiles = Profiles::builtin();
    for file in files {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::new(exit::NO_INPUT, format!("{}: {error}", file.display())))?;
        let profile = Profile::parse(&text)
            .map_err(|error| Failure::new(USAGE, format!("{}: {error}", file.display())))?;
        if !Profile::names().contains(&profile.name()) {
            let text = format!(
                "{}: no figure runs on a profile called `{}`",
                file.display(),
                profile.name()
            );
            return Err(Failure::new(USAGE, text));
        }
        profiles.replace(profile);
    }
    Ok(profiles)
}

/// Default number of threads: one per core.
pub(crate) fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Description of the run for the report.
fn about(figures: &[Figure], profiles: &Profiles, options: &RunOptions, without: &[Limit]) -> About {
    let without = without.iter().filter_map(ValueEnum::to_possible_value);
    let without: String = without
        .map(|limit| format!(", without {}", limit.get_name()))
        .collect();
    let used: BTreeSet<&str> = figures
        .iter()
        .flat_map(|figure| (figure.points)().into_iter().map(|point| point.profile))
        .collect();
    let leak = |name: &str| -> Vec<String> {
        let profile = profiles.named(name);
        let leaks = KEYS
            .iter()
            .filter(|key| profile.entry(key.path).is_some_and(|e| e.tag == Tag::Leak));
        leaks.map(|key| format!("{name}: {}", key.path)).collect()
    };
    let names = figures.iter().map(|figure| figure.name);
    let is_held_out = held_out();
    let heldout: Vec<_> = names.filter(|name| is_held_out.contains(name)).collect();
    let seen = SEEN
        .iter()
        .filter(|_| !heldout.is_empty())
        .map(|what| what.to_string());
    About {
        commit: drover_bench::COMMIT.to_string(),
        seeds: format!(
            "seeds {} to {}{}{without}",
            options.first_seed,
            options.first_seed + options.seeds - 1,
            if options.quick { ", quick" } else { "" },
        ),
        profiles: used
            .iter()
            .map(|name| (name.to_string(), profiles.named(name).hash()))
            .collect(),
        leaks: used.iter().flat_map(|name| leak(name)).chain(seen).collect(),
        heldout,
    }
}

fn write(out: &Path, results: &[FigureRun], about: &About) -> std::io::Result<()> {
    std::fs::create_dir_all(out)?;
    for result in results {
        let name = result.figure.name;
        std::fs::write(out.join(format!("{name}.csv")), output::csv(result))?;
        std::fs::write(out.join(format!("{name}.svg")), output::svg(result))?;
        let judgements = result.judgements();
        if !judgements.is_empty() {
            let file = out.join(format!("{name}-judged.csv"));
            std::fs::write(file, output::judged_csv(&judgements))?;
        }
    }
    std::fs::write(out.join("report.html"), output::html(results, about))
}

pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(OS_ERROR, format!("cannot write to {}: {error}", path.display()))
}

/// A progress counter that is not displayed.
pub(crate) fn nobody_watches() -> AtomicU64 {
    AtomicU64::new(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published values that no run can give stand beside the others, with the reason.
    #[test]
    fn what_is_not_simulated_is_listed() {
        let expected = expected();
        for (figure, count) in [("rfp-mix", 2), ("rfp-17", 3), ("rfp-12", 0)] {
            let listed: Vec<_> = expected.listed(figure).collect();
            assert_eq!(listed.len(), count, "{figure}: {listed:?}");
            assert!(listed.iter().all(|(row, why)| row.value > 0.0 && !why.is_empty()));
        }
    }

    #[test]
    fn several_figures_are_chosen_by_name_and_a_wrong_name_is_said() {
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|name| name.to_string()).collect() };
        let found = |of: &[&str]| chosen(figures(), &names(of)).map(|all| all.len());
        assert_eq!(found(&["herd-4", "herd-3", "herd-4"]).ok(), Some(2));
        assert_eq!(found(&["herd-4", "all"]).ok(), Some(figures().len()));
        let failure = found(&["herd-4", "herd-99"]).expect_err("no such figure");
        assert!(failure.text.contains("`herd-99`"), "{}", failure.text);
    }

    #[test]
    fn every_held_out_value_has_its_prediction() {
        let (expected, figures) = (expected(), figures());
        for name in held_out() {
            let figure = figures.iter().find(|figure| figure.name == name);
            let points = (figure.expect(name).points)();
            for row in expected.rows(name) {
                let has = points.iter().any(|point| {
                    let metric = point.metrics.iter().any(|metric| metric.name() == row.metric);
                    point.series == row.series && point.x == row.x && metric
                });
                assert!(has, "nothing predicts {row:?}");
            }
        }
    }
}
