//! [`Flaw`]: bugs that each break one rule. The conformance suite must catch every one.

macro_rules! flaws {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// A bug of the reference provider that [`LoopbackOptions::flaw`](super::LoopbackOptions::flaw) switches on.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Flaw {
            $($(#[doc = $doc])* $name),*
        }

        impl Flaw {
            /// All flaws.
            pub const ALL: &[Flaw] = &[$(Flaw::$name),*];
        }
    };
}

flaws! {
    /// A WRITE completes before its bytes are visible.
    CompletesBeforeLanding,
    /// WRITEs of 257 bytes and more are lost.
    LosesLongWrites,
    /// A list is executed from its end.
    ReversesLists,
    /// The last word of a WRITE becomes visible some polls before the others.
    LastWordFirst,
    /// One WRITE in 97 is lost.
    LosesSomeUcWrites,
    /// The length of a WRITE is rounded up to whole words.
    WritesWholeWords,
    /// WRITEs are truncated at the packet size.
    CutsAtMtu,
    /// A WRITE of no bytes fails.
    RefusesEmptyWrites,
    /// READs return 0 for their last byte.
    ReadsShort,
    /// Completions of READs report no length.
    ReadsWithoutLength,
    /// A message takes the RECV that was posted last.
    TakesLastRecv,
    /// Completions report no immediate data.
    LosesImm,
    /// SENDs of no bytes are lost.
    LosesEmptySends,
    /// A WRITE with immediate data takes no RECV.
    WriteImmTakesNoRecv,
    /// Over RC, a SEND without a RECV is lost as over UC.
    LosesEarlySends,
    /// Over UC, a SEND without a RECV waits as over RC.
    UcWaitsForRecv,
    /// Unsignaled requests complete as if they were signaled.
    CompletesUnsignaled,
    /// A completion frees one slot, however many unsignaled requests precede it.
    CoversOnlyItself,
    /// Completions are polled newest first.
    PollsNewestFirst,
    /// All completions report the opcode SEND.
    ForgetsVerbs,
    /// A poll with too little space drops the completions that do not fit.
    PollDropsRest,
    /// Completions report no queue pair.
    NamesNoQueuePair,
    /// Inline payloads are read at execution, not at posting.
    InlineByReference,
    /// Inline payloads may be of any length.
    AnyInlineLength,
    /// Only the first piece of a gather list is sent.
    GathersFirstPiece,
    /// Only the first piece of scattered results is written.
    ScattersFirstPiece,
    /// A refused request does not stop the list.
    PostsPastRefusal,
    /// A refusal reports that no request was accepted.
    MiscountsAccepted,
    /// A list is executed after a request posted singly after it.
    SinglesOvertakeLists,
    /// The last request of a list is dropped when another one is posted singly after it.
    SinglesReplaceLists,
    /// Send queues accept any number of requests.
    EndlessSendQueue,
    /// Send queues hold half of their depth.
    HalfSendQueue,
    /// Receive queues accept any number of RECVs.
    EndlessRecvQueue,
    /// An unknown local key is taken for that of the first registered region, at offset 0.
    IgnoresLocalKeys,
    /// A local range outside its region is taken for one at offset 0.
    IgnoresLocalBounds,
    /// The right of local write is not checked.
    IgnoresLocalWrite,
    /// Inconsistent rights may be registered: remote write without local write.
    AnyAccess,
    /// CAS swaps whatever the value of the word.
    CasAlwaysSwaps,
    /// CAS returns the new value.
    CasReturnsNew,
    /// FAA returns the new value.
    FaaReturnsNew,
    /// FAA does not wrap around.
    FaaSaturates,
    /// An FAA on an odd value adds nothing, as if a concurrent one had been lost.
    FaaLosesSome,
    /// Unaligned atomics operate on the aligned word that contains the address.
    AtomicsRoundDown,
    /// The right of remote write is not checked.
    IgnoresWriteRight,
    /// The right of remote read is not checked.
    IgnoresReadRight,
    /// The right of remote atomics is not checked.
    IgnoresAtomicRight,
    /// Over UC, refusals are reported as over RC.
    UcReportsRefusals,
    /// A WRITE that should be refused, for example outside a region, succeeds without effect.
    IgnoresBounds,
    /// The last byte of a region counts as out of bounds.
    BoundsOneShort,
    /// An unknown remote key is taken for that of the first region imported.
    GuessesKeys,
    /// Forgotten remote keys remain valid.
    RemembersKeys,
    /// Remote keys are valid in every context.
    SharesKeys,
    /// Requests are flushed in reverse order.
    FlushesInReverse,
    /// Flushed requests do not complete.
    FlushesSilently,
    /// Unsignaled requests do not complete when flushed.
    FlushesSignaledOnly,
    /// Posts in the error state are refused.
    RefusesAfterError,
    /// Posts in the error state are executed.
    WorksAfterError,
    /// A failed request does not break the queue pair.
    SurvivesFailure,
    /// A SEND waits for a RECV for ever, whatever its RNR timeout.
    WaitsForEver,
    /// A message longer than its RECV is truncated.
    CutsLongMessages,
    /// Requests to a destroyed queue pair succeed without effect.
    TalksToTheDead,
    /// WRITEs through destroyed queue pairs take effect.
    LandsThroughTheDead,
    /// Datagrams are placed at the start of their RECV, without the 40 bytes of GRH.
    NoGap,
    /// Completions of datagrams report a length without the 40 bytes of GRH.
    GapNotCounted,
    /// A datagram without a RECV waits for one instead of being dropped.
    KeepsDatagrams,
    /// The queue key of a datagram is not checked.
    IgnoresQkey,
    /// Completions of datagrams do not name the sender.
    HidesSender,
    /// Datagrams may be of any length.
    AnyDatagramLength,
    /// Every kind of queue pair accepts every verb.
    AnyVerb,
    /// Destroyed address handles remain valid.
    RemembersHandles,
    /// A queue pair with a shared receive queue accepts RECVs of its own.
    RecvBesideSrq,
    /// The failure of a queue pair flushes the shared receive queue.
    FlushesSrq,
    /// A queue pair reports that it is ready before it is connected.
    AlwaysReady,
    /// SENDs before the connection are accepted and lost.
    SendsUnconnected,
    /// RECVs posted before the connection are lost.
    LosesEarlyRecvs,
    /// A connected queue pair can be connected again.
    Reconnects,
    /// Queue pairs of different kinds connect.
    ConnectsAnything,
    /// The export of a queue pair is accepted as one of a region.
    TakesAnyExport,
    /// The limits of the capabilities are not enforced.
    IgnoresLimits,
    /// Wakers do nothing.
    DeafToWakers,
    /// Completions do not end a park.
    DeafToCompletions,
    /// Readable descriptors do not end a park.
    DeafToDescriptors,
    /// Writes into watched memory do not end a park.
    DeafToWrites,
    /// `park` ignores events since `arm`.
    ForgetsAtPark,
}
