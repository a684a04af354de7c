//! Whether a recorded campaign is right, and records that are not.

use super::own::NUMBER as OWN;
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
    let plant = |name, planted_in: fn(&[Event]) -> Option<Vec<Event>>| {
        let place = record
            .events
            .iter()
            .find_map(|(key, events)| Some((*key, planted_in(events)?)));
        let (key, events) = place.unwrap_or_else(|| panic!("no place for a {name}"));
        let mut record = record.clone();
        record.events.insert(key, events);
        (name, record)
    };
    [
        plant("stale read", stale_read),
        plant("lost acknowledged write", lost_write),
    ]
}

/// With a GET after everything else that returns a value which was overwritten before another was.
fn stale_read(events: &[Event]) -> Option<Vec<Event>> {
    let puts = || {
        events.iter().filter_map(|event| match event.call {
            Call::Put(value) => Some((value, event.called_at, event.returned_at?)),
            _ => None,
        })
    };
    let (first, _, returned_at) = puts().min_by_key(|put| put.2)?;
    let is_overwritten = puts().any(|put| put.1 > returned_at);
    is_overwritten.then(|| [events, &[after(events, Call::Get(Some(first)))]].concat())
}

/// Without a value from the first GET on that the campaign's own client did after the value was written: all GETs of it from then on
/// find nothing, as after a crash of the only member that had it.
fn lost_write(events: &[Event]) -> Option<Vec<Event>> {
    let is_sweep = |event: &&Event| event.client == OWN && matches!(event.call, Call::Get(Some(_)));
    let found = events.iter().filter(is_sweep).find(|get| is_alone(events, get))?;
    let forget = |event: &Event| match event.call == found.call && event.called_at >= found.called_at {
        true => Event {
            call: Call::Get(None),
            ..*event
        },
        false => *event,
    };
    Some(events.iter().map(forget).collect())
}

/// Whether the value that a GET found was written before it, and nothing but GETs came in between or at the same time.
fn is_alone(events: &[Event], get: &Event) -> bool {
    let Call::Get(Some(value)) = get.call else {
        return false;
    };
    let is_over = |event: &Event, time| event.returned_at.is_some_and(|at| at < time);
    let Some(put) = events.iter().find(|event| event.call == Call::Put(value)) else {
        return false;
    };
    let is_elsewhere = |event: &Event| {
        matches!(event.call, Call::Get(_))
            || event == put
            || is_over(event, put.called_at)
            || Some(event.called_at) > get.returned_at
    };
    is_over(put, get.called_at) && events.iter().all(is_elsewhere)
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
