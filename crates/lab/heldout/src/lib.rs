//! Published end-to-end results: what a prediction is printed beside.
//!
//! It is a crate of its own so that the fit cannot reach it: `drover-figures`, which holds the calibration rows and
//! the code that fits profiles to them, does not depend on this crate, and only the program that prints figures
//! does. It is data and nothing else; the columns are those of `drover_figures::published`.
//!
//! Sources: `[HERD]`, by figure; see `crates/lab/figures/data/README.md` for how the values were read.
#![forbid(unsafe_code)]

/// The rows, as CSV with a header: `figure,series,x,metric,unit,value,known_from`.
pub const HERD: &str = include_str!("../data/herd.csv");
