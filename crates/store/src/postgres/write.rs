//! The writes: each decides on what it reads under a lock, or within one statement, and gives the readers its news.

pub(super) mod admit;
pub(super) mod agents;
pub(super) mod append;
pub(super) mod budget;
pub(super) mod claim;
pub(super) mod events;
pub(super) mod import;
pub(super) mod inbox;
pub(super) mod keys;
pub(super) mod lease;
pub(super) mod usage;

use super::fault::Fault;
use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Row, types::ToSql};

/// Prepares a statement and runs it. What fails before it is sent has done nothing.
async fn query(client: &ClientWrapper, sql: &str, bound: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Fault> {
    let statement = client.prepare_cached(sql).await.map_err(Fault::Before)?;
    Ok(client.query(&statement, bound).await?)
}

/// The same for a statement without an answer: how many rows it changed.
async fn execute(client: &ClientWrapper, sql: &str, bound: &[&(dyn ToSql + Sync)]) -> Result<u64, Fault> {
    let statement = client.prepare_cached(sql).await.map_err(Fault::Before)?;
    Ok(client.execute(&statement, bound).await?)
}
