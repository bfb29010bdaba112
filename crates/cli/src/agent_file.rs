//! Agent definitions in files: TOML, YAML or JSON, with the files that they name taken in.

use crate::{
    failure::{Failure, OrFail as _},
    folder,
};
use portolan_core::agent::{AgentDefinition, InstructionSource};
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// The largest file that is read as a definition or an instruction.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// How a definition is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Toml,
    Yaml,
    Json,
}

impl Syntax {
    fn of(path: &Path) -> Option<Self> {
        match path.extension().and_then(OsStr::to_str) {
            Some("toml") => Some(Self::Toml),
            Some("yaml" | "yml") => Some(Self::Yaml),
            Some("json") => Some(Self::Json),
            _ => None,
        }
    }

    fn parse(self, text: &str) -> Result<AgentDefinition, Box<dyn std::error::Error>> {
        Ok(match self {
            Self::Toml => toml::from_str(text)?,
            Self::Yaml => serde_yaml_ng::from_str(text)?,
            Self::Json => serde_json::from_str(text)?,
        })
    }
}

/// Whether an argument means a file rather than the name of an agent.
pub(crate) fn is_file(argument: &str) -> bool {
    let path = Path::new(argument);
    argument.contains('/') || Syntax::of(path).is_some() || path.is_file()
}

/// Whether folders that a definition names are taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folders {
    /// Their files become part of the definition.
    Inlined,
    /// The workspace's folder stays a name, because another one takes its place.
    WorkspaceReplaced,
}

/// Reads a definition with everything that it names. Paths are relative to the file.
pub(crate) fn load(path: &Path, folders: Folders) -> Result<AgentDefinition, Failure> {
    let syntax = Syntax::of(path).ok_or_else(|| {
        Failure::usage(format!("{} is no agent file", path.display()))
            .hint("an agent file ends with .toml, .yaml, .yml or .json")
    })?;
    let text = read(path)?;
    let mut definition = syntax.parse(&text).map_err(|error| {
        Failure::usage(format!("{} is not a valid agent definition", path.display()))
            .because(&*error)
            .hint("`portolan init` writes a commented one")
    })?;
    let base = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    take_in(&mut definition, &base, folders)?;
    Ok(definition)
}

fn take_in(definition: &mut AgentDefinition, base: &Path, folders: Folders) -> Result<(), Failure> {
    for source in &mut definition.instructions {
        if let InstructionSource::File { file } = source {
            *source = InstructionSource::Text(read(&base.join(file))?);
        }
    }
    if let Some(workspace) = &mut definition.workspace
        && let Some(from) = workspace.from.take()
        && folders == Folders::Inlined
    {
        let mut files = folder::inline(&base.join(from))?;
        // What the definition itself says about a file wins over the folder.
        files.append(&mut workspace.files);
        workspace.files = files;
    }
    for resource in definition.resources.values_mut() {
        if let Some(directory) = resource.directory.take() {
            let mut files = folder::inline(&base.join(directory))?;
            files.append(&mut resource.files);
            resource.files = files;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    let unreadable = || format!("{} cannot be read", path.display());
    let size = fs::metadata(path).or_usage(unreadable)?.len();
    if size > MAX_BYTES {
        return Err(Failure::usage(format!(
            "{} is larger than {MAX_BYTES} bytes",
            path.display()
        )));
    }
    fs::read_to_string(path).or_usage(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_core::agent::FileContent;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("made");
        for (path, text) in files {
            folder::write(directory.path(), path, text.as_bytes()).expect("written");
        }
        directory
    }

    const YAML: &str = "name: a\nmodel: openai/x\ninstructions: [one, {file: rules.md}]\nresultSchema: {type: string}\n\
                        workspace: {kind: directory, from: project, files: {b.txt: ours}}\n\
                        resources: {docs: {directory: docs}}\n";

    #[test]
    fn named_files_and_folders_are_taken_in() {
        let directory = folder(&[
            ("a.yaml", YAML),
            ("rules.md", "two"),
            ("project/a.txt", "theirs"),
            ("project/b.txt", "theirs"),
            ("docs/x.md", "x"),
        ]);
        let definition = load(&directory.path().join("a.yaml"), Folders::Inlined).expect("valid");
        let texts = ["one", "two"].map(|text| InstructionSource::Text(text.to_owned()));
        assert_eq!(definition.instructions, texts);
        let workspace = definition.workspace.expect("there");
        assert_eq!(workspace.from, None);
        assert_eq!(workspace.files["a.txt"], FileContent::Text("theirs".to_owned()));
        assert_eq!(workspace.files["b.txt"], FileContent::Text("ours".to_owned()));
        let docs = &definition.resources["docs"];
        assert_eq!((docs.directory.as_ref(), docs.files.len()), (None, 1));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, text, named) in [
            (
                "a.toml",
                "name = \"a\"\nmodelName = \"x/y\"\n[resultSchema]",
                "modelName",
            ),
            ("a.yaml", "name: a b\nresultSchema: {}", "agent name"),
            ("a.txt", "", "no agent file"),
            (
                "a.json",
                r#"{"name":"a","instructions":[{"file":"gone.md"}],"resultSchema":{}}"#,
                "gone.md",
            ),
        ] {
            let directory = folder(&[(name, text)]);
            let failure = load(&directory.path().join(name), Folders::Inlined).expect_err(name);
            assert!(failure.to_string().contains(named), "{name}: {failure}");
            assert_eq!(failure.exit().code(), 2);
        }
    }

    #[test]
    fn a_name_is_no_file() {
        assert!(!is_file("fixer"));
        assert!(!is_file("fixer-2.b"));
        assert!(is_file("fixer.toml"));
        assert!(is_file("./fixer"));
    }
}
