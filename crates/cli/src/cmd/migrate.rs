//! `portolan migrate`: brings the schema of a store up to date, one step after the other.

use crate::{
    Exit, Failure,
    args::{Global, MigrateArgs},
    config::{Config, DatabaseUrl, Flags, process_environment},
    screen::{Form, Screen},
};
use portolan_store::{
    Step, StoreOpenError, postgres,
    sqlite::{self, DirectoryError},
};
use serde_json::json;
use std::path::Path;

/// Applies what is missing, or says what would be applied.
pub(super) async fn run(args: &MigrateArgs, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    let flags = Flags {
        data: args.data.clone(),
        database: args.database.clone(),
        ..global.flags()
    };
    let config = Config::load(&flags, &process_environment)?;
    // A directory that is named is meant, whatever the environment says.
    let database = config.database.value.as_ref().filter(|_| args.data.is_none());
    let (place, steps) = match database {
        Some(url) => (url.to_string(), of_postgres(url, args.dry_run).await?),
        None => {
            let directory = &config.data.value;
            (
                directory.display().to_string(),
                of_sqlite(directory, args.dry_run)?,
            )
        }
    };
    print(&place, &steps, args.dry_run, screen)
}

async fn of_postgres(url: &DatabaseUrl, dry_run: bool) -> Result<Vec<Step>, Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::unavailable(format!("the schema in {url} cannot be brought up to date")).because(error)
    };
    let migrator = postgres::Migrator::connect(url.reveal())
        .await
        .map_err(|error| failed(&error))?;
    if dry_run {
        let pending = migrator.pending().await.map_err(|error| failed(&error))?;
        return Ok(pending.to_vec());
    }
    let mut applied = Vec::new();
    while let Some(step) = migrator.apply_next().await.map_err(|error| failed(&error))? {
        applied.push(step);
    }
    Ok(applied)
}

fn of_sqlite(directory: &Path, dry_run: bool) -> Result<Vec<Step>, Failure> {
    let failed = |error: StoreOpenError| {
        let shown = directory.display();
        let failure = Failure::unavailable(format!("the schema in {shown} cannot be brought up to date"));
        let failure = failure.because(&error);
        match error {
            StoreOpenError::Directory(DirectoryError::InUse { .. }) => {
                failure.hint("a server runs on it, and brought the schema up to date when it started")
            }
            _ => failure,
        }
    };
    if dry_run {
        return Ok(sqlite::Migrator::look(directory).map_err(failed)?.to_vec());
    }
    let mut migrator = sqlite::Migrator::open(directory).map_err(failed)?;
    let mut applied = Vec::new();
    while let Some(step) = migrator.apply_next().map_err(failed)? {
        applied.push(step);
    }
    Ok(applied)
}

fn print(place: &str, steps: &[Step], dry_run: bool, screen: &Screen) -> Result<Exit, Failure> {
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    if screen.form != Form::Text {
        let key = if dry_run { "pending" } else { "applied" };
        screen.document(&json!({ "store": place, key: names }))?;
        return Ok(Exit::Ok);
    }
    let done = if dry_run { "would apply" } else { "applied" };
    for name in &names {
        screen.line(&format!("{done} {name}"))?;
    }
    if names.is_empty() {
        screen.line(&format!("the schema in {place} is up to date"))?;
    }
    Ok(Exit::Ok)
}
