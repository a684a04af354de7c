//! [`ClientLine`]: a client's line in the table of a node: its lease, its epoch, and what the node thinks of it.

use crate::client::ClientId;
use crate::header::CLIENT_BYTES;
use drover_base::Ns;

/// Bytes that a client writes, at the start of its line.
pub const LEASE_BYTES: usize = 24;
pub(crate) const PUBLISHED_AT: usize = 8;
pub(crate) const PURGED_AT: usize = 16;
pub(crate) const IDENTITY_AT: usize = 24;
pub(crate) const PROCESS_AT: usize = 32;
pub(crate) const PREDECESSOR_AT: usize = 48;

/// What a node thinks of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientState {
    /// The line belongs to nobody.
    #[default]
    Free,
    /// The client renews its lease.
    Live,
    /// It does not, or its channel ended: it is being fenced.
    Suspected,
    /// Nothing of it lands any more. It may have left locks and blocks behind.
    Fenced,
}

impl ClientState {
    /// All states.
    pub const ALL: [ClientState; 4] = [
        ClientState::Free,
        ClientState::Live,
        ClientState::Suspected,
        ClientState::Fenced,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            ClientState::Free => "free",
            ClientState::Live => "live",
            ClientState::Suspected => "suspected",
            ClientState::Fenced => "fenced",
        }
    }
}

/// A line of the client table.
///
/// | offset | size | field | written by | meaning |
/// |---|---|---|---|---|
/// | 0 | 8 | counter | client | rewritten with every renewal of the lease |
/// | 8 | 8 | published | client | reclamation epoch before which it holds no pointers |
/// | 16 | 8 | purged | client | sweep of which its threads know; see `recovery` |
/// | 24 | 8 | identity | node | [`ClientId`] (lower half), state (upper half) |
/// | 32 | 16 | process | node | number and time of the start of its process, if that runs on the node's machine |
/// | 48 | 8 | predecessor | node | dead [`ClientId`] whose place it was given before anybody had repaired what that one left |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientLine {
    /// Rewritten with every renewal.
    pub counter: u64,
    /// Epoch before which the client holds no pointers.
    pub published: u64,
    /// Sweep of which the client's threads know.
    pub purged: u64,
    /// Who it is.
    pub client: ClientId,
    /// What the node thinks of it.
    pub state: ClientState,
    /// Dead client whose place it was given, and which is not repaired yet.
    pub predecessor: ClientId,
}

impl ClientLine {
    /// Reads a line, whatever its bytes are; `None` if the state is unknown.
    pub fn decode(bytes: &[u8; CLIENT_BYTES]) -> Option<ClientLine> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let (client, state) = decode_identity(word(IDENTITY_AT))?;
        Some(ClientLine {
            counter: word(0),
            published: word(PUBLISHED_AT),
            purged: word(PURGED_AT),
            client,
            state,
            predecessor: ClientId::from_bits(word(PREDECESSOR_AT) as u32),
        })
    }
}

/// What a node says of one of its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientInfo {
    /// Who it is.
    pub client: ClientId,
    /// What the node thinks of it. One that stays suspected is stopped inside a request, or may still write to the memory
    /// of an earlier process of this node.
    pub state: ClientState,
    /// Number of its process, if that runs on the node's machine.
    pub pid: Option<u32>,
    /// Time for which it has not renewed its lease.
    pub silent: Ns,
}

/// Bytes of a [`ClientInfo`] in a message.
const INFO_BYTES: usize = 16;

/// Client infos as they stand in a message.
pub(crate) fn encode_infos(infos: impl Iterator<Item = ClientInfo>) -> Vec<u8> {
    let infos = infos.take(INFOS_MAX).map(|info| {
        let silent_ms = u32::try_from(info.silent.0 / 1_000_000).unwrap_or(u32::MAX);
        let rest = u64::from(silent_ms) << 32 | u64::from(info.pid.unwrap_or(0));
        [encode_identity(info.client, info.state), rest]
    });
    infos.flatten().flat_map(u64::to_le_bytes).collect()
}

/// Client infos of a message; `None` if one of them makes no sense.
pub(crate) fn decode_infos(bytes: &[u8]) -> Option<Vec<ClientInfo>> {
    let (infos, rest) = bytes.as_chunks::<INFO_BYTES>();
    let decode = |info: &[u8; INFO_BYTES]| {
        let word = |at: usize| u64::from_le_bytes(info[at..at + 8].try_into().expect("8 bytes"));
        let (client, state) = decode_identity(word(0))?;
        let pid = word(8) as u32;
        Some(ClientInfo {
            client,
            state,
            pid: (pid != 0).then_some(pid),
            silent: Ns::from_ms(word(8) >> 32),
        })
    };
    let infos = infos.iter().map(decode).collect::<Option<Vec<_>>>()?;
    rest.is_empty().then_some(infos)
}

/// Most clients that a node names in a message.
const INFOS_MAX: usize = 1024;
/// Most bytes of client infos in a message.
pub(crate) const INFOS_BYTES_MAX: usize = INFOS_MAX * INFO_BYTES;

/// The word of identity and state.
pub(crate) fn encode_identity(client: ClientId, state: ClientState) -> u64 {
    (state as u64) << 32 | u64::from(client.bits())
}

/// Identity and state of a word; `None` if the state is unknown.
pub(crate) fn decode_identity(word: u64) -> Option<(ClientId, ClientState)> {
    let state = match word >> 32 {
        0 => ClientState::Free,
        1 => ClientState::Live,
        2 => ClientState::Suspected,
        3 => ClientState::Fenced,
        _ => return None,
    };
    Some((ClientId::from_bits(word as u32), state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_of_any_bytes(bytes: [u8; 32], id: u16, state in 0u64..6) {
            let mut line = [0; CLIENT_BYTES];
            line[..32].copy_from_slice(&bytes);
            let _ = ClientLine::decode(&line);
            let identity = state << 32 | u64::from(id) << 16;
            line[24..32].copy_from_slice(&identity.to_le_bytes());
            let decoded = ClientLine::decode(&line);
            prop_assert_eq!(decoded.is_some(), state < 4);
            if let Some(infos) = decode_infos(&bytes) {
                prop_assert_eq!(encode_infos(infos.into_iter()), bytes);
            }
            if let Some(decoded) = decoded {
                prop_assert_eq!(encode_identity(decoded.client, decoded.state), identity);
            }
        }
    }
}
