//! Published figures, reproduced: microbenchmarks over the verbs API, with the published values next to the results.
//!
//! End-to-end results are elsewhere: the rows for checking predictions are in `drover-heldout`, on which this crate
//! must not depend, because it fits the profiles.
//!
//! - [`cluster::Cluster`] is a cluster of machines, from any provider; [`micro`] runs in it without knowing which.
//! - [`figure::Figure`] is a published figure as a list of points; [`catalogue::all`] lists them.
//! - [`in_cluster::InCluster`] is a point that runs a real system, servers and clients.
//! - [`in_pool::InPool`] is a point that runs RACE over memory nodes.
//! - [`sockets::Sockets`] is a point of a model of memcached's sockets, in which no code of ours runs.
//! - [`judge`](mod@judge) says whether curves have the shape of the published ones.
//! - [`run`] runs points in parallel; [`output`] writes files, drawings and reports.
//! - [`calibrate`] fits profiles to calibration rows.
//! - [`published::Expected`] holds published values.
//!
//! Sources: `[HERD]`, `[A16]`, `[FaSST]`, `[RFP]`, `[SMART]`, `[PRISM]`; see `docs/sources.md`.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod catalogue;
pub mod cluster;
pub mod figure;
pub mod in_cluster;
pub mod in_pool;
pub mod judge;
pub mod micro;
pub mod output;
pub mod published;
pub mod run;
pub mod sim;
pub mod sockets;
