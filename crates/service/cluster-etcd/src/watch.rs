//! Reports what changes, as whole views: single changes that were missed, or compacted away, do not matter then.

use crate::connection::{Connection, Failure};
use crate::requests::look;
use drover_cluster::RegistryEvent;
use etcd_client::WatchOptions;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Reports views until nobody listens. When the watch ends, it looks, and watches from what it saw.
pub(crate) async fn watch(connection: Arc<Connection>, report: Sender<RegistryEvent>) {
    loop {
        match watch_once(&connection, &report).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(%error, "the watch has ended, and begins again"),
        }
        tokio::time::sleep(connection.timeout()).await;
    }
}

/// Watches until etcd ends it, which is an error, or nobody listens.
async fn watch_once(connection: &Connection, report: &Sender<RegistryEvent>) -> Result<(), Failure> {
    let mut client = connection.client().await?;
    let mut view = look(connection, &mut client).await?;
    let from = WatchOptions::new()
        .with_prefix()
        .with_start_revision(view.revision as i64 + 1);
    let mut changes = client.watch(connection.keys.all(), Some(from)).await?;
    loop {
        if report.send(RegistryEvent::Changed(view)).is_err() {
            return Ok(());
        }
        loop {
            let ended = || etcd_client::Error::WatchError("the stream has ended".to_string());
            let message = changes.message().await?.ok_or_else(ended)?;
            connection.check(message.header())?;
            if message.canceled() {
                let why = message.cancel_reason().to_string();
                return Err(etcd_client::Error::WatchError(why).into());
            }
            if !message.events().is_empty() {
                break;
            }
        }
        view = look(connection, &mut client).await?;
    }
}
