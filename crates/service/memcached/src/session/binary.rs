//! memcached's binary protocol, as far as a client must know it to be told that there is none here.
//!
//! ```text
//! request:   0 1 magic 0x80  1 1 opcode  2 2 key length  4 1 extras length  5 1 type   6 2 bucket  8 4 body length  12 4 opaque  16 8 CAS
//! response:  0 1 magic 0x81  1 1 opcode  2 2 key length  4 1 extras length  5 1 type   6 2 status  8 4 body length  12 4 opaque  16 8 CAS
//! ```
//! Numbers are big-endian.

use drover_net::Output;

/// First byte of a request; no command of the text protocol begins so.
pub(super) const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
/// Length of a header, bytes.
pub(super) const HEADER_BYTES: usize = 24;
/// Status "not supported", whose text is in the body.
const NOT_SUPPORTED: u16 = 0x83;

const WHY: &[u8] = b"the binary protocol is not supported: use text or meta commands";

/// Answers the request that begins with `header`: a client of this protocol does not understand lines, and would wait for a
/// response.
pub(super) fn refuse(header: &[u8; HEADER_BYTES], output: &mut Output) {
    let mut response = [0; HEADER_BYTES];
    response[0] = RESPONSE;
    response[1] = header[1];
    response[6..8].copy_from_slice(&NOT_SUPPORTED.to_be_bytes());
    response[8..12].copy_from_slice(&(WHY.len() as u32).to_be_bytes());
    response[12..16].copy_from_slice(&header[12..16]);
    output.push(&response);
    output.push(WHY);
}
