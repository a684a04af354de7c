//! Arbitrary requests to the servers of Pilaf and FaRM-KV.

use drover_kv::{Extension, KEY_BYTES_MAX};
use drover_one_sided::{Request, RequestKind};

/// Checks that any message to a server of Pilaf or FaRM-KV is refused, or is a request whose key and value fill the
/// rest of the message and which encodes to an equal one.
pub fn any(message: &[u8]) {
    let Some((request, key, value)) = Request::decode(message) else {
        return;
    };
    assert!((1..=KEY_BYTES_MAX).contains(&key.len()), "{request:?}");
    let said = if request.kind == RequestKind::Put {
        request.value_bytes
    } else {
        0
    };
    assert_eq!((key.len(), value.len()), (request.key_bytes, said), "{request:?}");
    let extension = request.extension.map(Extension::encode);
    let extension = extension.as_ref().map_or(&[][..], |bytes| bytes);
    let again = [&request.encode()[..], extension, key, value].concat();
    assert_eq!(again.len(), message.len(), "nothing is left over");
    assert_eq!(Request::decode(&again), Some((request, key, value)));
}
