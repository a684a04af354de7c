//! [`Variant`]: all that the systems of this crate differ in.

use crate::server::ShardStore;
use crate::system::Rfp;
use drover_kv::{Channels, Counter, Facts, MistakenJob, Offers, Planted};
use drover_rpc::fetch::{Guarded, Guards, Transfer};
use drover_store::{Partition, StripedGuards, StripedStore};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a system of this crate is called, and how its results travel.
pub trait Variant: Copy + Debug + Send + Sync + 'static {
    /// Static properties of the system.
    const FACTS: Facts;
    /// How results come to clients.
    const TRANSFER: Transfer;
    /// Whether a server waits until the WRITE of a result has completed before it takes another request.
    const WAITS: bool = false;
    /// Whether an update that comes again over another session is answered, and not executed: always, but in tests.
    const ONCE: bool = true;
    /// Name of the system's curve in figures.
    const CURVE: &'static str;
    /// Flaws that campaigns of simulations must find.
    const PLANTED: &'static [Planted<Flaw>];
    /// What both ends check of requests and results: everything, but in tests.
    type Guards: Guards;
    /// What a server executes requests on.
    type Store: ShardStore;

    /// Runs `job` with this variant without the protection that `flaw` names, one of [`PLANTED`](Variant::PLANTED).
    fn mistaken<J: MistakenJob>(flaw: Flaw, job: J) -> J::Answer {
        let _ = flaw;
        job.run::<Rfp<Self>>(None)
    }
}

const NO_CRC: Planted<Flaw> = Planted {
    name: "no-crc",
    about: "requests and results are taken though their checksums say that they have not arrived completely",
    scenario: "tear",
    mistake: Flaw::NoSum,
};

/// Without it, a pushed result is taken twice whose tail lands after an older byte has passed for it.
const NO_SEQ: Planted<Flaw> = Planted {
    name: "no-seq",
    about: "a client takes the result that is in the slot for that of its call, whatever its sequence number",
    scenario: "table",
    mistake: Flaw::NoSequence,
};

const EXECUTE_TWICE: Planted<Flaw> = Planted {
    name: "execute-twice",
    about: "a server executes an update that it has executed, if it comes again after a connection has failed",
    scenario: "break",
    mistake: Flaw::ExecuteTwice,
};

/// The counters of a system whose shards have items of their own; [`CLIENTS`](drover_one_sided::CLIENTS) is added.
const COUNTERS: [Counter; 16] = [
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
    Counter::events(
        "quarantined",
        "Sessions that have ended, whose slots and queue pairs were taken back.",
    ),
];

const OWN: [Counter; 18] = with_clients(
    COUNTERS,
    [Counter::events(
        "elsewhere",
        "Requests for keys that another shard owns: their clients had another map of partitions.",
    )],
);

/// Those of a system whose shards share their items: each shard reports the amounts of all.
const SHARED: [Counter; 24] = with_clients(
    {
        let mut counters = COUNTERS;
        let mut i = 5;
        while i < 9 {
            counters[i] = counters[i].largest();
            i += 1;
        }
        counters
    },
    [
        Counter::events(
            "in_place",
            "Long values that clients were told to READ in the server's memory.",
        ),
        Counter::events("stripes_locked", "Times that a stripe of the index was locked.").largest(),
        Counter::events("stripe_waits", "Of them with another thread in it.").largest(),
        Counter::events("lists_locked", "Times that the list of a size class was locked.").largest(),
        Counter::events("list_waits", "Of them with another thread in it.").largest(),
        Counter::events("heap_locked", "Times that the heap was locked.").largest(),
        Counter::events("heap_waits", "Of them with another thread in it.").largest(),
    ],
);

/// The counters of all systems, `more`, and the one that is always the last.
const fn with_clients<const ALL_SYSTEMS: usize, const MORE: usize, const ALL: usize>(
    counters: [Counter; ALL_SYSTEMS],
    more: [Counter; MORE],
) -> [Counter; ALL] {
    assert!(ALL == ALL_SYSTEMS + MORE + 1);
    let mut all = [drover_one_sided::CLIENTS; ALL];
    let mut i = 0;
    while i < ALL_SYSTEMS {
        all[i] = counters[i];
        i += 1;
    }
    while i < ALL_SYSTEMS + MORE {
        all[i] = more[i - ALL_SYSTEMS];
        i += 1;
    }
    all
}

const fn facts(name: &'static str, about: &'static str, service: bool) -> Facts {
    Facts {
        name,
        about,
        needs: "RC queue pairs with READ",
        reads_words: false,
        fits: |caps| caps.supports.rc,
        table: None,
        channels: Channels::PerShard,
        offers: Offers {
            service,
            eviction: Err("a full bucket evicts the item that was used longest ago"),
            ..Offers::native_only("its items do not outlive the process")
        },
        cluster: Err(
            "its workers do not ask whether they may still serve a key, and clients READ results at any time later",
        ),
        counters: &OWN,
        work: crate::costs::BUDGET,
    }
}

/// Jakiro: clients READ results, and have them pushed while the server is slow.
#[derive(Clone, Copy, Debug)]
pub struct JakiroVariant;

impl Variant for JakiroVariant {
    const FACTS: Facts = {
        let mut facts = facts(
            "jakiro",
            "requests are WRITTEN into slots, clients READ the results (RFP), or have them pushed if the server is slow",
            true,
        );
        facts.offers.transfer = true;
        facts
    };
    const TRANSFER: Transfer = Transfer::Auto;
    const CURVE: &'static str = "Jakiro";
    const PLANTED: &'static [Planted<Flaw>] = &[
        Planted {
            scenario: "slow",
            ..NO_SEQ
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
    type Store = Partition;

    fn mistaken<J: MistakenJob>(flaw: Flaw, job: J) -> J::Answer {
        match flaw {
            Flaw::NoSequence => job.run::<Rfp<Flawed<Self, NoSequence>>>(None),
            Flaw::NoRecheck => job.run::<Rfp<Flawed<Self, NoRecheck>>>(None),
            Flaw::ExecuteTwice => job.run::<Rfp<Twice<Self>>>(None),
            Flaw::PushIntoLanding => job.run::<Rfp<Flawed<Self, PushIntoLanding>>>(None),
            _ => job.run::<Rfp<Flawed<Self, NoSum>>>(None),
        }
    }
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
    const PLANTED: &'static [Planted<Flaw>] = &[NO_SEQ, NO_CRC, EXECUTE_TWICE];
    type Guards = Guarded;
    type Store = Partition;

    fn mistaken<J: MistakenJob>(flaw: Flaw, job: J) -> J::Answer {
        match flaw {
            Flaw::NoSequence => job.run::<Rfp<Flawed<Self, NoSequence>>>(None),
            Flaw::ExecuteTwice => job.run::<Rfp<Twice<Self>>>(None),
            _ => job.run::<Rfp<Flawed<Self, NoSum>>>(None),
        }
    }
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
    type Store = Partition;

    fn mistaken<J: MistakenJob>(_: Flaw, job: J) -> J::Answer {
        job.run::<Rfp<Flawed<Self, NoSum>>>(None)
    }
}

/// RDMA-Memcached: the same, but all shards share one store, as memcached's threads do, and clients READ long values in
/// place.
#[derive(Clone, Copy, Debug)]
pub struct MemcachedVariant;

impl Variant for MemcachedVariant {
    const FACTS: Facts = Facts {
        channels: Channels::OneShard,
        offers: Offers {
            eviction: Err("a full class of items evicts the one that was used longest ago"),
            ..Offers::native_only("its items do not outlive the process")
        },
        counters: &SHARED,
        ..facts(
            "rdma-memcached",
            "requests are WRITTEN into slots, workers that share one locked store WRITE the results to the clients' memory",
            true,
        )
    };
    const TRANSFER: Transfer = Transfer::Reply;
    const CURVE: &'static str = "RDMA-Memcached";
    const PLANTED: &'static [Planted<Flaw>] = &[
        NO_SEQ,
        NO_CRC,
        EXECUTE_TWICE,
        Planted {
            name: "free-while-read",
            about: "the memory of an item that a client READs is used for another one before the client has it",
            scenario: "large",
            mistake: Flaw::FreeWhileRead,
        },
    ];
    type Guards = Guarded;
    type Store = Arc<StripedStore>;

    fn mistaken<J: MistakenJob>(flaw: Flaw, job: J) -> J::Answer {
        match flaw {
            Flaw::FreeWhileRead => job.run::<Rfp<Unpinned>>(None),
            Flaw::NoSequence => job.run::<Rfp<Flawed<Self, NoSequence>>>(None),
            Flaw::ExecuteTwice => job.run::<Rfp<Twice<Self>>>(None),
            _ => job.run::<Rfp<Flawed<Self, NoSum>>>(None),
        }
    }
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
    /// Items that clients READ are overwritten.
    FreeWhileRead,
}

/// See [`Flaw::FreeWhileRead`].
#[derive(Clone, Copy, Debug)]
pub struct Unpinned;

impl Variant for Unpinned {
    const PLANTED: &'static [Planted<Flaw>] = &[];
    const FACTS: Facts = MemcachedVariant::FACTS;
    const TRANSFER: Transfer = MemcachedVariant::TRANSFER;
    const CURVE: &'static str = MemcachedVariant::CURVE;
    type Guards = Guarded;
    type Store = Arc<StripedStore<NoPins>>;
}

/// Guards of a store that do not keep what is READ.
#[derive(Clone, Copy, Debug)]
pub struct NoPins;

impl StripedGuards for NoPins {
    const PINS: bool = false;
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
    type Store = V::Store;
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

/// `V` with [`Flaw::ExecuteTwice`].
#[derive(Clone, Copy, Debug)]
pub struct Twice<V>(PhantomData<V>);

impl<V: Variant> Variant for Twice<V> {
    const FACTS: Facts = V::FACTS;
    const TRANSFER: Transfer = V::TRANSFER;
    const WAITS: bool = V::WAITS;
    const ONCE: bool = false;
    const CURVE: &'static str = V::CURVE;
    const PLANTED: &'static [Planted<Flaw>] = &[];
    type Guards = V::Guards;
    type Store = V::Store;
}

/// See [`Flaw::PushIntoLanding`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct PushIntoLanding;

impl Guards for PushIntoLanding {
    const OWN_AREA: bool = false;
}
