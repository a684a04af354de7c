//! What each [`RegistryRequest`] does to etcd.

use crate::connection::{Connection, Failure};
use crate::keys::{decode_member, encode_member};
use drover_base::Ns;
use drover_cluster::{
    Advert, Epoch, Map, MemberId, RegistryReply, RegistryRequest, ServiceSettings, Transaction, View,
};
use etcd_client::{
    Client, Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use std::sync::Arc;

/// Executes a request, within the time that requests have.
pub(crate) async fn execute(
    connection: &Connection,
    request: RegistryRequest,
) -> Result<RegistryReply, Failure> {
    let timeout = connection.timeout();
    let executed = tokio::time::timeout(timeout, try_execute(connection, request)).await;
    executed.unwrap_or(Err(Failure::Timeout(timeout)))
}

async fn try_execute(connection: &Connection, request: RegistryRequest) -> Result<RegistryReply, Failure> {
    let mut client = connection.client().await?;
    match request {
        RegistryRequest::Register {
            advert,
            instance,
            ttl,
        } => register(connection, &mut client, advert, instance, ttl).await,
        RegistryRequest::Renew(id) => renew(connection, &mut client, &id).await,
        RegistryRequest::Leave(id) => leave(connection, &mut client, &id).await,
        RegistryRequest::Commit(transaction) => commit(connection, &mut client, transaction).await,
        RegistryRequest::Look => Ok(RegistryReply::View(look(connection, &mut client).await?)),
        RegistryRequest::Settings(first) => settings(connection, &mut client, first).await,
    }
}

async fn register(
    connection: &Connection,
    client: &mut Client,
    advert: Advert,
    instance: u64,
    ttl: Ns,
) -> Result<RegistryReply, Failure> {
    // The lease lives from here on; the key comes later.
    let granted = client
        .lease_grant(ttl.0.div_ceil(1_000_000_000) as i64, None)
        .await?;
    connection.check(granted.header())?;
    let (key, value) = (
        connection.keys.member(advert.name()),
        encode_member(&advert, instance),
    );
    let put = PutOptions::new().with_lease(granted.id());
    let txn = Txn::new()
        .when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)])
        .and_then([TxnOp::put(key.as_str(), value, Some(put))])
        .or_else([TxnOp::get(key.as_str(), None)]);
    let response = client.txn(txn).await?;
    let incarnation = connection.check(response.header())?;
    if response.succeeded() {
        let name = advert.name().clone();
        let id = MemberId { name, incarnation };
        connection.set_lease(id.clone(), granted.id());
        return Ok(RegistryReply::Registered(id));
    }
    // Somebody has the name; perhaps we, by a request whose reply was lost.
    let found = gets(&response).into_iter().flatten().next();
    let ours = found.and_then(|kv| {
        let (member, of) = decode_member(kv.create_revision(), kv.value()).ok()?;
        (of == instance).then(|| (member.id(), kv.lease()))
    });
    // If this fails, the lease that was not needed ends by itself.
    let _ = client.lease_revoke(granted.id()).await;
    Ok(match ours {
        Some((id, lease)) => {
            connection.set_lease(id.clone(), lease);
            RegistryReply::Registered(id)
        }
        None => RegistryReply::NameTaken,
    })
}

async fn renew(
    connection: &Connection,
    client: &mut Client,
    id: &MemberId,
) -> Result<RegistryReply, Failure> {
    let Some(lease) = connection.lease(id) else {
        return Ok(RegistryReply::LeaseLost);
    };
    match client.lease_keep_alive(lease).await {
        Ok(_) => {}
        Err(etcd_client::Error::LeaseKeepAliveError(_)) => return Ok(RegistryReply::LeaseLost),
        Err(other) => return Err(other.into()),
    }
    // A lease without the key protects nothing, and an old leader may have answered alone.
    let txn = Txn::new().when([lives(connection, id)]);
    let response = client.txn(txn).await?;
    connection.check(response.header())?;
    Ok(if response.succeeded() {
        RegistryReply::Renewed
    } else {
        RegistryReply::LeaseLost
    })
}

async fn leave(
    connection: &Connection,
    client: &mut Client,
    id: &MemberId,
) -> Result<RegistryReply, Failure> {
    let delete = TxnOp::delete(connection.keys.member(&id.name), None);
    let txn = Txn::new().when([lives(connection, id)]).and_then([delete]);
    let response = client.txn(txn).await?;
    connection.check(response.header())?;
    Ok(RegistryReply::Left)
}

async fn commit(
    connection: &Connection,
    client: &mut Client,
    transaction: Transaction,
) -> Result<RegistryReply, Failure> {
    let Transaction { map, alive, gone } = transaction;
    let (keys, epoch) = (&connection.keys, map.epoch());
    let before = Epoch(epoch.0 - 1);
    let mut conditions = vec![if before == Epoch::NONE {
        Compare::create_revision(keys.epoch(), CompareOp::Equal, 0)
    } else {
        Compare::value(keys.epoch(), CompareOp::Equal, before.to_string())
    }];
    conditions.extend(alive.iter().map(|id| lives(connection, id)));
    conditions.extend(gone.iter().map(|id| {
        let incarnation = id.incarnation as i64;
        Compare::create_revision(keys.member(&id.name), CompareOp::NotEqual, incarnation)
    }));
    let txn = Txn::new().when(conditions).and_then([
        TxnOp::put(keys.epoch(), epoch.to_string(), None),
        TxnOp::put(keys.map(), map.to_bytes(), None),
    ]);
    let response = client.txn(txn).await?;
    connection.check(response.header())?;
    Ok(if response.succeeded() {
        RegistryReply::Committed
    } else {
        RegistryReply::Conflict
    })
}

/// Members and map, as of one revision.
pub(crate) async fn look(connection: &Connection, client: &mut Client) -> Result<View, Failure> {
    let keys = &connection.keys;
    let txn = Txn::new().and_then([
        TxnOp::get(keys.members(), Some(GetOptions::new().with_prefix())),
        TxnOp::get(keys.map(), None),
    ]);
    let response = client.txn(txn).await?;
    let revision = connection.check(response.header())?;
    let found = gets(&response);
    let [listed, map] = &found[..] else {
        return Err(Failure::NoHeader);
    };
    let member = |kv: &etcd_client::KeyValue| match decode_member(kv.create_revision(), kv.value()) {
        Ok((member, _)) => Some(member),
        Err(error) => {
            let key = String::from_utf8_lossy(kv.key()).into_owned();
            tracing::warn!(key, %error, "a member cannot be read, and counts as none");
            None
        }
    };
    let members = Arc::new(listed.iter().filter_map(member).collect());
    let map = map.first().map(|kv| Map::from_bytes(kv.value())).transpose()?;
    Ok(View {
        revision,
        members,
        map: map.map(Arc::new),
    })
}

/// The settings of the service. `first` are written if there are none: of members that come at the same time one wins, and the others
/// read what it wrote.
async fn settings(
    connection: &Connection,
    client: &mut Client,
    first: Option<ServiceSettings>,
) -> Result<RegistryReply, Failure> {
    let key = connection.keys.settings();
    let create = first.map(|first| TxnOp::put(key.as_str(), first.to_bytes(), None));
    let txn = Txn::new()
        .when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)])
        .and_then(create.into_iter().collect::<Vec<_>>())
        .or_else([TxnOp::get(key.as_str(), None)]);
    let response = client.txn(txn).await?;
    connection.check(response.header())?;
    let found = gets(&response).into_iter().flatten().next();
    let found = found
        .map(|kv| ServiceSettings::from_bytes(kv.value()))
        .transpose()?;
    let settings = if response.succeeded() { first } else { found };
    Ok(RegistryReply::Settings(settings))
}

/// The condition that a registration lives.
fn lives(connection: &Connection, id: &MemberId) -> Compare {
    let (key, incarnation) = (connection.keys.member(&id.name), id.incarnation as i64);
    Compare::create_revision(key, CompareOp::Equal, incarnation)
}

/// What the reads of a transaction have found.
fn gets(response: &TxnResponse) -> Vec<Vec<etcd_client::KeyValue>> {
    let found = response
        .op_responses()
        .into_iter()
        .filter_map(|response| match response {
            TxnOpResponse::Get(mut got) => Some(got.take_kvs()),
            _ => None,
        });
    found.collect()
}
