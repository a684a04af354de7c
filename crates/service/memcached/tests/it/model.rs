//! Random commands are answered as by the plainest model, which knows no partitions, batches or item layouts. A
//! deliberately wrong model proves that the test notices.

use crate::bed::{Bed, Client};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Command {
    Store(&'static str, &'static str, u32, i32, String),
    Cas(&'static str, String),
    Get(Vec<&'static str>),
    Delete(&'static str),
    Add(&'static str, &'static str, u64),
    Touch(&'static str, i32),
    Gat(&'static str, i32),
    Wait(u32),
    Flush,
}

#[derive(Clone, Debug)]
struct Item {
    flags: u32,
    expire_s: Option<u32>,
    value: String,
}

struct Model {
    items: BTreeMap<&'static str, Item>,
    now_s: u32,
    /// Planted mistake: `add` overwrites.
    is_wrong: bool,
}

impl Model {
    fn expire_s(&self, expiry: i32) -> Option<u32> {
        match expiry {
            0 => None,
            ..0 => Some(0),
            _ => Some(self.now_s + expiry as u32),
        }
    }

    fn sweep(&mut self) {
        let now_s = self.now_s;
        self.items
            .retain(|_, item| item.expire_s.is_none_or(|expire_s| expire_s > now_s));
    }

    fn put(&mut self, key: &'static str, item: Item) {
        self.items.insert(key, item);
        self.sweep();
    }

    fn store(&mut self, name: &str, key: &'static str, new: Item) -> &'static str {
        let Some(old) = self.items.get(key).cloned() else {
            if name != "set" && name != "add" {
                return "NOT_STORED\r\n";
            }
            self.put(key, new);
            return "STORED\r\n";
        };
        if name == "add" && !self.is_wrong {
            return "NOT_STORED\r\n";
        }
        let joined = |value| Item { value, ..old.clone() };
        let item = match name {
            "append" => joined(old.value.clone() + &new.value),
            "prepend" => joined(new.value + &old.value),
            _ => new,
        };
        self.put(key, item);
        "STORED\r\n"
    }

    fn add(&mut self, name: &str, key: &'static str, by: u64) -> String {
        let Some(item) = self.items.get(key).cloned() else {
            return "NOT_FOUND\r\n".to_owned();
        };
        // Text after a space is ignored, as by strtoull.
        let Ok(number) = item.value.split(' ').next().unwrap_or_default().parse::<u64>() else {
            return "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n".to_owned();
        };
        let number = match name {
            "incr" => number.wrapping_add(by),
            _ => number.saturating_sub(by),
        };
        let value = format!("{number:<width$}", width = item.value.len());
        self.put(key, Item { value, ..item });
        format!("{number}\r\n")
    }

    fn show(&self, key: &str) -> String {
        let Some(item) = self.items.get(key) else {
            return String::new();
        };
        format!(
            "VALUE {key} {} {}\r\n{}\r\n",
            item.flags,
            item.value.len(),
            item.value
        )
    }

    fn answer(&mut self, command: &Command) -> String {
        self.sweep();
        match command {
            Command::Store(name, key, flags, expiry, value) => {
                let new = Item {
                    flags: *flags,
                    expire_s: self.expire_s(*expiry),
                    value: value.clone(),
                };
                self.store(name, key, new).to_owned()
            }
            Command::Cas(key, value) => match self.items.get(key).cloned() {
                None => "NOT_FOUND\r\n".to_owned(),
                Some(_) => {
                    let new = Item {
                        value: value.clone(),
                        flags: 0,
                        expire_s: None,
                    };
                    self.put(key, new);
                    "STORED\r\nEXISTS\r\n".to_owned()
                }
            },
            Command::Get(keys) => keys.iter().map(|key| self.show(key)).collect::<String>() + "END\r\n",
            Command::Delete(key) => match self.items.remove(key) {
                Some(_) => "DELETED\r\n".to_owned(),
                None => "NOT_FOUND\r\n".to_owned(),
            },
            Command::Add(name, key, by) => self.add(name, key, *by),
            Command::Touch(key, expiry) | Command::Gat(key, expiry) => {
                let shown = self.show(key);
                let expire_s = self.expire_s(*expiry);
                let found = self.items.get_mut(key).map(|item| item.expire_s = expire_s);
                match (command, found) {
                    (Command::Gat(..), _) => shown + "END\r\n",
                    (_, Some(())) => "TOUCHED\r\n".to_owned(),
                    (_, None) => "NOT_FOUND\r\n".to_owned(),
                }
            }
            Command::Wait(s) => {
                self.now_s += s;
                String::new()
            }
            Command::Flush => {
                self.items.clear();
                "OK\r\n".to_owned()
            }
        }
    }
}

/// Reply of the server.
fn told(bed: &mut Bed, client: &mut Client, command: &Command) -> String {
    let input = match command {
        Command::Store(name, key, flags, expiry, value) => {
            format!("{name} {key} {flags} {expiry} {}\r\n{value}\r\n", value.len())
        }
        Command::Cas(key, value) => return told_cas(bed, client, key, value),
        Command::Get(keys) => format!("get {}\r\n", keys.join(" ")),
        Command::Delete(key) => format!("delete {key}\r\n"),
        Command::Add(name, key, by) => format!("{name} {key} {by}\r\n"),
        Command::Touch(key, expiry) => format!("touch {key} {expiry}\r\n"),
        Command::Gat(key, expiry) => format!("gat {expiry} {key}\r\n"),
        Command::Wait(s) => {
            bed.now_s += s;
            return String::new();
        }
        Command::Flush => "flush_all\r\n".to_owned(),
    };
    let told = bed.say(client, input.as_bytes());
    String::from_utf8(told).expect("text")
}

/// Reply to `cas` with the number from `gets`, then to a repetition.
fn told_cas(bed: &mut Bed, client: &mut Client, key: &str, value: &str) -> String {
    let told = bed.say(client, format!("gets {key}\r\n").as_bytes());
    let line = String::from_utf8(told).expect("text");
    let cas = line.lines().next().and_then(|line| line.split(' ').nth(4));
    let cas = cas.unwrap_or("1");
    let set = format!("cas {key} 0 0 {} {cas}\r\n{value}\r\n", value.len());
    let mut told = bed.say(client, set.as_bytes());
    if told == b"STORED\r\n" {
        told.extend(bed.say(client, set.as_bytes()));
    }
    String::from_utf8(told).expect("text")
}

fn command() -> impl Strategy<Value = Command> {
    let key = || select(vec!["a", "b", "c"]);
    let value = || prop_oneof!["[0-9]{1,6}", "[a-z]{0,100}", "1844674407370955161[0-9]"];
    let names = select(vec!["set", "set", "add", "replace", "append", "prepend"]);
    prop_oneof![
        4 => (names, key(), any::<u32>(), -1i32..20, value())
            .prop_map(|(name, key, flags, expiry, value)| Command::Store(name, key, flags, expiry, value)),
        1 => (key(), value()).prop_map(|(key, value)| Command::Cas(key, value)),
        4 => prop::collection::vec(key(), 1..5).prop_map(Command::Get),
        1 => key().prop_map(Command::Delete),
        3 => (select(vec!["incr", "decr"]), key(), prop_oneof![0u64..2000, any::<u64>()])
            .prop_map(|(name, key, by)| Command::Add(name, key, by)),
        1 => (key(), -1i32..20).prop_map(|(key, expiry)| Command::Touch(key, expiry)),
        1 => (key(), -1i32..20).prop_map(|(key, expiry)| Command::Gat(key, expiry)),
        2 => (1u32..8).prop_map(Command::Wait),
        1 => Just(Command::Flush),
    ]
}

/// The first command whose answers differ.
fn differs(commands: &[Command], is_wrong: bool) -> Option<String> {
    let (mut bed, mut client) = (Bed::new(), Client::new());
    let mut model = Model {
        items: BTreeMap::new(),
        now_s: bed.now_s,
        is_wrong,
    };
    commands.iter().find_map(|command| {
        let (want, got) = (model.answer(command), told(&mut bed, &mut client, command));
        (want != got).then(|| format!("{command:?}: want {want:?}, got {got:?}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn commands_are_answered_as_the_model_does(commands in prop::collection::vec(command(), 1..60)) {
        prop_assert_eq!(differs(&commands, false), None);
    }
}

#[test]
fn a_wrong_model_is_noticed() {
    let add = |value: &str| Command::Store("add", "a", 0, 0, value.to_owned());
    assert!(differs(&[add("1"), add("2")], true).is_some());
}
