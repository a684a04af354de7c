//! Whether a recorded campaign is right, and records that are not.

use super::report::{LOSS, Record};
use drover_testkit::history::{Call, Event};
use drover_testkit::linear::Model;

/// Whether the history of every key is that of a register, but for the losses in it, and all items were as written.
///
/// # Errors
/// What is wrong.
pub fn check(record: &Record) -> Result<(), String> {
    if let Some(mistake) = record.mistakes.first() {
        return Err(format!("{} items are wrong, as {mistake}", record.mistakes.len()));
    }
    record.history().check(Model::Register)
}

/// The record with a mistake planted in it, of each kind.
///
/// # Panics
/// If there is no place for one: too little was recorded.
pub fn planted(record: &Record) -> [(&'static str, Record); 2] {
    let plant = |name, event_of: fn(&[Event]) -> Option<Event>| {
        let place = record
            .events
            .iter()
            .find_map(|(key, events)| Some((*key, event_of(events)?)));
        let (key, event) = place.unwrap_or_else(|| panic!("no place for a {name}"));
        let mut record = record.clone();
        record.events.entry(key).or_default().push(event);
        (name, record)
    };
    [
        plant("stale read", stale_read),
        plant("lost acknowledged write", lost_write),
    ]
}

/// A GET after everything else that returns a value which was overwritten before another was.
fn stale_read(events: &[Event]) -> Option<Event> {
    let puts = || {
        events.iter().filter_map(|event| match event.call {
            Call::Put(value) => Some((value, event.called_at, event.returned_at?)),
            _ => None,
        })
    };
    let (first, _, returned_at) = puts().min_by_key(|put| put.2)?;
    let is_overwritten = puts().any(|put| put.1 > returned_at);
    is_overwritten.then(|| after(events, Call::Get(Some(first))))
}

/// A GET after everything else that finds nothing, though the last command wrote a value.
fn lost_write(events: &[Event]) -> Option<Event> {
    if events.iter().any(|event| event.returned_at.is_none()) {
        return None;
    }
    let last = events.iter().max_by_key(|event| event.returned_at)?;
    let alone = events
        .iter()
        .all(|event| event == last || event.returned_at < Some(last.called_at));
    let is_put = alone && matches!(last.call, Call::Put(_));
    is_put.then(|| after(events, Call::Get(None)))
}

fn after(events: &[Event], call: Call) -> Event {
    let times = events
        .iter()
        .map(|event| event.returned_at.unwrap_or(event.called_at));
    let end = times.max().unwrap_or_default();
    Event {
        client: LOSS + 1,
        call,
        called_at: end + 1,
        returned_at: Some(end + 2),
    }
}
