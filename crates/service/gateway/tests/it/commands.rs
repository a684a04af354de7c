//! What commands leave in the system, and what is refused.

use crate::bed::{Bed, BedOptions, Client};
use drover_kv::{Op, OperationOffers};

#[test]
fn items_are_the_systems_own() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    assert_eq!(bed.say(&mut client, "set a 7 30 2\r\nhi\r\n"), "STORED\r\n");
    let item = bed.model.borrow().items[&b"a"[..]].clone();
    assert_eq!((&item.value[..], item.flags, item.expire_s), (&b"hi"[..], 7, 130));
    let told = bed.say(&mut client, "gets a\r\n");
    assert_eq!(told, format!("VALUE a 7 2 {}\r\nhi\r\nEND\r\n", item.version));
    let cas = format!("cas a 0 0 2 {}\r\nyo\r\n", item.version);
    assert_eq!(bed.say(&mut client, &cas), "STORED\r\n");
    assert_eq!(bed.say(&mut client, &cas), "EXISTS\r\n");
}

#[test]
fn expiry_in_the_past_deletes() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    for (said, want) in [
        ("set a 0 -1 1\r\nx\r\n", "STORED\r\n"),
        ("add a 0 -1 1\r\nx\r\n", "STORED\r\n"),
        ("replace a 0 -1 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("cas a 0 -1 1 5\r\nx\r\n", "NOT_FOUND\r\n"),
        ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("add a 0 -1 1\r\ny\r\n", "NOT_STORED\r\n"),
        ("cas a 0 -1 1 999\r\ny\r\n", "EXISTS\r\n"),
        ("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("replace a 0 -1 1\r\ny\r\n", "STORED\r\n"),
        ("get a\r\n", "END\r\n"),
        (
            "set n 0 0 1\r\n5\r\nma n T-1 v\r\nget n\r\n",
            "STORED\r\nVA 1\r\n6\r\nEND\r\n",
        ),
        ("ma n N-1 J3 v\r\nget n\r\n", "VA 1\r\n3\r\nEND\r\n"),
        (
            "set g 0 0 1\r\n5\r\ngat -1 g g\r\n",
            "STORED\r\nVALUE g 0 1\r\n5\r\nEND\r\n",
        ),
        (
            "set g 0 0 1\r\n5\r\nmg g T-1 v\r\nmg g v\r\n",
            "STORED\r\nVA 1\r\n5\r\nEN\r\n",
        ),
        (
            "set g 0 0 1\r\n5\r\ntouch g -1\r\ntouch g -1\r\n",
            "STORED\r\nTOUCHED\r\nNOT_FOUND\r\n",
        ),
    ] {
        assert_eq!(bed.say(&mut client, said), want, "{said:?}");
    }
    assert!(bed.model.borrow().items.is_empty());
}

#[test]
fn touches_set_the_time() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(&mut client, "set a 0 0 1\r\nx\r\n");
    for (said, want, expire_s) in [
        ("touch a 50\r\n", "TOUCHED\r\n", 150),
        ("gat 60 a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n", 160),
        ("mg a T70\r\n", "HD\r\n", 170),
        ("touch a 1700000500\r\n", "TOUCHED\r\n", 500),
        ("touch a 0\r\n", "TOUCHED\r\n", 0),
    ] {
        assert_eq!(bed.say(&mut client, said), want, "{said:?}");
        assert_eq!(bed.model.borrow().items[&b"a"[..]].expire_s, expire_s, "{said:?}");
    }
}

#[test]
fn the_version_of_what_was_put_is_read_back() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    let version = |bed: &Bed| bed.model.borrow().items[&b"a"[..]].version;
    let told = bed.say(&mut client, "ms a 1 c Oq k\r\nx\r\n");
    assert_eq!(told, format!("HD c{} Oq ka\r\n", version(&bed)));
    let told = bed.say(&mut client, "ms a 1 c MA\r\ny\r\n");
    assert_eq!(told, format!("HD c{}\r\n", version(&bed)));
    let told = bed.say(&mut client, "ms a 1\r\n7\r\nma a c v\r\n");
    assert_eq!(told, format!("HD\r\nVA 1 c{}\r\n8\r\n", version(&bed)));
    // Another's value is there by then: no version is ours.
    bed.meddle(|model, op| {
        if op.is_detailed()
            && model
                .items
                .get(op.key())
                .is_some_and(|item| item.value == b"mine")
        {
            model.put(op.key(), b"other", 0, 0);
        }
    });
    assert_eq!(bed.say(&mut client, "ms a 4 c\r\nmine\r\n"), "HD c0\r\n");
}

#[test]
fn what_reads_and_writes_keeps_expiry_and_flags() {
    for (said, want) in [
        ("incr a 1\r\n", "6\r\n"),
        ("decr a 1\r\n", "4\r\n"),
        ("append a 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("prepend a 9 0 1\r\n1\r\n", "STORED\r\n"),
        ("ms a 1 MA\r\n1\r\n", "HD\r\n"),
        ("ms a 1 MP T0\r\n1\r\n", "HD\r\n"),
        ("ma a N0\r\n", "HD\r\n"),
    ] {
        let (mut bed, mut client) = (Bed::new(), Client::new());
        bed.say(&mut client, "set a 7 10 1\r\n5\r\n");
        // Another one touches the item between the read and the write.
        bed.meddle(|model, op| {
            if let (Op::Put { .. }, Some(item)) = (op, model.items.get_mut(op.key())) {
                item.expire_s = model.now_s + 20;
            }
        });
        assert_eq!(bed.say(&mut client, said), want, "{said:?}");
        let model = bed.model.borrow();
        let item = &model.items[&b"a"[..]];
        assert_eq!((item.expire_s, item.flags), (model.now_s + 20, 7), "{said:?}");
    }
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(&mut client, "set a 7 10 1\r\n5\r\n");
    assert_eq!(bed.say(&mut client, "ma a T30\r\n"), "HD\r\n");
    let model = bed.model.borrow();
    let item = &model.items[&b"a"[..]];
    assert_eq!((item.expire_s, item.flags), (model.now_s + 30, 7));
}

#[test]
fn what_items_do_not_have_is_refused() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(&mut client, "set a 0 0 1\r\n1\r\n");
    for (said, want) in [
        ("mg a t v\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mg a h\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mg a l\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mg b N30 v\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mg a R30\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("ms a 1 I\r\nx\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("ms a 1 E7\r\nx\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("md a I\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("md a x\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("ma a t\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("ma a E7\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("me a\r\n", "ERROR\r\n"),
        ("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n"),
        ("stats detail on\r\n", "ERROR\r\n"),
        ("watch\r\n", "CLIENT_ERROR watch commands not allowed\r\n"),
        ("lru_crawler metadump all\r\n", "ERROR metadump not allowed\r\n"),
        (
            "cache_memlimit 64\r\n",
            "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
        ),
        ("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n"),
    ] {
        assert_eq!(bed.say(&mut client, said), want, "{said:?}");
    }
}

#[test]
fn stats_count_commands_and_say_nothing_of_items() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(
        &mut client,
        "set n 0 0 1\r\n1\r\nincr n 1\r\ndecr m 1\r\nget n m\r\ndelete n\r\nset n 0 0 1 noreply\r\nx\r\n",
    );
    let told = bed.say(&mut client, "stats\r\n");
    for line in [
        "cmd_set 2",
        "incr_hits 1",
        "decr_misses 1",
        "get_hits 1",
        "get_misses 1",
        "cmd_get 2",
        "delete_hits 1",
    ] {
        assert!(told.contains(&format!("STAT {line}\r\n")), "{line} in {told}");
    }
    for name in [
        "curr_items",
        "bytes ",
        "limit_maxbytes",
        "evictions",
        "get_expired",
        "hash_bytes",
    ] {
        assert!(!told.contains(&format!("STAT {name}")), "{name} in {told}");
    }
    assert_eq!(
        bed.say(&mut client, "stats items\r\nstats slabs\r\n"),
        "END\r\nEND\r\n"
    );
    let told = bed.say(&mut client, "stats settings\r\n");
    assert!(
        told.contains("STAT gateway_system model\r\n") && told.contains("STAT gateway_refuses me,flush_all,")
    );
    assert!(!told.contains("STAT maxbytes") && !told.contains("STAT evictions"));
}

#[test]
fn what_the_system_does_not_offer_is_refused() {
    let poor = OperationOffers {
        conditions: false,
        versions: false,
        ttl: false,
        flags: false,
        touch: false,
        ..OperationOffers::POINT
    };
    let options = BedOptions {
        offers: poor,
        ..BedOptions::default()
    };
    let (mut bed, mut client) = (Bed::with(&options), Client::new());
    for (said, want) in [
        (
            "set a 0 0 1\r\n1\r\nget a\r\ndelete a\r\n",
            "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\nDELETED\r\n",
        ),
        ("set a 1 0 1\r\n1\r\n", "ERROR\r\n"),
        ("set a 0 10 1\r\n1\r\n", "ERROR\r\n"),
        ("add a 0 0 1\r\n1\r\n", "ERROR\r\n"),
        ("append a 0 0 1\r\n1\r\n", "ERROR\r\n"),
        ("cas a 0 0 1 1\r\n1\r\n", "ERROR\r\n"),
        ("incr a 1\r\n", "ERROR\r\n"),
        ("touch a 1\r\n", "ERROR\r\n"),
        ("ma a\r\n", "ERROR\r\n"),
        ("mg a c\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mg a T1\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("ms a 1 C1\r\n1\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("ms a 1 F1\r\n1\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("ms a 1 ME\r\n1\r\n", "CLIENT_ERROR invalid flag\r\n"),
    ] {
        assert_eq!(bed.say(&mut client, said), want, "{said:?}");
    }
    bed.say(&mut client, "gets a\r\n");
    assert!(
        client.is_closed,
        "a line within the reply would not be understood"
    );
}
