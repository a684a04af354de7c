//! Published end-to-end results, with which predictions are compared.
//!
//! The results are in a crate of their own so that no profile can be fitted to them: `drover-figures`, which has the
//! calibration rows and the code that fits profiles to them, does not depend on this crate; only the `drover` program
//! does, which prints the figures.
//!
//! Sources: `[HERD]`, `[RFP]` and `[SMART]`, by figure; see `crates/lab/figures/data/README.md` for how the values were read.
#![forbid(unsafe_code)]

/// Results that the HERD paper publishes in its Figures 7 and 9 to 14, as CSV with the header
/// `figure,series,x,metric,unit,value,known_from`. `drover_figures::published` parses it and explains the columns.
pub const HERD: &str = include_str!("../data/herd.csv");

/// Results that the RFP paper publishes in its Figures 9 and 10, its Table 3 and its text, in the same form. Those of its
/// text stand at the point of the figure that they are about.
pub const RFP: &str = include_str!("../data/rfp.csv");

/// Results that the SMART paper publishes of RACE and Smart-HT in its Figures 5, 7, 8, 9 and 14, in the same form: the data of its
/// artifact, of Figures 7, 9 and 14 rounded.
pub const SMART: &str = include_str!("../data/smart.csv");

/// All results: a table for each paper.
pub const ALL: [&str; 3] = [HERD, RFP, SMART];

/// Results that nothing simulates, and why: the same columns and one more, without commas. Figures list them.
pub const NOT_SIMULATED: &str = include_str!("../data/not-simulated.csv");
