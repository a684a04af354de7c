//! [`Flaw`]: bugs to switch on; each breaks one rule. The conformance suite must catch every one.

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
    /// A WRITE completes before its bytes are visible; they become visible at the next post of a send request.
    CompletesBeforeLanding,
    /// WRITEs of 257 bytes or more are lost, and complete with success.
    LosesLongWrites,
    /// A list is executed in reverse order.
    ReversesLists,
    /// The last word of a WRITE becomes visible at once, its other words after five polls or at the next post of a send
    /// request.
    LastWordFirst,
    /// Every 97th WRITE of the device is lost, over RC as over UC, and completes with success.
    LosesSomeUcWrites,
    /// The length of a WRITE is rounded up to whole words of 8 bytes, so bytes after it are overwritten.
    WritesWholeWords,
    /// WRITEs are truncated to [`Caps::mtu_bytes`](drover_verbs::Caps::mtu_bytes).
    CutsAtMtu,
    /// A WRITE of no bytes fails over RC, and is lost over UC.
    RefusesEmptyWrites,
    /// READs return 0 for their last byte.
    ReadsShort,
    /// Completions of READs report the length 0.
    ReadsWithoutLength,
    /// A message takes the RECV that was posted last.
    TakesLastRecv,
    /// Completions report no immediate data.
    LosesImm,
    /// SENDs of no bytes over RC and UC are lost.
    LosesEmptySends,
    /// A WRITE with immediate data takes no RECV.
    WriteImmTakesNoRecv,
    /// Over RC, a SEND (or WRITE with immediate data) that finds no RECV is lost as over UC.
    LosesEarlySends,
    /// Over UC, a SEND (or WRITE with immediate data) that finds no RECV waits as over RC.
    UcWaitsForRecv,
    /// Unsignaled requests complete as if they were signaled.
    CompletesUnsignaled,
    /// A completion frees only one slot of the send queue, however many unsignaled requests precede it.
    CoversOnlyItself,
    /// Completions are polled newest first.
    PollsNewestFirst,
    /// All completions report the opcode SEND.
    ForgetsVerbs,
    /// A poll with too little space drops the completions that do not fit.
    PollDropsRest,
    /// Completions report 0 as the number of the queue pair.
    NamesNoQueuePair,
    /// Inline payloads are read at execution, not at posting.
    InlineByReference,
    /// Inline payloads may be of any length.
    AnyInlineLength,
    /// Only the first piece of a gather list is sent; zeros replace the others.
    GathersFirstPiece,
    /// Only the first piece of scattered results is written.
    ScattersFirstPiece,
    /// Requests of a list after a refused one are posted.
    PostsPastRefusal,
    /// A refusal reports that no request was accepted.
    MiscountsAccepted,
    /// A list of several requests waits until the next poll or post; a request then posted alone is executed before it.
    SinglesOvertakeLists,
    /// The last request of a list of several is dropped when a request is then posted alone.
    SinglesReplaceLists,
    /// Send queues accept any number of requests.
    EndlessSendQueue,
    /// Send queues hold half of their depth.
    HalfSendQueue,
    /// Receive queues accept any number of RECVs.
    EndlessRecvQueue,
    /// A request with an unknown local key uses the bytes at offset 0 of the region that was registered first.
    IgnoresLocalKeys,
    /// A request with a local range outside its region uses the bytes at offset 0 of that region.
    IgnoresLocalBounds,
    /// The right of local write is not checked.
    IgnoresLocalWrite,
    /// Inconsistent rights may be registered: remote write or atomics without local write.
    AnyAccess,
    /// CAS swaps whatever the value of the word.
    CasAlwaysSwaps,
    /// CAS returns the new value.
    CasReturnsNew,
    /// FAA returns the new value.
    FaaReturnsNew,
    /// FAA stops at 2^64 - 1 instead of wrapping around.
    FaaSaturates,
    /// An FAA on an odd value adds nothing, as if a concurrent one had been lost.
    FaaLosesSome,
    /// Atomics do not see what a CPU has changed since the last one.
    AtomicsIgnoreCpu,
    /// The new value of an atomic becomes visible only at the next post of a send request.
    AtomicsLandLate,
    /// The second half of the first word of a READ is that of the READ before.
    MixesUnits,
    /// The result of an unsignaled READ arrives only at the next post of a send request, also if a fenced request was
    /// posted with it.
    IgnoresFences,
    /// `fence` does nothing, and says that it is done.
    ForgetsToFence,
    /// A masked CAS replaces the whole word.
    MasksOnlyCompare,
    /// A masked CAS compares the whole word.
    MasksOnlySwap,
    /// A masked CAS returns 0 in the bits that it does not compare.
    MasksResults,
    /// Copies from memory on the card return what was copied in, whatever peers have written since.
    DeviceMemoryIsACopy,
    /// Any amount of memory on the card can be had.
    EndlessDeviceMemory,
    /// Unaligned atomics operate on the aligned word that contains the address.
    AtomicsRoundDown,
    /// The right of remote write is not checked.
    IgnoresWriteRight,
    /// The right of remote read is not checked.
    IgnoresReadRight,
    /// The right of remote atomics is not checked.
    IgnoresAtomicRight,
    /// Over UC, requests that the responder refuses fail, and requests that find no RECV wait, as over RC.
    UcReportsRefusals,
    /// A WRITE that should be refused, for example outside a region, succeeds without effect.
    IgnoresBounds,
    /// For remote access, the last byte of a region counts as out of bounds.
    BoundsOneShort,
    /// An unknown remote key gives access to the first region that the first importing context imported.
    GuessesKeys,
    /// Forgotten remote keys remain valid.
    RemembersKeys,
    /// Remote keys are valid in every domain.
    SharesKeys,
    /// Memory is reached through queue pairs of every domain.
    IgnoresDomains,
    /// A region that a domain imported can be used by one of its contexts only: the first that tries.
    KeysOfOneContext,
    /// Send requests and RECVs are flushed in reverse order.
    FlushesInReverse,
    /// Flushed send requests and RECVs do not complete.
    FlushesSilently,
    /// Unsignaled requests do not complete when they fail or are flushed.
    FlushesSignaledOnly,
    /// Send requests posted in the error state are refused.
    RefusesAfterError,
    /// Send requests posted in the error state are executed.
    WorksAfterError,
    /// A failed request does not break the queue pair.
    SurvivesFailure,
    /// A SEND waits for a RECV for ever, whatever its RNR timeout.
    WaitsForEver,
    /// A message longer than its RECV is truncated.
    CutsLongMessages,
    /// Requests to a peer whose queue pair is destroyed succeed without effect.
    TalksToTheDead,
    /// WRITEs to a peer whose queue pair is destroyed take effect.
    LandsThroughTheDead,
    /// Datagrams are placed at the start of their RECV, without the 40 bytes of GRH.
    NoGap,
    /// Completions of datagrams report a length without the 40 bytes of GRH.
    GapNotCounted,
    /// A datagram without a RECV waits for one instead of being dropped.
    KeepsDatagrams,
    /// The queue key of a datagram is not checked.
    IgnoresQkey,
    /// Completions of datagrams report 0 as the sender's queue pair.
    HidesSender,
    /// Datagrams may be of any length.
    AnyDatagramLength,
    /// Every kind of queue pair accepts every verb.
    AnyVerb,
    /// A payload may have any number of pieces.
    AnyPieceCount,
    /// The address handle of a SEND over a connection is ignored.
    IgnoresAddresses,
    /// Destroyed address handles remain valid.
    RemembersHandles,
    /// Every seventh list that is posted to a shared queue is accepted and lost.
    LosesSharedPosts,
    /// A queue pair with a shared receive queue accepts RECVs posted to itself.
    RecvBesideSrq,
    /// The failure of a queue pair removes all RECVs from its shared receive queue, without completions.
    FlushesSrq,
    /// A queue pair reports that it is ready to send in every state.
    AlwaysReady,
    /// Send requests posted before the connection are accepted and lost.
    SendsUnconnected,
    /// RECVs posted before the connection are lost.
    LosesEarlyRecvs,
    /// A connected queue pair can be connected again.
    Reconnects,
    /// Queue pairs of different kinds connect.
    ConnectsAnything,
    /// The export of a queue pair or a bell can be imported as a region: it gives access to the region that was
    /// registered first.
    TakesAnyExport,
    /// Creating a queue pair does not enforce the limits in the capabilities.
    IgnoresLimits,
    /// Wakers do nothing.
    DeafToWakers,
    /// Completions do not end a park.
    DeafToCompletions,
    /// Readable descriptors do not end a park.
    DeafToDescriptors,
    /// WRITEs and atomics into watched memory do not end a park.
    DeafToWrites,
    /// `park` ignores events that came between `arm` and the call of `park`.
    ForgetsAtPark,
}
