//! The systems pass the suite of key-value systems.

mod jakiro {
    drover_testkit::shard_suite!(drover_kv_rfp::Jakiro);
}

mod server_reply {
    drover_testkit::shard_suite!(drover_kv_rfp::ServerReply);
}

mod rdma_memcached {
    drover_testkit::shard_suite!(drover_kv_rfp::RdmaMemcached);
}

mod flaws {
    use drover_kv_rfp::{Jakiro, RdmaMemcached, ServerReply};
    use drover_testkit::beds::providers::Loopback;
    use drover_testkit::beds::{ShardsBed, WithFaults};
    use drover_testkit::kv_conformance::key_mistake_is_caught;
    use drover_verbs_suite::faulty::KeyMistake::{self, GrantsWrites, SharesDomain};

    type Bed<S> = ShardsBed<S, WithFaults<Loopback>>;

    #[test]
    fn flaw_shares_domain_is_caught() {
        let all: [fn(KeyMistake); 3] = [
            key_mistake_is_caught::<Bed<Jakiro>>,
            key_mistake_is_caught::<Bed<ServerReply>>,
            key_mistake_is_caught::<Bed<RdmaMemcached>>,
        ];
        all.into_iter().for_each(|caught| caught(SharesDomain));
    }

    #[test]
    fn flaw_grants_writes_is_caught() {
        key_mistake_is_caught::<Bed<RdmaMemcached>>(GrantsWrites);
    }
}
