//! Arbitrary traces of `drover cache-sim`.

use drover_cache_sim::trace::{Format, Trace};

/// Checks that any bytes are read as requests or refused with the name of the input, in each format, and that a reader
/// that skips bad lines refuses none. Input: a trace.
pub fn any(input: &[u8]) {
    for format in [None, Some(Format::Csv), Some(Format::Twitter)] {
        let counts = [false, true].map(|skip_bad| requests(input, format, skip_bad));
        if let [Ok(strict), lenient] = counts {
            assert_eq!(lenient, Ok(strict), "no line was bad");
        }
    }
}

/// Number of requests of a trace; or the error.
fn requests(input: &[u8], format: Option<Format>, skip_bad: bool) -> Result<u64, String> {
    let text = |error: drover_cache_sim::trace::TraceError| {
        let text = error.to_string();
        assert!(text.starts_with("trace "), "{text}");
        text
    };
    let reader = Box::new(std::io::Cursor::new(input.to_vec()));
    let mut trace = Trace::read("trace", reader, format, skip_bad).map_err(text)?;
    let mut count = 0;
    let mut visit = || {
        trace.visit(|line| {
            assert!(!line.key.is_empty());
            Ok(())
        })
    };
    while visit().inspect_err(|_| assert!(!skip_bad)).map_err(text)? {
        count += 1;
    }
    Ok(count)
}
