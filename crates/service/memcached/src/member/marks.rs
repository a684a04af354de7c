//! What a core must know of a message when its reply comes, kept in the number of the pending reply.
//!
//! | bits of the number | what |
//! |---|---|
//! | 0-46 | the number in its [`Output`](drover_net::Output): a million replies a second reach its end in four years |
//! | 47-60 | the route on which the message was sent |
//! | 61, 62 | what becomes of the reply on failure: [`OnFailure`] |
//! | 63 | whether the reply is those to several keys (`gather.rs`) |
//!
//! So a core keeps no state about the requests under way, and a reply from a ring and one from a link are taken alike.

use drover_net::PendingReply;

const SILENT: u64 = 1 << 62;
const CLOSE: u64 = 1 << 61;
const ROUTE_SHIFT: u32 = 47;
/// Number of routes; one beyond them is never taken.
pub(super) const ROUTES_MAX: usize = 1 << 14;
const ROUTE: u64 = (ROUTES_MAX as u64 - 1) << ROUTE_SHIFT;

/// What becomes of a pending reply if its request fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnFailure {
    /// It becomes the line of the error: it is the whole reply to a request.
    Line,
    /// It stays empty: the client wants no reply.
    Silence,
    /// Its connection is closed: it is a part of a reply, and a line in the midst of it would be taken for the end of that.
    Close,
}

impl OnFailure {
    /// The pending reply with this mark.
    pub(super) fn mark(self, pending: PendingReply) -> PendingReply {
        let bits = match self {
            OnFailure::Line => 0,
            OnFailure::Silence => SILENT,
            OnFailure::Close => CLOSE,
        };
        let number = pending.number | bits;
        PendingReply { number, ..pending }
    }

    /// The mark of a pending reply, and the pending reply without it.
    pub(super) fn take(pending: PendingReply) -> (OnFailure, PendingReply) {
        let on_failure = match pending.number {
            number if number & CLOSE != 0 => OnFailure::Close,
            number if number & SILENT != 0 => OnFailure::Silence,
            _ => OnFailure::Line,
        };
        let number = pending.number & !(SILENT | CLOSE);
        (on_failure, PendingReply { number, ..pending })
    }
}

/// The pending reply of a message that is sent on `route`, which is below [`ROUTES_MAX`].
pub(super) fn with_route(pending: PendingReply, route: usize) -> PendingReply {
    let number = pending.number | (route as u64) << ROUTE_SHIFT;
    PendingReply { number, ..pending }
}

/// The route of a message, and its pending reply without that.
pub(super) fn take_route(pending: PendingReply) -> (usize, PendingReply) {
    let route = (pending.number & ROUTE) >> ROUTE_SHIFT;
    let number = pending.number & !ROUTE;
    (route as usize, PendingReply { number, ..pending })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back() {
        for number in [0, 77, 1 << 63, (1 << ROUTE_SHIFT) - 1] {
            let pending = PendingReply {
                connection: 3,
                number,
            };
            for mark in [OnFailure::Line, OnFailure::Silence, OnFailure::Close] {
                for route in [0, 1, ROUTES_MAX - 1] {
                    let sent = with_route(mark.mark(pending), route);
                    let (came_by, left) = take_route(sent);
                    assert_eq!((came_by, OnFailure::take(left)), (route, (mark, pending)));
                }
            }
        }
    }
}
