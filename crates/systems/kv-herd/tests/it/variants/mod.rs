//! HERD set up in its less usual ways, against those rules of the conformance suite where the way could matter: with
//! every fault, in virtual time.

mod bed;
mod paper;

/// The rules that a front end, a slot size or a way to overlap requests could break.
macro_rules! rules {
    ($bed:ty) => {
        drover_testkit::kv_conformance_tests!($bed:
            zero_length_values, program_order_on_one_key, agrees_with_a_map, large_and_small_on_one_key,
            clients_are_linearizable, survives_a_server_crash, lost_messages, duplicated_messages,
            delayed_messages, reordered_messages, torn_writes, all_faults_at_once);
    };
}

mod pipeline {
    rules!(crate::variants::bed::HerdBed<crate::variants::bed::Pipeline>);
}

mod datagrams {
    rules!(crate::variants::bed::HerdBed<crate::variants::bed::Datagrams>);
}

/// Two lines per slot: half of the values are bulk, and keys have at most 84 bytes.
mod small_slots {
    rules!(crate::variants::bed::HerdBed<crate::variants::bed::SmallSlots>);
}
