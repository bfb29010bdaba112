//! `portolan init`: two commented files to start from.

use crate::{
    Exit, Failure,
    args::InitArgs,
    config::FILE_NAME,
    failure::OrFail as _,
    screen::{Form, Screen},
};
use portolan_core::agent::AgentName;
use serde_json::json;
use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

const AGENT: &str = include_str!("../../assets/init/agent.toml");
const CONFIG: &str = include_str!("../../assets/init/portolan.toml");
const AGENT_FILE: &str = "agent.toml";

/// Writes the files. One that is there is never replaced unasked, and then nothing is written at all.
pub(super) fn run(args: &InitArgs, screen: &Screen) -> Result<Exit, Failure> {
    let name: AgentName = args
        .name
        .parse()
        .or_usage(|| format!("{:?} cannot be the name of an agent", args.name))?;
    fs::create_dir_all(&args.directory)
        .or_unavailable(|| format!("{} cannot be made", args.directory.display()))?;
    let files = [
        (
            args.directory.join(AGENT_FILE),
            AGENT.replace("{{name}}", name.as_str()),
        ),
        (args.directory.join(FILE_NAME), CONFIG.to_owned()),
    ];
    if !args.force
        && let Some((path, _)) = files.iter().find(|(path, _)| path.symlink_metadata().is_ok())
    {
        return Err(Failure::usage(format!("{} is there already", path.display()))
            .hint("--force replaces it, --directory writes elsewhere"));
    }
    for (path, text) in &files {
        write(path, text, args.force).or_unavailable(|| format!("{} cannot be written", path.display()))?;
    }
    let [agent, config] = files.map(|(path, _)| path.display().to_string());
    if screen.form != Form::Text {
        screen.document(&json!({ "written": [agent, config] }))?;
        return Ok(Exit::Ok);
    }
    screen.line(&format!("wrote {agent} and {config}"))?;
    screen.talk(&format!(
        "next: set a model in {agent} (and its key in the environment), then\n  portolan run {agent} --input '\"Say hello\"'"
    ));
    Ok(Exit::Ok)
}

fn write(path: &Path, text: &str, replace: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if replace {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        agent_file::{self, Folders},
        config::{Config, Flags},
    };

    #[test]
    fn what_is_written_is_valid_and_stays() {
        let directory = tempfile::tempdir().expect("made");
        let args = |force| InitArgs {
            name: "helper".to_owned(),
            directory: directory.path().to_owned(),
            force,
        };
        let screen = Screen::plain(80);
        run(&args(false), &screen).expect("writes");
        let agent = directory.path().join(AGENT_FILE);
        let definition = agent_file::load(&agent, Folders::Inlined).expect("valid");
        assert_eq!(definition.name.as_str(), "helper");
        let flags = Flags {
            config: Some(directory.path().join(FILE_NAME)),
            ..Flags::default()
        };
        Config::load(&flags, &|_| None).expect("valid");
        fs::write(&agent, "mine").expect("written");
        let refused = run(&args(false), &screen).expect_err("there already");
        assert_eq!(refused.exit(), Exit::Usage);
        assert_eq!(fs::read_to_string(&agent).expect("there"), "mine");
        run(&args(true), &screen).expect("forced");
        assert_ne!(fs::read_to_string(&agent).expect("there"), "mine");
    }
}
