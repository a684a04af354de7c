//! [`MUTANTS`]: the flaws of the reference provider and the rules that catch them.

use crate::loopback::Flaw;

/// A flaw of the reference provider `loopback`, and the rules that must detect it.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// The flaw to switch on.
    pub flaw: Flaw,
    /// Names of the rules that must all fail with this flaw. `wake_on_watched_write` fails only with
    /// [`Together::TwoThreads`](super::Together::TwoThreads): in one thread it is skipped.
    pub caught_by: &'static [&'static str],
}

/// Calls the macro given in brackets. Passes it the other arguments, in brackets, and then all mutants, each as `flaw:
/// rules that catch it;`.
#[macro_export]
macro_rules! conformance_mutants {
    ([$($then:tt)*] $($args:tt)*) => {
        $($then)*! { [$($args)*]
            CompletesBeforeLanding: write_lands_before_completion read_sees_earlier_write;
            LosesLongWrites: write_lands write_longer_than_mtu;
            ReversesLists: writes_in_order completions_in_order;
            LastWordFirst: write_last_word_last;
            LosesSomeUcWrites: uc_writes_all_land_in_order;
            WritesWholeWords: write_leaves_neighbours_alone;
            CutsAtMtu: write_longer_than_mtu;
            RefusesEmptyWrites: zero_length_write;
            ReadsShort: read_returns_remote_bytes;
            ReadsWithoutLength: read_returns_remote_bytes;
            TakesLastRecv: send_recv_in_order srq_shared_by_two_qps;
            LosesImm: send_with_imm write_with_imm_takes_recv;
            LosesEmptySends: zero_length_send;
            WriteImmTakesNoRecv: write_with_imm_takes_recv;
            LosesEarlySends: send_waits_for_recv;
            UcWaitsForRecv: uc_send_dropped_without_recv;
            CompletesUnsignaled: unsignaled_makes_no_completion;
            CoversOnlyItself: signaled_covers_earlier_unsignaled;
            PollsNewestFirst: completions_in_order;
            ForgetsVerbs: completions_in_order;
            PollDropsRest: poll_takes_no_more_than_asked;
            NamesNoQueuePair: completions_name_their_queue_pair;
            InlineByReference: inline_reusable_at_once;
            AnyInlineLength: inline_too_long_refused;
            GathersFirstPiece: gather_and_scatter;
            ScattersFirstPiece: gather_and_scatter;
            AnyPieceCount: too_many_pieces_refused;
            PostsPastRefusal: list_partly_accepted;
            MiscountsAccepted: list_partly_accepted;
            SinglesOvertakeLists: single_post_after_a_list;
            SinglesReplaceLists: single_post_after_a_list;
            EndlessSendQueue: queue_full;
            HalfSendQueue: queue_full;
            EndlessRecvQueue: recv_queue_full;
            IgnoresLocalKeys: local_memory_must_be_registered;
            IgnoresLocalBounds: local_bounds_are_checked;
            IgnoresLocalWrite: results_need_local_write recv_needs_local_write;
            AnyAccess: inconsistent_access_refused;
            CasAlwaysSwaps: cas_semantics;
            CasReturnsNew: cas_semantics;
            FaaReturnsNew: faa_semantics;
            FaaSaturates: faa_semantics;
            FaaLosesSome: atomics_of_two_queue_pairs_add_up;
            AtomicsRoundDown: atomics_unaligned_refused;
            MasksOnlyCompare: masked_cas_semantics;
            MasksOnlySwap: masked_cas_semantics;
            MasksResults: masked_cas_semantics;
            DeviceMemoryIsACopy: device_memory_semantics;
            EndlessDeviceMemory: device_memory_semantics;
            AtomicsIgnoreCpu: host_atomics_add_up_with_the_cpu;
            AtomicsLandLate: read_sees_earlier_atomic;
            MixesUnits: read_unit_is_seen_whole;
            IgnoresFences: fence_waits_for_reads;
            ForgetsToFence: fenced_peer_touches_nothing;
            IgnoresWriteRight: write_denied;
            IgnoresReadRight: read_denied;
            IgnoresAtomicRight: atomic_denied;
            UcReportsRefusals: write_denied out_of_bounds_denied unknown_rkey_denied;
            IgnoresBounds: out_of_bounds_denied;
            BoundsOneShort: last_byte_allowed;
            GuessesKeys: unknown_rkey_denied;
            RemembersKeys: forgotten_rkey_denied;
            SharesKeys: rkey_of_other_domain_denied;
            IgnoresDomains: isolated_memory_denied;
            KeysOfOneContext: region_of_a_domain_in_each_context;
            FlushesInReverse: error_flushes_in_order;
            FlushesSilently: error_flushes_in_order post_after_error_flushes;
            FlushesSignaledOnly: error_flushes_in_order;
            RefusesAfterError: post_after_error_flushes;
            WorksAfterError: post_after_error_flushes;
            SurvivesFailure: failure_breaks_the_queue_pair;
            WaitsForEver: rnr_timeout;
            CutsLongMessages: send_longer_than_recv;
            TalksToTheDead: dead_peer_is_noticed;
            LandsThroughTheDead: qp_destroyed_no_more_landing;
            NoGap: ud_gap_of_40;
            GapNotCounted: ud_gap_of_40;
            KeepsDatagrams: ud_drop_without_recv;
            IgnoresQkey: ud_wrong_qkey_dropped;
            HidesSender: ud_many_senders;
            AnyDatagramLength: ud_too_long_refused;
            AnyVerb: ud_only_sends uc_no_read;
            IgnoresAddresses: address_over_connection_refused;
            RemembersHandles: ud_destroyed_handle_refused;
            LosesSharedPosts: shared_queue_loses_nothing;
            RecvBesideSrq: srq_takes_recvs_alone;
            FlushesSrq: srq_recvs_survive_an_error;
            AlwaysReady: states_follow_connect;
            SendsUnconnected: send_before_connect_refused;
            LosesEarlyRecvs: recv_before_connect_taken;
            Reconnects: connect_twice_refused;
            ConnectsAnything: connect_kind_mismatch_refused;
            TakesAnyExport: bent_exports_refused;
            IgnoresLimits: limits_are_kept;
            DeafToWakers: waker_wakes;
            DeafToCompletions: arrival_ends_park;
            DeafToDescriptors: descriptor_ends_park;
            DeafToWrites: arm_then_write_not_lost wake_on_watched_write;
            ForgetsAtPark: arm_then_write_not_lost waker_wakes;
        }
    };
}

macro_rules! table {
    ([] $($flaw:ident: $($rule:ident)*;)*) => {
        &[$(Mutant { flaw: Flaw::$flaw, caught_by: &[$(stringify!($rule)),*] }),*]
    };
}

/// All mutants, one per [`Flaw`].
pub const MUTANTS: &[Mutant] = crate::conformance_mutants! { [table] };
