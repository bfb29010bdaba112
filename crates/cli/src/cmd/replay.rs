//! `portolan replay`: folds a journal again and says where, if anywhere, it differs.

use crate::{
    Exit, Failure,
    args::{Global, ReplayArgs},
    client::Server,
    failure::OrFail as _,
    screen::{Form, Screen, Style},
};
use portolan_core::{event::Recorded, ids::RunId};
use portolan_engine::{Replayed, replay};
use portolan_journal::export::{Decoder, ExportFileError, Item};
use serde_json::json;
use std::{
    fs::File,
    io::{BufRead, BufReader},
};

/// An export beyond this is replayed from a file.
const MOST_BYTES: usize = 1 << 30;

/// Replays a run of the server, or an exported one.
pub(super) async fn run(args: &ReplayArgs, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    let journal = match (&args.from, &args.run) {
        (Some(path), _) => {
            let file = File::open(path).or_usage(|| format!("{} cannot be opened", path.display()))?;
            journal(BufReader::new(file)).map_err(|error| {
                Failure::unavailable(format!("{} cannot be replayed", path.display())).because(&error)
            })?
        }
        (None, Some(run)) => {
            let server = Server::find(&args.address, global)?;
            let mut file = Vec::new();
            let mut take = |piece: &[u8]| {
                file.extend_from_slice(piece);
                match file.len() > MOST_BYTES {
                    true => Err(
                        Failure::unavailable("the run is too large to be replayed from here")
                            .hint("export it with -o, and replay it with --from"),
                    ),
                    false => Ok(()),
                }
            };
            server.download(&["v1", "runs", run, "export"], &mut take).await?;
            journal(&file[..])
                .map_err(|error| Failure::unavailable("the export broke off").because(&error))?
        }
        (None, None) => return Err(Failure::usage("name a run, or a file with --from")),
    };
    let (run, records) = journal;
    show(run, &replay(&records), screen)
}

fn journal(input: impl BufRead) -> Result<(RunId, Vec<Recorded>), ExportFileError> {
    let mut decoder = Decoder::open(input)?;
    let mut records = Vec::new();
    while let Some(item) = decoder.next_item()? {
        match item {
            Item::Event(record) => records.push(record),
            Item::Blob(..) => {}
        }
    }
    Ok((decoder.header().run_id, records))
}

fn show(run: RunId, replayed: &Replayed, screen: &Screen) -> Result<Exit, Failure> {
    let difference = replayed.difference.as_ref();
    match screen.form {
        Form::Json | Form::JsonLines => screen.document(&json!({
            "runId": run,
            "events": replayed.events,
            "steps": replayed.steps,
            "ended": replayed.ended,
            "equal": difference.is_none(),
            "difference": difference.map(|difference| json!({
                "seq": difference.seq.0,
                "kind": difference.kind.name(),
                "detail": difference.kind.to_string(),
            })),
        }))?,
        Form::Text => match difference {
            None => screen.line(&format!(
                "{}: {} events, {} steps{}",
                screen.paint(Style::Good, "equal"),
                replayed.events,
                replayed.steps,
                if replayed.ended { "" } else { ", not ended yet" }
            ))?,
            Some(difference) => screen.line(&screen.paint(Style::Bad, &difference.to_string()))?,
        },
    }
    Ok(match difference {
        None => Exit::Ok,
        Some(_) => Exit::Negative,
    })
}
