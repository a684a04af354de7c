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
