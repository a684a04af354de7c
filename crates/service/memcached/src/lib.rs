//! memcached's text and meta protocol over a partition of the store: parsing, execution and replies, without I/O.
//!
//! The crate knows no sockets and no clock: bytes come in, bytes go out, and the caller passes in what a step needs of
//! its core. The binary protocol is refused, in its own form; UDP is not supported. The differences from memcached are in [a
//! section below](#what-differs-from-memcached).
//!
//! - [`Session`] is one connection: a [`Protocol`](drover_net::Protocol) that reads input and appends replies.
//! - [`Executor`] holds the parts of its core that a step uses: the partition, the time, [`Core`] (state that stays),
//!   [`Server`] (state that all cores share), and a [`CoreRouter`] to the cores of other keys (such as [`Rings`]).
//! - [`Core::of_member`] is the state of a core in a service of several members, whose cores are reached by a [`MemberRouter`].
//! - [`parse::parse`] parses a [`Request`](request::Request) at the start of an input; the request borrows from it.
//!
//! ```
//! use drover_base::HashSeed;
//! use drover_mem::NativeCpu;
//! use drover_memcached::{Core, Executor, NoHooks, SingleCore, Server, Session, Settings};
//! use drover_net::{Output, Protocol, Need};
//! use drover_store::{Partition, PartitionOptions};
//! let options = PartitionOptions { log_bytes: 1 << 20, bucket_count: 1 << 10, ..Default::default() };
//! let (mut partition, cpu, mut core) = (Partition::new(&options)?, NativeCpu::new(1), Core::default());
//! let start_unix_s = 1_700_000_000; // the wall clock when `now_s` was 0
//! let hasher = HashSeed::new(1, 2).hasher();
//! let server = Server::new(hasher, start_unix_s, 1, Settings::default(), Box::new(NoHooks));
//!
//! let (mut session, mut output) = (Session::new(false), Output::new(1, 1 << 16));
//! let mut executor = Executor {
//!     partition: &mut partition,
//!     cpu: &cpu,
//!     now_s: 100,
//!     core: &mut core,
//!     server: &server,
//!     router: &mut SingleCore,
//! };
//! let input = b"set greeting 0 0 5\r\nhello\r\nget greeting\r\nmg gree";
//! let advance = session.advance(&mut executor, input, &mut output);
//! assert_eq!(output.only_piece(), Some(&b"STORED\r\nVALUE greeting 0 5\r\nhello\r\nEND\r\n"[..]));
//! assert_eq!(&input[advance.used..], b"mg gree");
//! assert_eq!(advance.need, Need::Input { at_least: 8 });
//! # Ok::<(), drover_mem::AllocError>(())
//! ```
//!
//! # Cost
//!
//! A request about a key allocates nothing, locks nothing and reads no clock (`tests/it/no_allocation.rs`). Its line is
//! read twice, once for its end and once for its words; its value is copied once, from the input into the item or from
//! the item into the output. Pipelined requests and the keys of a multiget are executed 32 at a time in three passes,
//! so that their memory is prefetched. `stats` and other rare commands build a string. `stats detail on` costs a lock
//! per request until it is off.
//!
//! # What differs from memcached
//!
//! Its behaviour is that of 1.6.18, to the byte (`tests/it/transcripts.rs` holds the same conversations with it), but:
//!
//! - of later versions, it has `E` (the CAS to give an item) and `x` of `md`, and `me` returns seconds left as a
//!   positive number;
//! - a line of more than [16 KiB](parse::LINE_BYTES_MAX) that is not a `get` or `gets` is answered by `CLIENT_ERROR
//!   line too long`; memcached closes the connection without a reply, from 2 KiB on if the line comes in pieces;
//! - a key too long in a multiget is an error of that command alone; memcached also drops replies to earlier commands
//!   of the same read;
//! - items do not record whether their key is binary: flag `k` returns it as base64 if the request gave it so;
//! - items of classic commands (`set` and its kind, `incr`, `decr`) do not record accesses, which saves 24 bytes each:
//!   `mg` with `h` or `l`, `me` and `metadump` show them as never fetched and last accessed when the server started;
//!   `watch evictions` knows whether they were fetched, but not when. Items of meta commands record accesses;
//! - there every access updates the last access time, to the second, not about once a minute;
//! - there are no slab classes and no crawler: commands about them are answered so that tools work, and change nothing.
//!   `cache_memlimit` accepts half of `-m` up to all of it, and nothing else with `-M` or a memory file.
//!
//! # In a service of several members
//!
//! Each member answers for every key: what another one serves is forwarded, what nobody serves now waits up to two seconds.
//! Then, or if the member is lost while it has the request, the reply is one line that begins with `SERVER_ERROR drover:`; but
//!
//! - a request with `noreply` gets none;
//! - a fetch of several keys has begun its reply, and so has `flush_all`: the connection is closed.
//!
//! `flush_all` is about all members. Lists of items and `stats` are about the member that is asked. Over a change of owner, items
//! keep what they are, but for two marks that an `mg` without `T`, `N` and `R` may set while the shard is copied: that it was fetched, and that one client has
//! won the right to recache a stale item.
//!
//! Source: the protocol as memcached 1.6.18 documents and speaks it *(read in public code)*.
#![forbid(unsafe_code)]

pub mod counters;
pub mod decide;
mod detail;
mod dump;
mod exec;
mod executor;
pub mod forward;
mod gather;
pub mod handover;
mod in_place;
mod line;
mod member;
pub mod parse;
pub mod replicas;
pub mod request;
mod rings;
mod router;
mod server;
mod session;
mod settings;
mod staged;
mod stats;
mod watch;

pub use counters::{Board, Counters};
pub use detail::Detail;
pub use executor::{Core, Executor};
pub use gather::each_reply;
pub use line::LineBuffer;
pub use member::{Count, Deliver, Delivery, LinkRefused, MemberCounters, MemberRouter, PeerLinks, Source};
pub use rings::{Inbound, Outbound, Receiver, Rings};
pub use router::{CoreRouter, RouteFull, SingleCore};
pub use server::{Connections, Judgement, Login, NoHooks, Server, ServerHooks};
pub use session::Session;
pub use settings::{AllowedCommands, GatewayInfo, ItemSettings, Settings, SocketInfo, TlsSettings};
pub use watch::{Guest, Watchers};
