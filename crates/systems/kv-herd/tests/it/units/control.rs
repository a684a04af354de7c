//! Messages of the control channel: every one comes back, every other byte is refused.

use drover_base::HashSeed;
use drover_control::DecodeError;
use drover_kv_herd::control::*;
use drover_verbs::Export;
use proptest::prelude::*;
use std::os::fd::OwnedFd;
use std::sync::Arc;

fn export(fill: u8) -> Export {
    Export {
        bytes: vec![fill; usize::from(fill)],
        fds: Vec::new(),
    }
}

fn samples() -> Vec<Message> {
    vec![
        Message::Hello(Hello {
            protocol_version: PROTOCOL_VERSION,
            format: Format::P,
            front_end: FrontEnd::Datagrams,
            window: 16,
            slot_bytes: 1024,
            crc: true,
            resume_epoch: 7,
            auth: b"secret".to_vec(),
        }),
        Message::Welcome(Box::new(Welcome {
            epoch: 1,
            client_id: 2,
            generation: 3,
            partition_count: 4,
            window: 16,
            slot_bytes: 128,
            crc: false,
            mtu_bytes: 4096,
            item_bytes_max: 1 << 20,
            hash_seed: HashSeed::new(5, 6),
            reply_qpns: vec![10, 11, 12, 13],
            slots: SlotExports {
                region: export(20),
                uc: export(30),
            },
        })),
        Message::Partition {
            index: 3,
            ud: export(9),
        },
        Message::Attach { uc: export(8) },
        Message::Replies {
            partition: 2,
            ud: export(7),
        },
        Message::Ready,
        Message::Resync(Resync {
            partition: 1,
            slot: 2,
            seq: 3,
            r: 4,
        }),
        Message::Resynced(Resynced {
            partition: 1,
            slot: 2,
            seq: 3,
            executed: true,
            status: 1,
            last_seq: 3,
        }),
        Message::BulkOpen {
            chunk_count: 4,
            short_count: 16,
        },
        Message::BulkReady {
            chunk_bytes: 1 << 20,
            chunk_count: 4,
            short_bytes: 1 << 15,
            short_count: 16,
            region: export(1),
            rc: export(2),
        },
        Message::BulkAttach { rc: export(3) },
        Message::StatsRequest,
        Message::Stats {
            text: "curr_items 1\n".into(),
        },
        Message::Error {
            code: ErrorCode::Auth,
            text: "no".into(),
        },
        Message::Bye,
    ]
}

#[test]
fn every_message_comes_back() {
    for message in samples() {
        let frame = message.encode();
        let back = Message::decode(frame.kind, &frame.body, frame.fds).expect("our own bytes");
        assert_eq!(format!("{message:?}"), format!("{back:?}"));
    }
}

#[test]
fn every_cut_and_every_tail_is_refused() {
    for message in samples() {
        let frame = message.encode();
        for len in 0..frame.body.len() {
            assert!(Message::decode(frame.kind, &frame.body[..len], Vec::new()).is_err());
        }
        let longer = [&frame.body[..], &[0]].concat();
        assert!(Message::decode(frame.kind, &longer, Vec::new()).is_err());
    }
}

#[test]
fn descriptors_are_counted() {
    let fd = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").expect("open")));
    let uc = Export {
        bytes: vec![1],
        fds: vec![fd.clone()],
    };
    let frame = Message::Attach { uc }.encode();
    assert!(Message::decode(frame.kind, &frame.body, frame.fds).is_ok());
    let missing = Message::decode(frame.kind, &frame.body, Vec::new());
    let nowhere = DecodeError::Value {
        field: "descriptor index",
        value: 0,
    };
    assert_eq!(missing.err(), Some(nowhere));
    let extra = Message::decode(frame.kind, &frame.body, vec![fd.clone(), fd]);
    assert_eq!(extra.err(), Some(DecodeError::SurplusFds { count: 1 }));
}

/// What the first version sent, byte for byte: both sides must be able to say that they differ.
#[test]
fn hello_and_error_are_the_same_in_every_version() {
    let hello = Message::Hello(Hello {
        protocol_version: 1,
        format: Format::D,
        front_end: FrontEnd::Datagrams,
        window: 16,
        slot_bytes: 1024,
        crc: true,
        resume_epoch: 7,
        auth: b"me".to_vec(),
    });
    let bytes = b"\x01\0\0\x01\x10\0\0\x04\x01\x07\0\0\0\0\0\0\0\x02\0me";
    assert_eq!(hello.encode().body, bytes);
    let error = Message::Error {
        code: ErrorCode::Version,
        text: "no".into(),
    };
    assert_eq!(error.encode().body, b"\x02\0\x02\0no");
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(kind in 0u16..40, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Message::decode(kind, &bytes, Vec::new());
    }
}
