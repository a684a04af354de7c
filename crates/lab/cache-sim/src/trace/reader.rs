//! [`TraceReader`]: the lines of an input as requests, and where in the input an error is.

use super::line::{BadLine, Columns, Format, HEADER, Line};
use std::io::{self, BufRead, Read};

/// Most bytes of a line: keys of at most 250 bytes leave space for many other columns.
const LINE_BYTES_MAX: usize = 1 << 16;

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The input cannot be read.
    #[error("{name}: {source}")]
    Read {
        /// Name of the input.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// The input is compressed.
    #[error("{name} is compressed: decompress it, as by {program} FILE | drover cache-sim --trace -")]
    Compressed {
        /// Name of the input.
        name: String,
        /// A program that decompresses it.
        program: &'static str,
    },
    /// The first line is neither a header nor one of Twitter's lines.
    #[error(
        "{name} line 1: expected a header that names the columns, among them `key` ({HEADER}), or the columns of \
         Twitter's traces (time,key,key size,value size,client,operation,TTL)"
    )]
    Format {
        /// Name of the input.
        name: String,
    },
    /// A line is no request.
    #[error("{name} line {number}: {bad} (--skip-bad leaves such lines out)")]
    Line {
        /// Name of the input.
        name: String,
        /// Number of the line, from 1.
        number: u64,
        /// What is wrong with it.
        bad: BadLine,
    },
    /// There is no request at all.
    #[error("{name} has no requests{}", if *skipped > 0 { format!(": all {skipped} lines are bad") } else { String::new() })]
    Empty {
        /// Name of the input.
        name: String,
        /// Number of bad lines that were left out.
        skipped: u64,
    },
}

/// Reads requests line by line.
pub struct TraceReader<R> {
    name: String,
    input: R,
    line: Vec<u8>,
    /// Bytes of all lines up to the current one.
    bytes_read: u64,
    /// Number of the current line, from 1.
    number: u64,
    /// Whether the current line is still to be parsed.
    is_pending: bool,
    columns: Columns,
    skip_bad: bool,
    skipped: u64,
}

/// First bytes of compressed files, and what decompresses them.
const COMPRESSED: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "zcat"),
    (b"\x28\xb5\x2f\xfd", "zstdcat"),
    (b"\xfd7zXZ", "xzcat"),
    (b"BZh", "bzcat"),
];

/// A line that was read.
enum Got {
    Line,
    TooLong,
    End,
}

impl<R: BufRead> TraceReader<R> {
    /// A reader of `input`, whose first line decides the format unless that is given.
    ///
    /// # Errors
    /// [`TraceError`] if the input cannot be read, is compressed, or its first line does not tell its format.
    pub fn new(name: &str, input: R, format: Option<Format>, skip_bad: bool) -> Result<Self, TraceError> {
        let mut reader = TraceReader {
            name: name.to_string(),
            input,
            line: Vec::new(),
            bytes_read: 0,
            number: 0,
            is_pending: false,
            columns: Columns::Twitter,
            skip_bad,
            skipped: 0,
        };
        reader.begin(format)?;
        Ok(reader)
    }

    fn begin(&mut self, format: Option<Format>) -> Result<(), TraceError> {
        let name = self.name.clone();
        let start = match self.input.fill_buf() {
            Ok(start) => start,
            Err(source) => return Err(TraceError::Read { name, source }),
        };
        let compressed = COMPRESSED.iter().find(|(magic, _)| start.starts_with(magic));
        if let Some((_, program)) = compressed {
            return Err(TraceError::Compressed { name, program });
        }
        if format == Some(Format::Twitter) {
            return Ok(());
        }
        match self.read_line()? {
            Got::End => return Err(TraceError::Empty { name, skipped: 0 }),
            Got::TooLong => return Err(TraceError::Format { name }),
            Got::Line => {}
        }
        let text = self.line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.line);
        if let Some(columns) = Columns::of_header(text) {
            self.columns = columns;
            return Ok(());
        }
        if format == Some(Format::Csv) || Columns::Twitter.parse(text).is_err() {
            return Err(TraceError::Format { name });
        }
        self.is_pending = true;
        Ok(())
    }

    /// Passes the next request to `visit`, which may refuse it as a bad line; returns false at the end. Empty lines are left
    /// out.
    ///
    /// # Errors
    /// [`TraceError`] if the input cannot be read, or a line is bad and bad lines are not skipped.
    pub fn visit(
        &mut self,
        mut visit: impl FnMut(&Line<'_>) -> Result<(), BadLine>,
    ) -> Result<bool, TraceError> {
        loop {
            let got = match std::mem::take(&mut self.is_pending) {
                true => Got::Line,
                false => self.read_line()?,
            };
            let result = match got {
                Got::End => return Ok(false),
                Got::TooLong => Err(BadLine::TooLong {
                    bytes_max: LINE_BYTES_MAX,
                }),
                Got::Line if self.line.is_empty() => continue,
                Got::Line => self.columns.parse(&self.line).and_then(|line| visit(&line)),
            };
            match result {
                Ok(()) => return Ok(true),
                Err(bad) => self.refuse(bad)?,
            }
        }
    }

    /// Counts a bad line, or makes it an error.
    fn refuse(&mut self, bad: BadLine) -> Result<(), TraceError> {
        if self.skip_bad {
            self.skipped += 1;
            return Ok(());
        }
        Err(TraceError::Line {
            name: self.name.clone(),
            number: self.number,
            bad,
        })
    }

    /// Reads a line, without its end.
    fn read_line(&mut self) -> Result<Got, TraceError> {
        self.line.clear();
        let failed = |name: &str, source| TraceError::Read {
            name: name.to_string(),
            source,
        };
        let mut limited = (&mut self.input).take(LINE_BYTES_MAX as u64 + 1);
        let got = limited.read_until(b'\n', &mut self.line);
        if got.map_err(|source| failed(&self.name, source))? == 0 {
            return Ok(Got::End);
        }
        self.number += 1;
        self.bytes_read += self.line.len() as u64;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        } else if self.line.len() > LINE_BYTES_MAX {
            self.input
                .skip_until(b'\n')
                .map_err(|source| failed(&self.name, source))?;
            return Ok(Got::TooLong);
        }
        Ok(Got::Line)
    }

    /// Bytes of the lines read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Number of bad lines left out so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether there is a column with the time.
    pub fn has_time(&self) -> bool {
        self.columns.has_time()
    }

    /// Whether there is a column with times to live.
    pub fn has_ttl(&self) -> bool {
        self.columns.has_ttl()
    }
}
