//! [`Variant`]: all that the systems of this crate differ in.

use drover_kv::{Channels, Counter, Facts, Offers, Planted};
use drover_rpc::fetch::{Guarded, Guards, Transfer};
use std::fmt::Debug;
use std::marker::PhantomData;

/// What a system of this crate is called, and how its results travel.
pub trait Variant: Copy + Debug + Send + Sync + 'static {
    /// Static properties of the system.
    const FACTS: Facts;
    /// How results come to clients.
    const TRANSFER: Transfer;
    /// Whether a server waits until the WRITE of a result has completed before it takes another request.
    const WAITS: bool = false;
    /// Name of the system's curve in figures.
    const CURVE: &'static str;
    /// Flaws that campaigns of simulations must find.
    const PLANTED: &'static [Planted<Flaw>];
    /// What both ends check: everything, but in tests.
    type Guards: Guards;
}

const NO_CRC: Planted<Flaw> = Planted {
    name: "no-crc",
    about: "requests and results are taken though their checksums say that they have not arrived completely",
    scenario: "tear",
    mistake: Flaw::NoSum,
};

const EXECUTE_TWICE: Planted<Flaw> = Planted {
    name: "execute-twice",
    about: "a server executes an update that it has executed, if it comes again after a connection has failed",
    scenario: "break",
    mistake: Flaw::ExecuteTwice,
};

const COUNTERS: &[Counter] = &[
    Counter::events("gets", "GETs executed."),
    Counter::events("puts", "PUTs executed or refused."),
    Counter::events("deletes", "DELETEs executed."),
    Counter::events("pulls", "Long values fetched from clients by READ."),
    Counter::events("long_pushes", "Long values written to clients' memory."),
    Counter::amount("items", "Items stored now."),
    Counter::amount("bytes", "Bytes of the items, with headers and the heap's tags."),
    Counter::events("evictions", "Items evicted to make space for others."),
    Counter::amount("places", "Slots of the indexes."),
    drover_one_sided::REFUSED_MEMORY_FULL,
    Counter::events(
        "results_parked",
        "Results left in the server's memory for clients to READ.",
    ),
    Counter::events("results_pushed", "Results written to clients at once."),
    Counter::events(
        "results_pushed_late",
        "Results written to clients after they had been left to be READ.",
    ),
    Counter::events(
        "request_sum_rejects",
        "Requests found with a wrong checksum: while they arrived, or malformed ones.",
    ),
    drover_one_sided::REPEATED,
    drover_one_sided::CLIENTS,
];

const fn facts(name: &'static str, about: &'static str, service: bool) -> Facts {
    Facts {
        name,
        about,
        needs: "RC queue pairs with READ",
        fits: |caps| caps.supports.rc,
        table: None,
        channels: Channels::PerShard,
        offers: Offers {
            service,
            eviction: Err("a full bucket evicts the item that was used longest ago"),
            ..Offers::native_only("its items do not outlive the process")
        },
        counters: COUNTERS,
        work: crate::costs::BUDGET,
    }
}

/// Jakiro: clients READ results, and have them pushed while the server is slow.
#[derive(Clone, Copy, Debug)]
pub struct JakiroVariant;

impl Variant for JakiroVariant {
    const FACTS: Facts = facts(
        "jakiro",
        "requests are WRITTEN into slots, clients READ the results (RFP), or have them pushed if the server is slow",
        true,
    );
    const TRANSFER: Transfer = Transfer::Auto;
    const CURVE: &'static str = "Jakiro";
    const PLANTED: &'static [Planted<Flaw>] = &[
        Planted {
            name: "no-seq",
            about: "a client takes the result that is in the slot for that of its call, whatever its sequence number",
            scenario: "slow",
            mistake: Flaw::NoSequence,
        },
        NO_CRC,
        Planted {
            name: "no-recheck",
            about: "a server looks at the mode of a result only once, so that one left to be READ is never pushed",
            scenario: "slow",
            mistake: Flaw::NoRecheck,
        },
        EXECUTE_TWICE,
        Planted {
            name: "push-into-landing",
            about: "results are pushed into the memory that READs use, not into that in which the client waits for them",
            scenario: "slow",
            mistake: Flaw::PushIntoLanding,
        },
    ];
    type Guards = Guarded;
}

/// ServerReply, tuned: the same, but the server WRITEs every result to the client.
#[derive(Clone, Copy, Debug)]
pub struct ServerReplyVariant;

impl Variant for ServerReplyVariant {
    const FACTS: Facts = facts(
        "server-reply",
        "requests are WRITTEN into slots, the server WRITEs the results to the clients' memory",
        true,
    );
    const TRANSFER: Transfer = Transfer::Reply;
    const CURVE: &'static str = "ServerReply";
    /// A sequence number is not what makes pushed results right as long as connections are reliable: none comes late.
    const PLANTED: &'static [Planted<Flaw>] = &[NO_CRC, EXECUTE_TWICE];
    type Guards = Guarded;
}

/// ServerReply as the paper measures it: a core of the server posts one WRITE at a time, and does nothing until it has
/// completed.
#[derive(Clone, Copy, Debug)]
pub struct ServerReplyFaithfulVariant;

impl Variant for ServerReplyFaithfulVariant {
    const FACTS: Facts = facts(
        "server-reply-faithful",
        "server-reply whose cores wait for the completion of each WRITE, as published; to be measured, not to serve",
        false,
    );
    const TRANSFER: Transfer = Transfer::Reply;
    const WAITS: bool = true;
    const CURVE: &'static str = "ServerReply faithful";
    /// The protections are those of [`ServerReplyVariant`].
    const PLANTED: &'static [Planted<Flaw>] = &[];
    type Guards = Guarded;
}

/// A protection that both ends lack. Campaigns of simulations must find that it is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// Any result is taken for the call's.
    NoSequence,
    /// Requests and results are believed whatever their checksums say.
    NoSum,
    /// Modes of results that were left to be fetched are not looked at again.
    NoRecheck,
    /// Updates that come again are executed again.
    ExecuteTwice,
    /// Pushed results land where READs do.
    PushIntoLanding,
}

/// `V` with the protections `G` instead of all.
#[derive(Clone, Copy, Debug)]
pub struct Flawed<V, G>(PhantomData<(V, G)>);

impl<V: Variant, G: Guards + Send + Sync> Variant for Flawed<V, G> {
    const FACTS: Facts = V::FACTS;
    const TRANSFER: Transfer = V::TRANSFER;
    const WAITS: bool = V::WAITS;
    const CURVE: &'static str = V::CURVE;
    const PLANTED: &'static [Planted<Flaw>] = &[];
    type Guards = G;
}

/// See [`Flaw::NoSequence`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct NoSequence;

impl Guards for NoSequence {
    const SEQUENCE: bool = false;
}

/// See [`Flaw::NoSum`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct NoSum;

impl Guards for NoSum {
    const SUM: bool = false;
}

/// See [`Flaw::NoRecheck`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct NoRecheck;

impl Guards for NoRecheck {
    const RECHECK: bool = false;
}

/// See [`Flaw::ExecuteTwice`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct ExecuteTwice;

impl Guards for ExecuteTwice {
    const ONCE: bool = false;
}

/// See [`Flaw::PushIntoLanding`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct PushIntoLanding;

impl Guards for PushIntoLanding {
    const OWN_AREA: bool = false;
}
