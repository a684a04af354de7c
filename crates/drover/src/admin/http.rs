//! The part of HTTP that a monitor uses: one GET per connection, in bounded memory and time. Sans I/O.
//!
//! It is written by hand, without `httparse` or a server crate: a request is one line of three words, whose headers change no
//! answer, and reading it takes fewer lines than the results of a parser.

use crate::auth::parse_basic;
use drover_control::Credentials;

/// Maximum bytes of a request's line and headers.
pub const REQUEST_BYTES_MAX: usize = 4096;

/// Result of parsing a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked<'a> {
    /// The headers are not complete: more input is needed.
    More,
    /// GET of this path, without its query.
    Get(&'a str),
    /// A request to be refused, with the response's status and body.
    Refused(Status, &'static str),
}

/// Statuses of our responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// HTTP status 200.
    Ok,
    /// HTTP status 400.
    BadRequest,
    /// HTTP status 401.
    Unauthorized,
    /// HTTP status 404.
    NotFound,
    /// HTTP status 405.
    MethodNotAllowed,
    /// HTTP status 431.
    TooLarge,
    /// HTTP status 503.
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"drover\"",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed\r\nAllow: GET",
            Status::TooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

/// Parses all bytes received so far on a connection. Of the headers only [`login`]'s changes an answer.
pub fn parse(input: &[u8]) -> Asked<'_> {
    let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else {
        return match input.len() < REQUEST_BYTES_MAX {
            true => Asked::More,
            false => Asked::Refused(Status::TooLarge, "the request is longer than 4096 bytes\n"),
        };
    };
    let line = input[..end]
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["GET", target, "HTTP/1.1" | "HTTP/1.0"] if target.starts_with('/') => {
            Asked::Get(target.split('?').next().unwrap_or(target))
        }
        [method, _, "HTTP/1.1" | "HTTP/1.0"] if method != "GET" => {
            Asked::Refused(Status::MethodNotAllowed, "GET /metrics or GET /healthz\n")
        }
        _ => Asked::Refused(
            Status::BadRequest,
            "this is HTTP/1.1: GET /metrics or GET /healthz\n",
        ),
    }
}

/// The user and password of a complete request's header `Authorization`.
pub fn login(input: &[u8]) -> Option<Credentials> {
    let lines = std::str::from_utf8(input).ok()?.split("\r\n").skip(1);
    let mut headers = lines.filter_map(|line| line.split_once(':'));
    let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case("authorization"))?;
    parse_basic(value)
}

/// Formats a complete response, after which the connection closes.
pub fn response(status: Status, content_type: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        status.line(),
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_whole_after_an_empty_line() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]), Asked::More, "{len}");
        }
        assert_eq!(parse(whole), Asked::Get("/metrics"));
        assert_eq!(parse(b"GET /healthz HTTP/1.0\r\n\r\n"), Asked::Get("/healthz"));
    }

    #[test]
    fn other_requests_are_refused_with_the_reason() {
        let status = |input: &[u8]| match parse(input) {
            Asked::Refused(status, _) => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(status(b"POST / HTTP/1.1\r\n\r\n"), Status::MethodNotAllowed);
        assert_eq!(status(b"GET / HTTP/2\r\n\r\n"), Status::BadRequest);
        assert_eq!(status(b"GET  / HTTP/1.1\r\n\r\n"), Status::BadRequest);
        assert_eq!(status(b"GET http://x/ HTTP/1.1\r\n\r\n"), Status::BadRequest);
        assert_eq!(status(b"\xff\xff\r\n\r\n"), Status::BadRequest);
        assert_eq!(status(&[b'a'; REQUEST_BYTES_MAX]), Status::TooLarge);
        assert_eq!(parse(&[b'a'; REQUEST_BYTES_MAX - 1]), Asked::More);
    }

    #[test]
    fn a_response_says_how_long_it_is() {
        let text = String::from_utf8(response(Status::Unavailable, "text/plain", "late\n")).expect("text");
        assert_eq!(
            text,
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlate\n"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(input in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let whole = input.len() >= REQUEST_BYTES_MAX;
            prop_assert!(!whole || parse(&input) != Asked::More);
        }
    }
}
