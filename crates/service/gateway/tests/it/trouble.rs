//! Lost conditions, failures, and values that are too large.

use crate::bed::{Bed, BedOptions, Client, Failure};
use drover_base::Ns;
use drover_kv::{Condition, Op};
use drover_testkit::seeds::Seeds;

fn is_overwrite(op: &Op<'_>) -> bool {
    matches!(
        op,
        Op::Put {
            condition: Condition::IfVersion(_),
            ..
        }
    )
}

#[test]
fn a_lost_condition_is_decided_again() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(&mut client, "set n 0 0 1\r\n5\r\n");
    let mut others = 3;
    bed.meddle(move |model, op| {
        if is_overwrite(op) && others > 0 {
            others -= 1;
            let number: u64 = String::from_utf8_lossy(&model.items[op.key()].value)
                .parse()
                .expect("a number");
            model.put(op.key(), (number + 100).to_string().as_bytes(), 0, 9);
        }
    });
    assert_eq!(bed.say(&mut client, "incr n 1\r\n"), "306\r\n");
    assert_eq!(bed.say(&mut client, "get n\r\n"), "VALUE n 9 3\r\n306\r\nEND\r\n");
}

#[test]
fn one_who_loses_for_ever_is_told_so() {
    let options = BedOptions {
        patience: Ns::from_ms(20),
        ..BedOptions::default()
    };
    let (mut bed, mut client) = (Bed::with(&options), Client::new());
    bed.say(&mut client, "set n 0 0 1\r\n5\r\nset o 0 0 1\r\n5\r\n");
    bed.model.borrow_mut().records = true;
    bed.meddle(|model, op| {
        if is_overwrite(op) && op.key() == b"n" {
            model.put(op.key(), b"7", 0, 0);
        }
    });
    let told = bed.say(
        &mut client,
        "incr n 1\r\nincr o 1\r\nincr n 1 noreply\r\nget n\r\n",
    );
    assert_eq!(told, "SERVER_ERROR busy\r\n6\r\nVALUE n 0 1\r\n7\r\nEND\r\n");
    let tries = bed
        .model
        .borrow()
        .done
        .iter()
        .filter(|op| is_overwrite(&op.as_op()))
        .count();
    // Twice 20 ms, in steps of 128 us on average.
    assert!((200..800).contains(&tries), "{tries}");
    // Others go on meanwhile.
    let mut clients = [Client::numbered(1), Client::numbered(2)];
    clients[0].push("incr n 1\r\n");
    bed.advance_all(&mut clients);
    clients[1].push("incr o 1\r\nget o\r\n");
    while !clients[1].is_answered() {
        bed.advance_all(&mut clients);
    }
    assert!(!clients[0].is_answered());
    while !clients[0].is_answered() {
        bed.advance_all(&mut clients);
    }
    // One whose item goes away each time is not there.
    bed.meddle(|model, op| {
        if is_overwrite(op) {
            model.items.remove(op.key());
        }
    });
    assert_eq!(bed.say(&mut client, "append n 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
}

/// Two gateways to one system, each with clients that count on one key: nobody is told that it is busy.
#[test]
fn a_hot_counter_adds_up() {
    const CLIENTS: u64 = 4;
    const COUNTS: u64 = 5_000;
    Seeds::new(1, 1).each(|seed| {
        let late = |more| BedOptions {
            late: Some(seed ^ more),
            ..BedOptions::default()
        };
        let first = Bed::with(&late(1));
        let second = Bed::of(first.model.clone(), &late(2));
        let mut beds = [first, second];
        let mut clients: [Vec<Client>; 2] =
            std::array::from_fn(|_| (0..CLIENTS).map(Client::numbered).collect());
        beds[0].say(&mut Client::new(), "set n 0 0 1\r\n0\r\n");
        let mut left = [[COUNTS; CLIENTS as usize]; 2];
        let mut told = Vec::new();
        let mut is_done = false;
        while !is_done {
            is_done = true;
            for (at, bed) in beds.iter_mut().enumerate() {
                for (client, left) in clients[at].iter_mut().zip(&mut left[at]) {
                    client.take(&mut told);
                    if client.is_answered() && *left > 0 {
                        client.push("incr n 1\r\n");
                        *left -= 1;
                    }
                    is_done &= client.is_answered();
                }
                bed.advance_all(&mut clients[at]);
            }
        }
        let told = String::from_utf8(told).expect("text");
        let mut numbers: Vec<u64> = told.lines().map(|line| line.parse().expect(line)).collect();
        numbers.sort_unstable();
        let all: Vec<u64> = (1..=2 * CLIENTS * COUNTS).collect();
        assert!(numbers == all, "seed {seed}");
    });
}

#[test]
fn failures_are_told_and_end_nothing_else() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.say(&mut client, "set good 0 0 1\r\n1\r\n");
    for (failure, why) in [
        (Failure::Unavailable, "no server answered before the deadline"),
        (
            Failure::Indeterminate,
            "the server failed, and nobody knows whether this was executed",
        ),
    ] {
        bed.model.borrow_mut().fails.insert(b"bad".to_vec(), failure);
        for said in [
            "set bad 0 0 1\r\nx\r\n",
            "append bad 0 0 1\r\nx\r\n",
            "incr bad 1\r\n",
            "delete bad\r\n",
            "touch bad 1\r\n",
            "mg bad v\r\n",
            "ms bad 1\r\nx\r\n",
            "md bad\r\n",
            "ma bad\r\n",
        ] {
            let told = bed.say(&mut client, &format!("{said}get good\r\n"));
            let want = format!("SERVER_ERROR {why}\r\nVALUE good 0 1\r\n1\r\nEND\r\n");
            assert_eq!(told, want, "{said:?}");
        }
        let told = bed.say(&mut client, "set bad 0 0 1 noreply\r\nx\r\nget good\r\n");
        assert_eq!(told, "VALUE good 0 1\r\n1\r\nEND\r\n");
        // A fetch without one of its keys would be a miss.
        let mut other = Client::new();
        assert_eq!(
            bed.say(&mut other, "get good bad good\r\n"),
            "VALUE good 0 1\r\n1\r\n"
        );
        assert!(other.is_closed);
    }
    bed.model
        .borrow_mut()
        .fails
        .insert(b"bad".to_vec(), Failure::Full);
    assert_eq!(
        bed.say(&mut client, "set bad 0 0 1\r\nx\r\n"),
        "SERVER_ERROR out of memory storing object\r\n"
    );
    assert_eq!(bed.errands.under_way(), 0);
}

#[test]
fn a_value_that_is_too_large_leaves_no_old_one() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.model.borrow_mut().value_bytes_max = 10;
    let (long, too_large) = ("x".repeat(11), "SERVER_ERROR object too large for cache\r\n");
    for (said, is_left) in [
        (format!("set a 0 0 11\r\n{long}\r\n"), false),
        (format!("ms a 11\r\n{long}\r\n"), false),
        (format!("add b 0 0 11\r\n{long}\r\n"), true),
        (format!("replace a 0 0 11\r\n{long}\r\n"), true),
        // Over the gateway's own limit.
        (format!("set a 0 0 1048577\r\n{}\r\n", "y".repeat(1048577)), false),
    ] {
        bed.say(&mut client, "set a 0 0 1\r\n1\r\n");
        assert_eq!(bed.say(&mut client, &said), too_large);
        bed.settle(&mut client);
        assert_eq!(
            bed.model.borrow().items.contains_key(&b"a"[..]),
            is_left,
            "{:.20}",
            said
        );
    }
    // Before a later command about the same key.
    let told = bed.say(
        &mut client,
        &format!("set a 0 0 11\r\n{long}\r\nset a 0 0 1\r\n2\r\nget a\r\n"),
    );
    assert_eq!(told, format!("{too_large}STORED\r\nVALUE a 0 1\r\n2\r\nEND\r\n"));
    assert_eq!(
        bed.say(
            &mut client,
            "set a 0 0 6\r\n123456\r\nappend a 0 0 6\r\n123456\r\n"
        ),
        "STORED\r\nNOT_STORED\r\n"
    );
}

/// A system that refuses late, when other commands about the key may be under way.
#[test]
fn a_late_refusal_drops_nothing_newer() {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    bed.model
        .borrow_mut()
        .fails
        .insert(b"a".to_vec(), Failure::TooLarge);
    bed.model.borrow_mut().records = true;
    let refused = "SERVER_ERROR object too large for cache\r\n";
    assert_eq!(bed.say(&mut client, "set a 0 0 1\r\nx\r\n"), refused);
    bed.settle(&mut client);
    let dropped = |bed: &Bed| {
        bed.model
            .borrow()
            .done
            .iter()
            .filter(|op| op.value().is_empty())
            .count()
    };
    assert_eq!(dropped(&bed), 1);
    assert_eq!(
        bed.say(&mut client, "set a 0 0 1\r\nx\r\nset a 0 0 1\r\ny\r\n"),
        [refused, refused].concat()
    );
    bed.settle(&mut client);
    assert_eq!(dropped(&bed), 2, "only the last one");
}

/// Clients of two workers add to one number, with late answers: nothing is lost.
#[test]
fn sums_of_two_workers_add_up() {
    Seeds::new(4, 4).each(|seed| {
        let options = |late| BedOptions {
            late: Some(late),
            window: 3,
            ..BedOptions::default()
        };
        let mut one = Bed::with(&options(seed));
        let mut two = Bed::of(one.model.clone(), &options(seed ^ 1));
        let (mut a, mut b, mut c) = (Client::new(), Client::new(), Client::new());
        assert_eq!(one.say(&mut a, "set n 0 0 1\r\n0\r\n"), "STORED\r\n");
        for client in [&mut a, &mut b, &mut c] {
            client.push(&"incr n 1 noreply\r\nincr n 2 noreply\r\n".repeat(100));
        }
        for _ in 0..100_000 {
            one.advance(&mut a);
            two.advance(&mut b);
            two.advance(&mut c);
        }
        assert_eq!(
            (one.errands.under_way(), two.errands.under_way()),
            (0, 0),
            "seed {seed}"
        );
        assert_eq!(
            one.say(&mut a, "get n\r\n"),
            "VALUE n 0 3\r\n900\r\nEND\r\n",
            "seed {seed}"
        );
    });
}
