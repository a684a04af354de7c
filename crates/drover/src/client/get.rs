//! `drover get`: values of keys, as bytes, with details, as JSON, or into a file.

use super::keys::{KeysArgs, Reply};
use super::{Answer, ClientCommand, STATUSES, report_missing};
use crate::advice;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use drover_client::{Item, Op};
use drover_kv::SystemTable;
use serde::Serialize;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;

/// Arguments of `get`.
#[derive(Args)]
#[command(after_help = STATUSES)]
pub struct Get {
    /// Key, 1 to 250 bytes. Its value is printed as it is; a line feed follows on a terminal only
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Further keys, whose values follow in their order; -- stands before those that begin with -
    #[arg(value_name = "KEY")]
    more: Vec<String>,
    /// Print no line feed after a value on a terminal, either
    #[arg(long)]
    raw: bool,
    /// Print a line `version N flags N` before each value, and a line feed after it
    #[arg(long)]
    details: bool,
    /// Print a line of JSON for each key: key, found, version, flags, and value, or value_base64 if the value is no UTF-8
    #[arg(long, conflicts_with_all = ["raw", "details"])]
    json: bool,
    /// Write the values to this file, which is created or replaced if all keys exist, instead of printing them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["raw", "details", "json"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    at: KeysArgs,
}

/// A line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    key: &'a str,
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

impl<'a> Line<'a> {
    fn of(key: &'a str, item: Option<&'a Item>) -> Line<'a> {
        let text = item.and_then(|item| std::str::from_utf8(&item.value).ok());
        Line {
            key,
            found: item.is_some(),
            version: item.map(|item| item.version),
            flags: item.map(|item| item.flags),
            value: text,
            value_base64: item
                .filter(|_| text.is_none())
                .map(|item| STANDARD.encode(&item.value)),
        }
    }
}

impl ClientCommand for Get {
    fn execute<T: SystemTable>(&self) -> Answer {
        let keys = self.keys().map(str::as_bytes);
        let ops: Vec<Op<'_>> = match self.details || self.json {
            true => keys.map(|key| Op::GetItem { key }).collect(),
            false => keys.map(|key| Op::Get { key }).collect(),
        };
        let replies = self.at.open::<T>()?.execute(&ops)?;
        let items: Vec<Option<Item>> = replies.into_iter().map(item_of).collect();
        let missing = self.keys().zip(&items).filter(|(_, item)| item.is_none());
        let missing = missing.map(|(key, _)| report_missing(key)).count();
        match &self.file {
            None => self.print(&items)?,
            Some(_) if missing > 0 => {}
            Some(file) => {
                let values: Vec<&[u8]> = items.iter().flatten().map(|item| &*item.value).collect();
                let written = std::fs::write(file, values.concat());
                written.map_err(|error| advice::of_file("--file", file, &error))?;
            }
        }
        Ok(missing == 0)
    }
}

impl Get {
    fn keys(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.key).chain(&self.more).map(String::as_str)
    }

    fn print(&self, items: &[Option<Item>]) -> Result<(), String> {
        let out = io::stdout();
        let ends_lines = !self.raw && (self.details || out.is_terminal());
        match self.write(items, ends_lines, &mut out.lock()) {
            // The reader has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|error| format!("standard output: {error}")),
        }
    }

    fn write(&self, items: &[Option<Item>], ends_lines: bool, out: &mut impl Write) -> io::Result<()> {
        for (key, item) in self.keys().zip(items) {
            if self.json {
                serde_json::to_writer(&mut *out, &Line::of(key, item.as_ref()))?;
                writeln!(out)?;
                continue;
            }
            let Some(item) = item else { continue };
            if self.details {
                writeln!(out, "version {} flags {}", item.version, item.flags)?;
            }
            out.write_all(&item.value)?;
            if ends_lines {
                writeln!(out)?;
            }
        }
        out.flush()
    }
}

fn item_of(reply: Reply) -> Option<Item> {
    match reply {
        Reply::Found(item) => Some(item),
        _ => None,
    }
}
