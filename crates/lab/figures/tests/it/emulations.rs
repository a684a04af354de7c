//! The emulations in simulated clusters: what follows from READ rates, and the order of systems. Nothing here is compared
//! with a published rate of the emulations themselves.
#![allow(missing_docs, reason = "tests are named after what they show")]

use crate::points::{mops, named, run};
use drover_figures::catalogue::emulations;
use drover_figures::figure::Point;

#[test]
fn fewer_and_shorter_reads_are_faster_and_puts_faster_still() {
    let found = run(emulations::by_put_share(), |_| true);
    let at = |series, x| mops(&found, series, x);
    let [pilaf, var, farm] = ["Pilaf-em-OPT", "FaRM-em-VAR", "FaRM-em"].map(|series| at(series, 5.0));
    assert!(pilaf < var && var < farm, "{pilaf} {var} {farm}");
    for series in ["Pilaf-em-OPT", "FaRM-em-VAR", "FaRM-em"] {
        assert!(
            at(series, 5.0) < at(series, 50.0) && at(series, 50.0) < at(series, 100.0),
            "{series}"
        );
    }
    // 2.6 READs of at most 32 B, of which a card serves 26 million per second, and few PUTs.
    assert!((0.9..1.15).contains(&(pilaf * 2.6 / 26.0)), "{pilaf} Mops");
}

#[test]
fn long_values_cost_farm_most() {
    let ends = |point: &Point| [4.0, 1024.0].contains(&point.x);
    let found = run(emulations::by_value("apt"), ends);
    let fall = |series| mops(&found, series, 4.0) / mops(&found, series, 1024.0);
    assert!(fall("FaRM-em") > 10.0 && fall("FaRM-em-VAR") < 3.0 && fall("Pilaf-em-OPT") < 3.0);
}

#[test]
fn a_get_takes_as_many_round_trips_as_it_has_reads() {
    let least = |point: &Point| point.x < 1.0;
    let found = run(emulations::by_rate(), least);
    let latency = |series: &str| {
        let (_, outcome) = found
            .iter()
            .find(|(point, _)| point.series == series)
            .expect("a point");
        named(outcome, "latency mean")
    };
    let [farm, var, pilaf] = ["FaRM-em", "FaRM-em-VAR", "Pilaf-em-OPT"].map(latency);
    assert!((1.7..2.1).contains(&(var / farm)), "{var} / {farm} us");
    assert!((2.2..2.8).contains(&(pilaf / farm)), "{pilaf} / {farm} us");
}

#[test]
fn messages_cost_a_core_more_than_polled_memory() {
    let found = run(emulations::by_cores(), |point| point.x <= 2.0);
    let one = |series| mops(&found, series, 1.0);
    assert!(one("Pilaf-em-OPT / PUT") < one("FaRM-em / PUT"));
    for series in ["Pilaf-em-OPT / PUT", "FaRM-em / PUT"] {
        let gain = mops(&found, series, 2.0) / one(series);
        assert!((1.8..2.1).contains(&gain), "{series}: {gain} times one core");
    }
}
