//! [`Trace`]: requests in order, from a file or drawn at random.

mod fields;
mod line;
mod reader;
mod zipf;

pub use line::{BadLine, Format, Line, Op};
pub use reader::{TraceError, TraceReader};
pub use zipf::{ZipfSpec, ZipfSpecError};

use std::io::BufRead;
use zipf::ZipfTrace;

/// Requests in order, read once.
pub struct Trace {
    name: String,
    source: Source,
}

enum Source {
    Lines(TraceReader<Box<dyn BufRead>>),
    Drawn(Box<ZipfTrace>),
}

impl Trace {
    /// Requests that are read from `input`; `name` is what reports and errors call it. With `skip_bad`, lines that cannot
    /// be understood are counted and left out; otherwise they are errors.
    ///
    /// # Errors
    /// [`TraceError`] if `input` cannot be read, or its first line does not tell its format.
    pub fn read(
        name: &str,
        input: Box<dyn BufRead>,
        format: Option<Format>,
        skip_bad: bool,
    ) -> Result<Trace, TraceError> {
        Ok(Trace {
            name: name.to_string(),
            source: Source::Lines(TraceReader::new(name, input, format, skip_bad)?),
        })
    }

    /// Requests that are drawn at random.
    pub fn zipf(spec: &ZipfSpec) -> Trace {
        Trace {
            name: spec.to_string(),
            source: Source::Drawn(Box::new(ZipfTrace::new(spec))),
        }
    }

    /// What reports call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Passes the next request to `visit`, which may refuse it as a bad line; returns false at the end.
    ///
    /// # Errors
    /// [`TraceError`] if the input cannot be read, or a line is bad and bad lines are not skipped.
    pub fn visit(
        &mut self,
        mut visit: impl FnMut(&Line<'_>) -> Result<(), BadLine>,
    ) -> Result<bool, TraceError> {
        match &mut self.source {
            Source::Lines(reader) => reader.visit(visit),
            Source::Drawn(drawn) => match drawn.next_key() {
                None => Ok(false),
                // Nothing of a drawn request can be refused.
                Some(key) => Ok(visit(&drawn.line(&key)).is_ok()),
            },
        }
    }

    /// Number of bad lines left out so far.
    pub fn skipped(&self) -> u64 {
        match &self.source {
            Source::Lines(reader) => reader.skipped(),
            Source::Drawn(_) => 0,
        }
    }

    /// Whether requests have a time; without it nothing expires.
    pub fn has_time(&self) -> bool {
        match &self.source {
            Source::Lines(reader) => reader.has_time(),
            Source::Drawn(_) => false,
        }
    }

    /// Whether requests may have a time to live.
    pub fn has_ttl(&self) -> bool {
        match &self.source {
            Source::Lines(reader) => reader.has_ttl(),
            Source::Drawn(_) => false,
        }
    }

    /// How far the trace has been read, for a progress bar: bytes of a file, or requests drawn.
    pub fn position(&self) -> u64 {
        match &self.source {
            Source::Lines(reader) => reader.bytes_read(),
            Source::Drawn(drawn) => drawn.drawn(),
        }
    }
}
