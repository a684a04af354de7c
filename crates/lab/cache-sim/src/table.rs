//! A [`Report`] as a table for people.

use crate::report::Report;
use crate::sample::Rate;
use crate::sizes::show;
use std::fmt::{self, Display, Formatter};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let gets = self.rows.first().map_or(0, |row| row.gets);
        writeln!(
            f,
            "{}: {} requests; hits of {} gets count, from request {} on\n",
            self.trace,
            commas(self.requests),
            commas(gets),
            commas(self.counted_from)
        )?;
        writeln!(
            f,
            "{:>10}  {:<6}  {:>7}  {:>13}  {:>9}  {:>9}  {:>12}  {:>13}",
            "size", "policy", "keys", "requests", "hit rate", "of bytes", "items", "evicted"
        )?;
        for row in &self.rows {
            let keys = Rate::new(row.sample).unwrap_or(Rate::ALL).to_string();
            writeln!(
                f,
                "{:>10}  {:<6}  {keys:>7}  {:>13}  {:>9}  {:>9}  {:>12}  {:>13}",
                show(row.size_bytes),
                row.policy,
                commas(row.gets),
                percent(row.hit_rate),
                percent(row.byte_hit_rate),
                commas(row.items),
                commas(row.evicted)
            )?;
        }
        writeln!(f)?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        writeln!(f, "{}", self.advice())
    }
}

/// A share in percent; `-` if there is none.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_string(), |share| format!("{:.2} %", 100.0 * share))
}

/// A number with commas between thousands.
pub(crate) fn commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
