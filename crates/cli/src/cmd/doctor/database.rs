//! The shared database: does it answer, does it keep what it commits, does it have the schema of this build.

use super::Finding;
use crate::config::{Config, DatabaseUrl};
use portolan_store::{
    PostgresStore,
    postgres::{PostgresOpenError, PostgresOptions, ServerFacts},
};
use std::cmp::Ordering;

const CHECK: &str = "database";

/// Looks at the server without changing anything.
pub(super) async fn check(url: &DatabaseUrl, config: &Config) -> Vec<Finding> {
    let options = PostgresOptions {
        allow_unsafe: config.allow_unsafe_database.value,
        ..PostgresOptions::default()
    };
    match PostgresStore::inspect(url.reveal(), options).await {
        Ok(facts) => {
            let kept = if options.allow_unsafe {
                Finding::warn(
                    CHECK,
                    format!(
                        "Postgres {} at {url}; its durability is not asked for",
                        facts.version
                    ),
                    "leave out --allow-unsafe-database to have it checked",
                )
            } else {
                let detail = format!(
                    "Postgres {} at {url}, fsync, synchronous_commit and full_page_writes on",
                    facts.version
                );
                Finding::ok(CHECK, detail)
            };
            vec![kept, schema(&facts)]
        }
        Err(error) => vec![refused(url, &error)],
    }
}

fn schema(facts: &ServerFacts) -> Finding {
    const SCHEMA: &str = "schema";
    let newest = facts.newest_schema;
    let Some(found) = facts.schema else {
        return Finding::ok(SCHEMA, "the first start will make it");
    };
    match found.cmp(&newest) {
        Ordering::Equal => Finding::ok(SCHEMA, format!("version {found}")),
        Ordering::Less => Finding::fail(
            SCHEMA,
            format!("version {found}, and this build needs {newest}"),
            "stop the servers of the earlier build, then run `portolan migrate`",
        ),
        Ordering::Greater => Finding::fail(
            SCHEMA,
            format!("version {found}, and this build knows versions up to {newest}"),
            "use the build that wrote it, or a later one",
        ),
    }
}

fn refused(url: &DatabaseUrl, error: &PostgresOpenError) -> Finding {
    let remedy = match error {
        PostgresOpenError::Address => "write it as postgres://user@host/database",
        PostgresOpenError::Encryption => "reach it over a Unix socket, or through a tunnel",
        PostgresOpenError::Unreachable(_) => "start it, or correct the address",
        PostgresOpenError::OldServer { .. } => "upgrade the server",
        PostgresOpenError::Setting { .. } => "switch it on in the server's configuration",
        PostgresOpenError::ReadOnly => "name the primary",
        PostgresOpenError::Encoding { .. } => "make a database with the encoding UTF8",
        PostgresOpenError::Schema(_) => "name an empty database, or one that `portolan serve` made",
    };
    let cause = std::error::Error::source(error).map(|source| format!(": {source}"));
    Finding::fail(
        CHECK,
        format!("{url}: {error}{}", cause.unwrap_or_default()),
        remedy,
    )
}
