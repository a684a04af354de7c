//! Arbitrary bytes where requests and replies arrive: in rings and mailboxes.

use crate::request;

/// Checks that a server takes or refuses any bytes in its ring of requests, and that any record taken parses as a
/// request of FaRM-KV or is refused. Input: whether records carry checksums (1 byte, bit 0); then for each record
/// whether it is made valid (1 byte, bit 0), its length in units of 4 bytes (1 byte), and its bytes.
pub fn ring(input: &[u8]) {
    drover_rpc::ring::fuzz_ring(input, request::any);
}

/// Checks that a client accepts or refuses any bytes in its mailbox as replies, and that accepted ones fit their place
/// in the mailbox or the client's space for long values. Input: whether replies carry checksums (bit 0) and whether
/// their checksums are made valid (bit 1; 1 byte), then the mailbox.
pub fn mailbox(input: &[u8]) {
    drover_rpc::ring::fuzz_mailbox(input);
}
