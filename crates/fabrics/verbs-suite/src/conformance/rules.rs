//! The only list of rules, for tables and for test names.

use super::{
    Check, End, access, atomics, card, completions, connecting, datagrams, domains, failures, lists, local,
    masked, reads, sends, shared_queue, shared_recv, sleeping, writes,
};
use drover_verbs::{Atomics, Caps, Provider, QpKind};
use std::pin::Pin;

/// Body of a rule, as one end plays it.
pub type Body<P> = for<'a> fn(&'a mut End<P>) -> Pin<Box<dyn Future<Output = Check> + 'a>>;

/// A rule that every provider with the needed capabilities must follow, with the code that checks it.
pub struct Rule<P: Provider> {
    /// Name of the rule in tests and reports, unique.
    pub name: &'static str,
    /// Kinds of queue pair that the rule applies to; each is tested separately.
    pub kinds: &'static [QpKind],
    /// Capabilities that the rule needs besides the kind of queue pair; it is skipped if one is missing.
    pub needs: &'static [Need],
    pub(super) body: Body<P>,
}

/// A capability that a rule requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// [`Support::atomics`](drover_verbs::Support::atomics), of any scope.
    Atomics,
    /// [`Support::atomics`](drover_verbs::Support::atomics) of the scope [`Host`](drover_verbs::Atomics::Host).
    HostAtomics,
    /// [`Support::masked_atomics`](drover_verbs::Support::masked_atomics).
    MaskedAtomics,
    /// [`Support::device_memory_bytes`] of at least 1024.
    DeviceMemory,
    /// [`ReadCaps::see_earlier`](drover_verbs::ReadCaps::see_earlier).
    ReadsSeeEarlier,
    /// [`Support::srq`](drover_verbs::Support::srq).
    Srq,
    /// [`WriteCaps::ordered`](drover_verbs::WriteCaps::ordered).
    OrderedWrites,
    /// [`WriteCaps::lossless`](drover_verbs::WriteCaps::lossless).
    LosslessWrites,
    /// [`WakeCaps::on_memory`](drover_verbs::WakeCaps::on_memory).
    MemoryWait,
    /// [`WakeCaps::on_fd`](drover_verbs::WakeCaps::on_fd).
    FdWait,
    /// [`Caps::inline_bytes_max`] of at least 16.
    Inline,
    /// [`Caps::sge_max`] of at least 3.
    Gather,
    /// [`Support::shared_queues`](drover_verbs::Support::shared_queues).
    SharedQueues,
}

impl Need {
    /// Whether `caps` offer the capability.
    pub fn met(self, caps: &Caps) -> bool {
        match self {
            Need::Atomics => caps.supports.atomics.are_offered(),
            Need::HostAtomics => caps.supports.atomics == Atomics::Host,
            Need::MaskedAtomics => caps.supports.masked_atomics,
            Need::DeviceMemory => caps.supports.device_memory_bytes >= 1024,
            Need::ReadsSeeEarlier => caps.reads.see_earlier,
            Need::Srq => caps.supports.srq,
            Need::OrderedWrites => caps.writes.ordered,
            Need::LosslessWrites => caps.writes.lossless,
            Need::MemoryWait => caps.wakes.on_memory,
            Need::FdWait => caps.wakes.on_fd,
            Need::Inline => caps.inline_bytes_max >= 16,
            Need::Gather => caps.sge_max >= 3,
            Need::SharedQueues => caps.supports.shared_queues,
        }
    }
}

/// Calls the macro given in brackets. Passes it the other arguments, in brackets, and then all rules, each as `name:
/// file [kinds of queue pair] [needs];`.
#[macro_export]
macro_rules! conformance_rules {
    ([$($then:tt)*] $($args:tt)*) => {
        $($then)*! { [$($args)*]
            write_lands_before_completion: writes [Rc] [];
            write_lands: writes [Rc Uc] [];
            writes_in_order: writes [Rc Uc] [];
            write_last_word_last: writes [Rc Uc] [OrderedWrites];
            uc_writes_all_land_in_order: writes [Uc] [LosslessWrites];
            write_leaves_neighbours_alone: writes [Rc Uc] [];
            write_longer_than_mtu: writes [Rc Uc] [];
            zero_length_write: writes [Rc Uc] [];
            read_returns_remote_bytes: reads [Rc] [];
            read_sees_earlier_write: reads [Rc] [ReadsSeeEarlier];
            read_sees_earlier_atomic: reads [Rc] [Atomics ReadsSeeEarlier];
            read_unit_is_seen_whole: reads [Rc] [];
            fence_waits_for_reads: reads [Rc] [];
            send_recv_in_order: sends [Rc Uc Ud] [];
            send_with_imm: sends [Rc Uc Ud] [];
            zero_length_send: sends [Rc Uc Ud] [];
            write_with_imm_takes_recv: sends [Rc Uc] [];
            send_waits_for_recv: sends [Rc] [];
            uc_send_dropped_without_recv: sends [Uc] [];
            unsignaled_makes_no_completion: completions [Rc Uc Ud] [];
            signaled_covers_earlier_unsignaled: completions [Rc Uc Ud] [];
            completions_in_order: completions [Rc Uc Ud] [];
            poll_takes_no_more_than_asked: completions [Rc Uc] [];
            completions_name_their_queue_pair: completions [Rc Uc Ud] [];
            inline_reusable_at_once: lists [Rc Uc Ud] [Inline];
            inline_too_long_refused: lists [Rc Uc Ud] [Inline];
            gather_and_scatter: lists [Rc Uc] [Gather];
            too_many_pieces_refused: lists [Rc Uc Ud] [];
            list_partly_accepted: lists [Rc Uc Ud] [Inline];
            single_post_after_a_list: lists [Rc Uc Ud] [];
            queue_full: lists [Rc Uc Ud] [];
            recv_queue_full: lists [Rc Uc Ud] [];
            local_memory_must_be_registered: local [Rc Uc Ud] [];
            local_bounds_are_checked: local [Rc Uc Ud] [];
            results_need_local_write: local [Rc] [];
            recv_needs_local_write: local [Rc Uc Ud] [];
            inconsistent_access_refused: local [Rc] [];
            cas_semantics: atomics [Rc] [Atomics];
            faa_semantics: atomics [Rc] [Atomics];
            atomics_unaligned_refused: atomics [Rc] [Atomics];
            atomics_of_two_queue_pairs_add_up: atomics [Rc] [Atomics];
            masked_cas_semantics: masked [Rc] [MaskedAtomics];
            device_memory_semantics: card [Rc] [DeviceMemory Atomics];
            host_atomics_add_up_with_the_cpu: atomics [Rc] [HostAtomics];
            write_denied: access [Rc Uc] [];
            read_denied: access [Rc] [];
            atomic_denied: access [Rc] [Atomics];
            out_of_bounds_denied: access [Rc Uc] [];
            last_byte_allowed: access [Rc Uc] [];
            unknown_rkey_denied: access [Rc Uc] [];
            forgotten_rkey_denied: access [Rc Uc] [];
            region_of_a_domain_in_each_context: domains [Rc Uc] [];
            rkey_of_other_domain_denied: domains [Rc Uc] [];
            isolated_memory_denied: domains [Rc Uc] [];
            error_flushes_in_order: failures [Rc Uc Ud] [];
            post_after_error_flushes: failures [Rc Uc Ud] [];
            failure_breaks_the_queue_pair: failures [Rc] [];
            rnr_timeout: failures [Rc] [];
            send_longer_than_recv: failures [Rc Uc Ud] [];
            dead_peer_is_noticed: failures [Rc] [];
            qp_destroyed_no_more_landing: failures [Rc Uc Ud] [];
            fenced_peer_touches_nothing: failures [Rc Uc] [];
            ud_gap_of_40: datagrams [Ud] [];
            ud_drop_without_recv: datagrams [Ud] [];
            ud_wrong_qkey_dropped: datagrams [Ud] [];
            ud_many_senders: datagrams [Ud] [];
            ud_too_long_refused: datagrams [Ud] [];
            ud_only_sends: datagrams [Ud] [];
            ud_destroyed_handle_refused: datagrams [Ud] [];
            uc_no_read: datagrams [Uc] [];
            address_over_connection_refused: datagrams [Rc Uc] [];
            srq_shared_by_two_qps: shared_recv [Rc Uc Ud] [Srq];
            srq_takes_recvs_alone: shared_recv [Rc Uc Ud] [Srq];
            srq_recvs_survive_an_error: shared_recv [Rc Uc Ud] [Srq];
            shared_queue_loses_nothing: shared_queue [Rc] [SharedQueues];
            states_follow_connect: connecting [Rc Uc Ud] [];
            send_before_connect_refused: connecting [Rc Uc] [];
            recv_before_connect_taken: connecting [Rc Uc] [];
            connect_twice_refused: connecting [Rc Uc Ud] [];
            connect_kind_mismatch_refused: connecting [Rc Uc] [];
            bent_exports_refused: connecting [Rc Uc Ud] [];
            limits_are_kept: connecting [Rc Uc Ud] [];
            waker_wakes: sleeping [Rc Ud] [];
            arrival_ends_park: sleeping [Rc Uc Ud] [];
            descriptor_ends_park: sleeping [Rc Ud] [FdWait];
            arm_then_write_not_lost: sleeping [Rc Uc] [MemoryWait];
            wake_on_watched_write: sleeping [Rc Uc] [MemoryWait];
        }
    };
}

macro_rules! table {
    ([$provider:ident] $($name:ident: $file:ident [$($kind:ident)*] [$($need:ident)*];)*) => {
        vec![$(Rule {
            name: stringify!($name),
            kinds: &[$(QpKind::$kind),*],
            needs: &[$(Need::$need),*],
            body: |end| Box::pin($file::$name::<$provider>(end)),
        }),*]
    };
}

/// Defines one `#[test]` per rule. Each test calls `$run`, a function or a closure without captures, with the name of
/// its rule. Put the macro call in a module named after the provider.
#[macro_export]
macro_rules! conformance_tests {
    ($run:expr) => {
        $crate::conformance_rules! { [$crate::conformance_stamp] $run }
    };
}

/// The part of [`conformance_tests`] that receives the list.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_stamp {
    ([$run:expr] $($name:ident: $file:ident [$($kind:ident)*] [$($need:ident)*];)*) => {
        $crate::conformance_stamp! { @each [$run] $($name)* }
    };
    (@each $run:tt $($name:ident)*) => {
        $($crate::conformance_stamp! { @one $run $name })*
    };
    (@one [$run:expr] $name:ident) => {
        #[test]
        fn $name() {
            let run: fn(&str) = $run;
            run(stringify!($name));
        }
    };
}

/// All rules of the suite, with bodies for provider `P`, in the order of
/// [`conformance_rules!`](crate::conformance_rules). Rules that the provider cannot follow are included.
pub fn rules<P: Provider>() -> Vec<Rule<P>> {
    crate::conformance_rules! { [table] P }
}

/// The rule called `name`; `None` if there is none.
pub fn rule<P: Provider>(name: &str) -> Option<Rule<P>> {
    rules().into_iter().find(|rule| rule.name == name)
}
