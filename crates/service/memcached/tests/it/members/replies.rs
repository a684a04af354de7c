//! What clients are told by members: errors that end their requests and nothing else, fetches over several members, flushes of all.

use super::world::World;
use super::{CORES, MEMBERS, name};
use drover_base::Ns;
use drover_net::{Need, Output};
use drover_store::Exclusive;

const GAVE_UP: &str = "SERVER_ERROR drover: no member serves this key now\r\n";

/// Members among which nothing changes.
fn members() -> World<Exclusive> {
    let world = World::new(7, None, false);
    world.control.borrow_mut().is_restless = false;
    world
}

/// What core 0 of member `at` replies to `input`; `None`: it closes the connection.
fn told(world: &mut World<Exclusive>, at: usize, input: &str, patience: Ns) -> Option<String> {
    let site = at * CORES;
    let connection = &mut world.sites[site].connections[0];
    connection.input.extend_from_slice(input.as_bytes());
    connection.need = Need::Turn;
    let until = world.now() + patience;
    while world.now() < until {
        world.pass(Ns::from_us(500));
        world.step_all();
        let connection = &world.sites[site].connections[0];
        if connection.is_closed {
            return None;
        }
        if connection.input.is_empty() && !connection.output.has_holes() {
            break;
        }
    }
    Some(world.sites[site].connections[0].take_told())
}

fn at_once(world: &mut World<Exclusive>, at: usize, input: &str) -> String {
    told(world, at, input, Ns::from_ms(100)).expect("the connection stays open")
}

/// Nobody serves anything.
fn stop_serving(world: &mut World<Exclusive>) {
    for site in &world.sites {
        site.shards().set_stop_at(Ns::ZERO);
    }
}

#[test]
fn every_member_answers_for_every_key() {
    let mut world = members();
    for key in 0..20 {
        let set = format!("set {} 3 0 1\r\nx\r\n", name(key));
        assert_eq!(at_once(&mut world, key as usize % MEMBERS, &set), "STORED\r\n");
    }
    let names: Vec<String> = (0..20).map(name).collect();
    let all: String = names
        .iter()
        .map(|name| format!("VALUE {name} 3 1\r\nx\r\n"))
        .collect();
    for member in 0..MEMBERS {
        let get = format!("get {}\r\n", names.join(" "));
        assert_eq!(at_once(&mut world, member, &get), format!("{all}END\r\n"));
        let mut quiet: String = names.iter().map(|name| format!("mg {name} v q\r\n")).collect();
        quiet += "mg none v q\r\nmn\r\n";
        let values = "VA 1\r\nx\r\n".repeat(20);
        assert_eq!(at_once(&mut world, member, &quiet), format!("{values}MN\r\n"));
        assert_eq!(at_once(&mut world, member, "get none\r\n"), "END\r\n");
    }
    let forwarded: u64 = world.sites.iter().map(|site| site.counters.forwarded.get()).sum();
    let served: u64 = world.sites.iter().map(|site| site.counters.served.get()).sum();
    assert!(forwarded > 40 && served == forwarded, "{forwarded} {served}");
}

#[test]
fn a_flush_reaches_all_members() {
    let mut world = members();
    let sets: String = (0..20)
        .map(|key| format!("set {} 0 0 1 noreply\r\nx\r\n", name(key)))
        .collect();
    assert_eq!(at_once(&mut world, 0, &format!("{sets}flush_all\r\n")), "OK\r\n");
    let names: Vec<String> = (0..20).map(name).collect();
    for member in 0..MEMBERS {
        let get = format!("get {}\r\n", names.join(" "));
        assert_eq!(at_once(&mut world, member, &get), "END\r\n");
    }
}

#[test]
fn what_nobody_serves_waits_and_then_fails() {
    let mut world = members();
    stop_serving(&mut world);
    let input = "get a\r\nset b 0 0 1\r\nx\r\nmg c v q\r\nincr d 1\r\nversion\r\n";
    let early = told(&mut world, 0, input, Ns::from_ms(1900));
    assert_eq!(early.as_deref(), Some(""), "it waits");
    let late = told(&mut world, 0, "", Ns::from_ms(300)).expect("the connection stays open");
    assert_eq!(late, format!("{}VERSION 1.2.3\r\n", GAVE_UP.repeat(4)));
    assert_eq!(world.sites[0].counters.gave_up.get(), 4);
}

#[test]
fn what_wants_no_reply_gets_none() {
    let mut world = members();
    stop_serving(&mut world);
    let input = "set b 0 0 1 noreply\r\nx\r\ndelete c noreply\r\nversion\r\n";
    let reply = told(&mut world, 0, input, Ns::from_ms(2200));
    assert_eq!(reply.as_deref(), Some("VERSION 1.2.3\r\n"));
    assert_eq!(world.sites[0].counters.gave_up.get(), 2);
}

#[test]
fn a_fetch_of_many_keys_that_fails_closes_its_connection() {
    let mut world = members();
    stop_serving(&mut world);
    assert_eq!(told(&mut world, 0, "get a b c\r\n", Ns::from_ms(2200)), None);
}

#[test]
fn what_is_served_again_in_time_is_answered() {
    let mut world = members();
    stop_serving(&mut world);
    let input = "set a 0 0 1\r\nx\r\nappend a 0 0 1\r\ny\r\nget a\r\n";
    assert_eq!(told(&mut world, 1, input, Ns::from_ms(50)).as_deref(), Some(""));
    for site in &world.sites {
        site.shards().set_stop_at(Ns::MAX);
    }
    let reply = at_once(&mut world, 1, "");
    assert_eq!(reply, "STORED\r\nSTORED\r\nVALUE a 0 2\r\nxy\r\nEND\r\n");
}

/// A message of a peer about a key that this member does not serve comes back, and is not sent on.
#[test]
fn a_message_of_a_peer_is_executed_or_comes_back() {
    let mut world = members();
    let (mut served, mut elsewhere) = (0, 0);
    for key in 0..20 {
        let message = world.sites[0].fetch_message(&name(key));
        let mut reply = Output::new(0, usize::MAX);
        world.sites[0].serve_message(&message, &mut reply);
        let reply = crate::bed::take(&mut reply);
        match reply.first() {
            Some(0) => {
                assert_eq!(reply[1..9], 1u64.to_le_bytes(), "the epoch");
                assert_eq!(reply[9..], message);
                elsewhere += 1;
            }
            _ => {
                assert_eq!(reply, b"END\r\n");
                served += 1;
            }
        }
    }
    assert!(served > 0 && elsewhere > 0, "{served} {elsewhere}");
    assert_eq!(world.sites[0].counters.forwarded.get(), 0);
}
