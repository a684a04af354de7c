//! [`Flaw`]: one way each to break a rule. A conformance suite that lets one pass is no suite.

macro_rules! flaws {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// A switchable bug of the reference provider.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Flaw {
            $($(#[doc = $doc])* $name),*
        }

        impl Flaw {
            /// All of them.
            pub const ALL: &[Flaw] = &[$(Flaw::$name),*];
        }
    };
}

flaws! {
    /// A WRITE completes before its bytes land.
    CompletesBeforeLanding,
    /// WRITEs of 257 bytes and more never land.
    LosesLongWrites,
    /// A list is executed from its end.
    ReversesLists,
    /// The last word of a WRITE lands long before the others.
    LastWordFirst,
    /// One WRITE in 97 never lands.
    LosesSomeUcWrites,
    /// The length of a WRITE is rounded up to whole words.
    WritesWholeWords,
    /// WRITEs are cut at the packet size.
    CutsAtMtu,
    /// A WRITE of no bytes fails.
    RefusesEmptyWrites,
    /// READs leave their last byte out.
    ReadsShort,
    /// Completions of READs say nothing of their length.
    ReadsWithoutLength,
    /// RECVs are taken from the end of the queue.
    TakesLastRecv,
    /// Immediate data is lost.
    LosesImm,
    /// SENDs of no bytes are lost.
    LosesEmptySends,
    /// A WRITE with immediate data leaves the RECVs alone.
    WriteImmTakesNoRecv,
    /// Over RC, a SEND that finds no RECV is lost as over UC.
    LosesEarlySends,
    /// Over UC, a SEND that finds no RECV waits as over RC.
    UcWaitsForRecv,
    /// Unsignaled requests complete.
    CompletesUnsignaled,
    /// A completion gives back one slot, whatever went unsignaled before.
    CoversOnlyItself,
    /// Completions are polled newest first.
    PollsNewestFirst,
    /// Completions all call themselves SENDs.
    ForgetsVerbs,
    /// A poll with too little space drops what does not fit.
    PollDropsRest,
    /// Completions do not say whose they are.
    NamesNoQueuePair,
    /// Inline payloads are read at execution, not at posting.
    InlineByReference,
    /// Inline payloads may be of any length.
    AnyInlineLength,
    /// Of a gather list only the first piece is sent.
    GathersFirstPiece,
    /// Of scattered results only the first piece is written.
    ScattersFirstPiece,
    /// A refused request does not stop the list.
    PostsPastRefusal,
    /// A refusal says that nothing was accepted.
    MiscountsAccepted,
    /// A list is executed after what is posted singly behind it.
    SinglesOvertakeLists,
    /// The last request of a list is forgotten when another one is posted singly behind it.
    SinglesReplaceLists,
    /// Send queues take any number of requests.
    EndlessSendQueue,
    /// Send queues hold half of what they should.
    HalfSendQueue,
    /// Receive queues take any number of RECVs.
    EndlessRecvQueue,
    /// A local key that is none names an empty range.
    IgnoresLocalKeys,
    /// Local ranges are cut to their region.
    IgnoresLocalBounds,
    /// The local write right is not asked for.
    IgnoresLocalWrite,
    /// Any combination of rights may be registered.
    AnyAccess,
    /// CAS swaps whatever the word is.
    CasAlwaysSwaps,
    /// CAS returns the new value.
    CasReturnsNew,
    /// FAA returns the new value.
    FaaReturnsNew,
    /// FAA does not wrap around.
    FaaSaturates,
    /// Every other FAA is lost when another one is close.
    FaaLosesSome,
    /// Unaligned atomics work on the word they are in.
    AtomicsRoundDown,
    /// The remote write right is not asked for.
    IgnoresWriteRight,
    /// The remote read right is not asked for.
    IgnoresReadRight,
    /// The remote atomic right is not asked for.
    IgnoresAtomicRight,
    /// Over UC, refusals are reported as over RC.
    UcReportsRefusals,
    /// Requests that reach outside a region succeed without effect.
    IgnoresBounds,
    /// The last byte of a region cannot be reached.
    BoundsOneShort,
    /// An unknown remote key means the first region imported.
    GuessesKeys,
    /// Forgotten remote keys go on working.
    RemembersKeys,
    /// Remote keys work in every context.
    SharesKeys,
    /// Flushing goes from the end.
    FlushesInReverse,
    /// Flushed requests do not complete.
    FlushesSilently,
    /// Unsignaled requests do not complete when flushed.
    FlushesSignaledOnly,
    /// Posting in the error state is refused.
    RefusesAfterError,
    /// Posting in the error state executes.
    WorksAfterError,
    /// A failed request does not break the queue pair.
    SurvivesFailure,
    /// A SEND waits for its RECV for ever.
    WaitsForEver,
    /// A message longer than its RECV is cut.
    CutsLongMessages,
    /// What is sent to a queue pair that is no more succeeds.
    TalksToTheDead,
    /// WRITEs land through queue pairs that are no more.
    LandsThroughTheDead,
    /// Datagrams lie at the start of their RECV.
    NoGap,
    /// The length of a datagram leaves the gap out.
    GapNotCounted,
    /// Datagrams wait for a RECV.
    KeepsDatagrams,
    /// The key of a datagram is not looked at.
    IgnoresQkey,
    /// Datagrams do not say who sent them.
    HidesSender,
    /// Datagrams may be of any length.
    AnyDatagramLength,
    /// Every kind of queue pair takes every verb.
    AnyVerb,
    /// Destroyed address handles go on working.
    RemembersHandles,
    /// A queue pair with a shared receive queue takes RECVs of its own.
    RecvBesideSrq,
    /// The failure of a queue pair flushes the shared receive queue.
    FlushesSrq,
    /// A queue pair says that it is ready before it is connected.
    AlwaysReady,
    /// SENDs before the connection are taken and lost.
    SendsUnconnected,
    /// RECVs posted before the connection are lost.
    LosesEarlyRecvs,
    /// A connected queue pair connects again.
    Reconnects,
    /// Queue pairs of different kinds connect.
    ConnectsAnything,
    /// The export of a queue pair is taken for one of a region.
    TakesAnyExport,
    /// The limits of the capabilities are not kept.
    IgnoresLimits,
    /// Wakers do nothing.
    DeafToWakers,
    /// Completions do not end a park.
    DeafToCompletions,
    /// Readable descriptors do not end a park.
    DeafToDescriptors,
    /// Writes into watched memory do not end a park.
    DeafToWrites,
    /// `park` forgets what happened since `arm`.
    ForgetsAtPark,
}
