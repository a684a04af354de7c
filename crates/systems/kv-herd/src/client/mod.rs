//! The client: keeps a window of requests per partition, matches replies, retransmits, resynchronises,
//! reconnects.
//!
//! ```text
//! submit -- hash -- conflict with an operation under way? --yes--> waiting --pump-.
//!                     | no                                                        |
//!                     v                                                           v
//!                  window slot -> staged WRITE -> flush ... reply -> completion (or retransmission)
//! ```
//!
//! One operation is one request in one slot at a time. The client keeps it until it has a definite end:
//!
//! | what happens | PUT, DELETE | GET |
//! |---|---|---|
//! | no reply in time | same request again, up to 5 times; then the slot is quarantined and the server asked | same |
//! | answered `StaleEpoch` (worker restarted) | server asked, then `Indeterminate` | server asked, then sent anew |
//! | `Resynced`: executed | its status | sent anew |
//! | `Resynced`: not executed, and never will be | sent anew | sent anew |
//! | the session ends, request posted | `Indeterminate` | sent anew in the next session |
//! | the session ends, not posted | sent in the next session | same |
//! | deadline, request posted | `Indeterminate`; the slot stays quarantined | `Refused(Unavailable)` |
//! | deadline, not posted | `Refused(Unavailable)` | same |
//!
//! Conflicting operations on one key are in flight together only where nothing in this table can reorder them:
//! [`Conflicts`](drover_slots::client::Conflicts).

mod bulk;
mod complete;
mod connect;
mod format;
mod guess;
mod handshake;
mod herd_client;
mod options;
mod resources;
mod retry;
mod session;
mod stats;
mod submit;
mod waiting;

pub use connect::RECONNECT_MAX;
pub use drover_control::Dial;
pub use format::{Keyed, Paper, RequestFormat};
pub use herd_client::HerdClient;
pub use options::ClientOptions;
pub use stats::ClientStats;

use drover_kv::Completion;

/// Callback for completed operations. It is `dyn` for the rare paths, so that they are compiled once.
type Sink<'a> = &'a mut dyn FnMut(Completion<'_>);
