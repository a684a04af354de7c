//! Published figures, run again: microbenchmarks over the verbs API, with what was published printed beside.
//!
//! It is not a place for end-to-end results: the rows that predictions are held against stand in `drover-heldout`, which
//! this crate cannot reach, because here profiles are fitted.
//!
//! - [`cluster::Cluster`] is a cluster of machines, by whichever provider; [`micro`] runs in it without knowing which.
//! - [`figure::Figure`] is a published figure as a list of points; [`catalogue::all`] lists them.
//! - [`herd::Herd`] and [`one_sided::OneSided`] are points whose work is a real system, servers and clients ([`in_cluster`]).
//! - [`run`] runs points side by side; [`output`] writes files, drawings and reports.
//! - [`calibrate`] fits profiles to calibration rows.
//! - [`published::Expected`] holds published values.
//!
//! Sources: `[HERD]`, `[A16]`, `[FaSST]`, `[RFP]`, `[SMART]`, `[PRISM]`; see `docs/sources.md`.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod catalogue;
pub mod cluster;
pub mod figure;
pub mod herd;
pub mod in_cluster;
pub mod micro;
pub mod one_sided;
pub mod output;
pub mod published;
pub mod run;
pub mod sim;
