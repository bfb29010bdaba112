//! `portolan import`: a run that ended elsewhere, checked as `portolan verify` checks before anything of it is written.

use crate::{
    Exit, Failure,
    args::{Global, ImportArgs},
    compose::{self, Administered},
    config::{Config, Flags, process_environment},
    failure::OrFail as _,
    screen::{Form, Screen},
};
use portolan_core::{digest::Digest, event::Recorded};
use portolan_journal::{
    Import, Imported, JournalError,
    audit::blobs_of,
    export::{Decoder, ExportFileError, Header, Item},
};
use serde_json::json;
use std::{collections::BTreeSet, fs::File, io::BufReader, path::Path};

/// Imports the file, or says why not and changes nothing.
pub(super) async fn run(args: &ImportArgs, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    let flags = Flags {
        data: args.data.clone(),
        database: args.database.clone(),
        ..global.flags()
    };
    let config = Config::load(&flags, &process_environment)?;
    let refused = || format!("{} is not imported", args.file.display());
    // Twice, so that the files of a large run are never in memory together: whole and consistent first, then kept.
    let (header, events) = read(&args.file)?.map_err(|error| Failure::negative(refused()).because(&error))?;
    let store = compose::administer(&config).await?;
    let checked = Import::checked(store.tenant, &header, events);
    let written = match checked {
        Ok(import) => write(&store, import, &args.file).await,
        Err(error) => Err(Failure::negative(refused()).because(&error)),
    };
    store.close().await;
    let imported = written?;
    match imported {
        Imported::Done => {}
        Imported::Exists => {
            return Err(Failure::negative(refused()).hint(format!(
                "there is a run {} already: nothing was changed",
                header.run_id
            )));
        }
    }
    match screen.form {
        Form::Json | Form::JsonLines => {
            screen.document(&json!({ "runId": header.run_id, "events": header.events }))?;
        }
        Form::Text => screen.line(&format!(
            "imported {} with {} events",
            header.run_id, header.events
        ))?,
    }
    Ok(Exit::Ok)
}

type Journal = (Header, Vec<Recorded>);

/// Why a file is not taken.
#[derive(Debug, thiserror::Error)]
enum RefusedFile {
    #[error(transparent)]
    File(#[from] ExportFileError),
    #[error("the file lacks the content {0}, which its journal names")]
    Lacks(Digest),
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path).or_usage(|| format!("{} cannot be opened", path.display()))?;
    Ok(BufReader::new(file))
}

/// The journal of a file that is whole, with every blob that the journal names.
fn read(path: &Path) -> Result<Result<Journal, RefusedFile>, Failure> {
    let input = open(path)?;
    let read = || {
        let mut decoder = Decoder::open(input)?;
        let (mut events, mut kept) = (Vec::new(), BTreeSet::new());
        while let Some(item) = decoder.next_item()? {
            match item {
                Item::Event(record) => events.push(record),
                Item::Blob(digest, _) => drop(kept.insert(digest)),
            }
        }
        let lacking = events
            .iter()
            .flat_map(blobs_of)
            .find(|digest| !kept.contains(digest));
        match lacking {
            Some(digest) => Err(RefusedFile::Lacks(digest)),
            None => Ok((decoder.header().clone(), events)),
        }
    };
    Ok(read())
}

/// The files first: a run that is there can be read whole. Files that no run names are only a matter of room.
async fn write(store: &Administered, import: Import, path: &Path) -> Result<Imported, Failure> {
    let known = store.journal().run(import.row().at).await;
    if known.map_err(|error| unwritten(&error))?.is_some() {
        return Ok(Imported::Exists);
    }
    let changed = || format!("{} was changed meanwhile", path.display());
    let mut decoder = Decoder::open(open(path)?).or_unavailable(changed)?;
    while let Some(item) = decoder.next_item().or_unavailable(changed)? {
        if let Item::Blob(_, content) = item {
            let put = store.blobs.put(vec![content]).await;
            put.or_unavailable(|| "the files of the run cannot be kept".to_owned())?;
        }
    }
    store
        .journal()
        .import(import)
        .await
        .map_err(|error| unwritten(&error))
}

fn unwritten(error: &JournalError) -> Failure {
    Failure::unavailable("the run cannot be written")
        .because(error)
        .hint("try again: a run that is there already is not written twice")
}
