//! Agents and keys.

use super::work::NOW;
use portolan_core::{
    agent::{AgentDefinition, AgentName, AgentStore},
    ids::{AgentId, KeyId, TenantId},
    key::{ApiKey, KeyStore, Scope},
};
use portolan_store::SqliteStore;

const TENANT: TenantId = TenantId::from_bytes([1; 16]);
const OTHER: TenantId = TenantId::from_bytes([2; 16]);

fn open() -> (tempfile::TempDir, SqliteStore) {
    let directory = tempfile::tempdir().expect("made");
    let store = SqliteStore::open(directory.path()).expect("opens");
    (directory, store)
}

fn name(name: &str) -> AgentName {
    name.parse().expect("is a name")
}

fn definition(name: &str, task: &str) -> AgentDefinition {
    serde_json::from_value(serde_json::json!({
        "name": name,
        "model": "test/model",
        "task": task,
        "resultSchema": {"type": "object", "properties": {"b": {}, "a": {}}},
    }))
    .expect("is a definition")
}

#[tokio::test]
async fn a_changed_definition_is_a_version_and_the_same_one_is_none() {
    let (_directory, store) = open();
    let put = async |id: u8, task: &str| {
        store
            .put_agent(TENANT, AgentId::from_bytes([id; 16]), definition("a", task), NOW)
            .await
            .expect("is put")
    };
    let first = put(1, "x").await;
    assert_eq!((first.id, first.version), (AgentId::from_bytes([1; 16]), 1));
    assert_eq!(put(2, "x").await, first, "the same definition");
    let second = put(3, "y").await;
    assert_eq!((second.id, second.version), (first.id, 2), "a changed definition");
    assert_eq!(put(4, "x").await.version, 3, "the older definition once more");

    let agent = async |version| store.agent(TENANT, name("a"), version).await.expect("is read");
    assert_eq!(agent(Some(1)).await, Some(first));
    assert_eq!(agent(Some(2)).await, Some(second));
    assert_eq!(agent(None).await.map(|agent| agent.version), Some(3));
    assert_eq!(agent(Some(4)).await, None);
    assert_eq!(store.agent(OTHER, name("a"), None).await.expect("is read"), None);
}

#[tokio::test]
async fn retired_agents_leave_the_list_and_come_back_when_they_are_put() {
    let (_directory, store) = open();
    for (number, agent) in (1..).zip(["b", "a", "c", "B"]) {
        let id = AgentId::from_bytes([number; 16]);
        store
            .put_agent(TENANT, id, definition(agent, "x"), NOW)
            .await
            .expect("is put");
    }
    let list = async |after: Option<&str>, limit| -> Vec<String> {
        let agents = store.agents(TENANT, after.map(name), limit).await.expect("lists");
        agents
            .into_iter()
            .map(|agent| agent.definition.name.into())
            .collect()
    };
    assert_eq!(list(None, 10).await, ["B", "a", "b", "c"]);
    assert_eq!(list(Some("a"), 1).await, ["b"]);
    assert_eq!(store.retire_agent(TENANT, name("b")).await, Ok(true));
    assert_eq!(store.retire_agent(TENANT, name("b")).await, Ok(true));
    assert_eq!(store.retire_agent(TENANT, name("nobody")).await, Ok(false));
    assert_eq!(store.retire_agent(OTHER, name("a")).await, Ok(false));
    assert_eq!(list(None, 10).await, ["B", "a", "c"]);
    let kept = store
        .agent(TENANT, name("b"), None)
        .await
        .expect("is read")
        .expect("is kept");
    assert!(kept.retired);
    let id = AgentId::from_bytes([9; 16]);
    let revived = store
        .put_agent(TENANT, id, definition("b", "x"), NOW)
        .await
        .expect("is put");
    assert_eq!((revived.version, revived.retired), (1, false));
    assert_eq!(list(None, 10).await, ["B", "a", "b", "c"]);
}

#[tokio::test]
async fn the_first_key_is_made_once_and_found_by_its_hash() {
    let (_directory, store) = open();
    let key = |id: u8| ApiKey {
        id: KeyId::from_bytes([id; 16]),
        tenant: TenantId::from_bytes([id; 16]),
        name: "first".to_owned(),
        scopes: [Scope::Admin, Scope::RunsRead].into(),
        secret_hash: [id; 32],
        created_at: NOW,
        expires_at: Some(NOW.plus_ms(5)),
    };
    assert_eq!(store.key_by_hash([1; 32]).await, Ok(None));
    assert_eq!(store.bootstrap("us", key(1)).await, Ok(true));
    assert_eq!(store.bootstrap("them", key(2)).await, Ok(false));
    assert_eq!(store.key_by_hash([1; 32]).await, Ok(Some(key(1))));
    assert_eq!(store.key_by_hash([2; 32]).await, Ok(None));
}
