//! A connection's commands are answered in order, and take effect in order where they are about one key.

use crate::bed::{Bed, BedOptions, Client};
use drover_base::Rng;
use drover_testkit::seeds::Seeds;
use std::fmt::Write;

/// Commands about few keys in one input: every reply follows from those before, however late the system answers.
#[test]
fn pipelined_commands_of_a_key_take_effect_in_order() {
    Seeds::new(20, 20).each(|seed| {
        let mut rng = Rng::new(seed, 0, 0);
        let (window, capacity) = (
            1 + (rng.next_u64() % 8) as usize,
            1 + (rng.next_u64() % 12) as usize,
        );
        let options = BedOptions {
            window,
            capacity,
            late: Some(seed),
            ..BedOptions::default()
        };
        let (mut bed, mut client) = (Bed::with(&options), Client::new());
        let (mut said, mut want) = (String::new(), String::new());
        let mut model: [Option<String>; 3] = Default::default();
        for _ in 0..200 {
            let at = (rng.next_u64() % 3) as usize;
            let (key, item) = (["a", "b", "c"][at], &mut model[at]);
            match rng.next_u64() % 7 {
                0 => {
                    let number = (rng.next_u64() % 1000).to_string();
                    let _ = write!(said, "set {key} 0 0 {}\r\n{number}\r\n", number.len());
                    *item = Some(number);
                    want.push_str("STORED\r\n");
                }
                1 | 2 => {
                    let _ = write!(said, "incr {key} 7\r\n");
                    match item {
                        None => want.push_str("NOT_FOUND\r\n"),
                        Some(text) => {
                            let number: u64 = text.trim_end().parse().expect("a number");
                            let next = (number + 7).to_string();
                            let _ = write!(want, "{next}\r\n");
                            *text = format!("{next:<width$}", width = text.len());
                        }
                    }
                }
                3 => {
                    let _ = write!(said, "prepend {key} 0 0 1\r\n1\r\n");
                    match item {
                        Some(text) if text.len() < 15 => {
                            text.insert(0, '1');
                            want.push_str("STORED\r\n");
                        }
                        Some(text) => {
                            text.insert(0, '1');
                            text.truncate(3);
                            want.push_str("STORED\r\n");
                            let _ = write!(said, "set {key} 0 0 3\r\n{text}\r\n");
                            want.push_str("STORED\r\n");
                        }
                        None => want.push_str("NOT_STORED\r\n"),
                    }
                }
                4 => {
                    let _ = write!(said, "delete {key}\r\n");
                    want.push_str(if item.take().is_some() {
                        "DELETED\r\n"
                    } else {
                        "NOT_FOUND\r\n"
                    });
                }
                5 => {
                    let _ = write!(said, "gat 0 a b c\r\n");
                    for (key, item) in ["a", "b", "c"].iter().zip(&model) {
                        if let Some(text) = item {
                            let _ = write!(want, "VALUE {key} 0 {}\r\n{text}\r\n", text.len());
                        }
                    }
                    want.push_str("END\r\n");
                }
                _ => {
                    let _ = write!(said, "get {key}\r\n");
                    if let Some(text) = item {
                        let _ = write!(want, "VALUE {key} 0 {}\r\n{text}\r\n", text.len());
                    }
                    want.push_str("END\r\n");
                }
            }
        }
        let got = bed.say(&mut client, &said);
        let same = got
            .lines()
            .zip(want.lines())
            .take_while(|(got, want)| got == want)
            .count();
        assert!(
            got == want,
            "seed {seed}, window {window}, capacity {capacity}: line {same}: {:?} {:?}",
            got.lines().nth(same),
            want.lines().nth(same)
        );
        assert_eq!(bed.errands.under_way(), 0, "seed {seed}");
    });
}

/// A fetch of many keys has them all under way at a time.
#[test]
fn different_keys_overlap() {
    let options = BedOptions {
        late: Some(3),
        ..BedOptions::default()
    };
    let (mut bed, mut client) = (Bed::with(&options), Client::new());
    for n in 0..10 {
        bed.say(&mut client, &format!("set k{n} 0 0 1\r\n{n}\r\n"));
    }
    let mut most = 0;
    let keys: Vec<String> = (0..10).map(|n| format!("k{n}")).collect();
    client_says(
        &mut bed,
        &mut client,
        &format!("get {}\r\n", keys.join(" ")),
        &mut most,
    );
    assert_eq!(most, 10);
}

fn client_says(bed: &mut Bed, client: &mut Client, said: &str, most: &mut usize) {
    client.push(said);
    loop {
        bed.advance(client);
        *most = (*most).max(bed.errands.under_way());
        if !client.output.has_holes() {
            return;
        }
    }
}
