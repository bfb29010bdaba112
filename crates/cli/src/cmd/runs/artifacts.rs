//! `portolan runs artifacts RUN`.

use super::print_data;
use crate::{
    Exit, Failure,
    args::RunArtifactsArgs,
    client::{Server, text},
    failure::OrFail as _,
    folder,
    render::Table,
    screen::Screen,
};
use serde_json::Value;

/// Lists the files that a run changed, prints one of them, or writes them below a directory.
pub(super) async fn run(args: &RunArtifactsArgs, server: &Server, screen: &Screen) -> Result<Exit, Failure> {
    if let Some(path) = &args.path {
        screen.bytes(&fetch(server, &args.run, path).await?)?;
        return Ok(Exit::Ok);
    }
    let answer = server.get(&["v1", "runs", &args.run, "artifacts"], &[]).await?;
    let artifacts = answer["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(directory) = &args.into {
        return write(server, &args.run, artifacts, directory, screen).await;
    }
    if print_data(screen, artifacts)? {
        return Ok(Exit::Ok);
    }
    if artifacts.is_empty() {
        screen.talk("the run changed no files");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["OPERATION", "SIZE", "PATH"]);
    for artifact in artifacts {
        let size = artifact["size"].as_u64().map(|size| size.to_string());
        table.row([
            text(artifact, "operation").to_owned(),
            size.unwrap_or_default(),
            text(artifact, "path").to_owned(),
        ]);
    }
    for line in table.lines(screen) {
        screen.line(&line)?;
    }
    Ok(Exit::Ok)
}

async fn fetch(server: &Server, run: &str, path: &str) -> Result<Vec<u8>, Failure> {
    let mut segments = vec!["v1", "runs", run, "artifacts"];
    segments.extend(path.split('/'));
    server.get_bytes(&segments).await
}

/// Writes what has content. Deleted files are not deleted here: the directory is not the workspace.
async fn write(
    server: &Server,
    run: &str,
    artifacts: &[Value],
    directory: &std::path::Path,
    screen: &Screen,
) -> Result<Exit, Failure> {
    std::fs::create_dir_all(directory)
        .or_unavailable(|| format!("{} cannot be made", directory.display()))?;
    let mut left_out = 0;
    for artifact in artifacts {
        let path = text(artifact, "path");
        if artifact["digest"].is_null() {
            left_out += 1;
            continue;
        }
        let bytes = fetch(server, run, path).await?;
        folder::write(directory, path, &bytes)?;
        screen.talk(&format!("wrote {path}"));
    }
    if left_out > 0 {
        screen.talk(&format!(
            "{left_out} files without content (deleted ones and links) were left out"
        ));
        return Ok(Exit::Partial);
    }
    Ok(Exit::Ok)
}
