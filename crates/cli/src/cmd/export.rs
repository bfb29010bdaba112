//! `portolan export`: a run as a file.

use crate::{
    Exit, Failure,
    args::{ExportArgs, Global},
    client::Server,
    failure::OrFail as _,
    screen::Screen,
};
use portolan_journal::export::{Decoder, ExportFileError};
use std::{
    fs::{self, File},
    io::{BufReader, Write as _},
    path::Path,
};

/// Writes the file, and reads it back: an export that broke off is none.
pub(super) async fn run(args: &ExportArgs, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    let server = Server::find(&args.address, global)?;
    let path = ["v1", "runs", &args.run, "export"];
    let Some(output) = &args.output else {
        let mut take = |piece: &[u8]| screen.bytes(piece);
        server.download(&path, &mut take).await?;
        return Ok(Exit::Ok);
    };
    let mut name = output.clone().into_os_string();
    name.push(".part");
    let part = Path::new(&name);
    let written = write(&server, &path, part).await;
    let lines = match written {
        Ok(lines) => lines,
        Err(failure) => {
            // What is left is of no use; that it could not be removed is no second failure.
            let _ = fs::remove_file(part);
            return Err(failure);
        }
    };
    fs::rename(part, output).or_unavailable(|| format!("{} cannot be written", output.display()))?;
    screen.talk(&format!("wrote {} ({lines} events and files)", output.display()));
    Ok(Exit::Ok)
}

async fn write(server: &Server, path: &[&str], part: &Path) -> Result<u64, Failure> {
    let cannot = || format!("{} cannot be written", part.display());
    let mut file = File::create(part).or_unavailable(cannot)?;
    let mut take = |piece: &[u8]| file.write_all(piece).or_unavailable(cannot);
    server.download(path, &mut take).await?;
    file.sync_all().or_unavailable(cannot)?;
    let file = File::open(part).or_unavailable(|| format!("{} cannot be read", part.display()))?;
    count(file).map_err(|error| broken_off().because(&error))
}

fn count(file: File) -> Result<u64, ExportFileError> {
    let mut decoder = Decoder::open(BufReader::new(file))?;
    let mut items = 0;
    while decoder.next_item()?.is_some() {
        items += 1;
    }
    Ok(items)
}

fn broken_off() -> Failure {
    Failure::unavailable("the export broke off").hint("the log of the server says why; then try it again")
}
