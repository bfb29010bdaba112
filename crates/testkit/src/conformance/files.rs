//! The files of a scenario: laid out before it runs, handed to it as workspace, resources and tools, read back after it.

use super::{
    scenario::{
        Fault, FileContent, ResourceKind, ResourcePart, Scenario, ShellPart, ToolPart, WorkspaceKind,
        WorkspacePart,
    },
    stage::Stage,
    tools::ScriptedTool,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use portolan_agent::{
    tools::{DirectoryResource, Editor, Shell, ShellOptions},
    workspace::{DirectoryWorkspace, MemoryWorkspace, Policy},
};
use portolan_core::{
    digest::Digest,
    manifest::{Entry, Manifest},
    tool::Tool,
    workspace::{Permission, WorkingDirectory, Workspace, WorkspaceError},
};
use std::{
    collections::BTreeMap,
    fmt::Display,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tempfile::TempDir;

/// The folders of one run: `workspace`, `outside`, `resources/NAME` and `instructions`, side by side.
#[derive(Debug)]
pub struct Layout {
    root: TempDir,
    has_directory: bool,
}

/// What a run gets to work with.
pub struct Equipment {
    /// The workspace.
    pub workspace: Option<Arc<dyn Workspace>>,
    /// The tools, without those of resources.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The resources by name, in order.
    pub resources: Vec<(String, Arc<DirectoryResource>)>,
    /// The workspace in memory without its scripted fault, to read it back.
    memory: Option<Arc<dyn Workspace>>,
}

impl std::fmt::Debug for Equipment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Equipment")
            .field("workspace", &self.workspace)
            .field("tools", &self.tools.len())
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}

impl Layout {
    /// Writes the files of a scenario into fresh folders.
    pub(super) fn new(scenario: &Scenario) -> io::Result<Self> {
        let root = tempfile::tempdir()?;
        let has_directory = scenario.workspace.kind == WorkspaceKind::Directory;
        let layout = Self { root, has_directory };
        for folder in ["outside", "resources", "instructions"] {
            fs::create_dir(layout.folder(folder))?;
        }
        write_all(&layout.folder("outside"), &scenario.outside)?;
        write_all(&layout.folder("instructions"), &scenario.instruction_files)?;
        if has_directory {
            fs::create_dir(layout.folder("workspace"))?;
            write_all(&layout.folder("workspace"), &scenario.workspace.files)?;
        }
        for (name, part) in resources(scenario)? {
            let folder = layout.folder("resources").join(&name);
            fs::create_dir(&folder)?;
            write_all(&folder, &part.files)?;
        }
        Ok(layout)
    }

    /// One of the folders.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Where an instruction file is, or would be.
    pub fn instruction_path(&self, name: &str) -> PathBuf {
        self.folder("instructions").join(name)
    }

    /// Opens everything that a run works with. An error is a configuration error of the run.
    pub fn equip(&self, stage: &Stage) -> Result<Equipment, String> {
        let scenario = &stage.scenario;
        let sound = self.workspace(&scenario.workspace)?;
        let in_memory = scenario.workspace.kind == WorkspaceKind::Memory;
        let tools = scenario
            .tools
            .iter()
            .map(|part| tool(part, stage))
            .collect::<Result<_, _>>()?;
        let mut opened = Vec::new();
        for (name, part) in resources(scenario).map_err(text)? {
            let ResourceKind::Directory = part.kind;
            let allow = part.allow.unwrap_or_else(|| Policy::READING.to_vec());
            let folder = self.folder("resources").join(&name);
            let policy = Policy::new(allow, &part.deny_globs).map_err(text)?;
            opened.push((
                name,
                Arc::new(DirectoryResource::open(folder, policy).map_err(text)?),
            ));
        }
        Ok(Equipment {
            memory: sound.clone().filter(|_| in_memory),
            workspace: sound.map(|workspace| faulty(workspace, scenario.workspace.fault)),
            tools,
            resources: opened,
        })
    }

    fn workspace(&self, part: &WorkspacePart) -> Result<Option<Arc<dyn Workspace>>, String> {
        let policy = || {
            let allow: Vec<Permission> = part.allow.clone().unwrap_or_else(|| Policy::EDITING.to_vec());
            Policy::new(allow, &part.deny_globs).map_err(text)
        };
        let workspace: Arc<dyn Workspace> = match part.kind {
            WorkspaceKind::None => return Ok(None),
            WorkspaceKind::Memory => {
                let mut files = Vec::new();
                for (path, content) in &part.files {
                    files.push((path.clone(), bytes(content).map_err(text)?));
                }
                Arc::new(MemoryWorkspace::new(files, policy()?).map_err(text)?)
            }
            WorkspaceKind::Directory => {
                Arc::new(DirectoryWorkspace::open(self.folder("workspace"), policy()?).map_err(text)?)
            }
        };
        Ok(Some(workspace))
    }

    /// The files of the directory workspace now, if there is one.
    pub(super) fn directory_after(&self) -> Option<BTreeMap<String, FileContent>> {
        self.has_directory.then(|| read_all(&self.folder("workspace")))
    }

    /// The files beside the workspace now.
    pub(super) fn outside_after(&self) -> BTreeMap<String, FileContent> {
        read_all(&self.folder("outside"))
    }
}

impl Equipment {
    /// The files of the workspace in memory now, if there is one.
    pub fn files_after(&self) -> Option<BTreeMap<String, FileContent>> {
        self.memory.as_ref().map(|workspace| files_of(&**workspace))
    }
}

/// The files of a workspace now, whatever its policy says.
fn files_of(workspace: &dyn Workspace) -> BTreeMap<String, FileContent> {
    let manifest = workspace.scan().unwrap_or_default();
    let files = manifest
        .entries
        .iter()
        .filter(|(_, entry)| matches!(entry, Entry::File { .. }));
    let contents =
        files.map(|(path, _)| (path.clone(), content(workspace.content(path).unwrap_or_default())));
    contents.collect()
}

fn resources(scenario: &Scenario) -> io::Result<Vec<(String, ResourcePart)>> {
    let parts = scenario.resources.iter().map(|(name, part)| {
        let part = serde_json::from_value(part.clone()).map_err(io::Error::other)?;
        Ok((name.clone(), part))
    });
    parts.collect()
}

fn tool(part: &ToolPart, stage: &Stage) -> Result<Arc<dyn Tool>, String> {
    Ok(match part {
        ToolPart::Named(name) if name == "editor" => Arc::new(Editor),
        ToolPart::Named(other) => return Err(format!("there is no built-in tool {other:?}")),
        ToolPart::Shell { shell } => Arc::new(Shell::new(options(shell)).map_err(text)?),
        ToolPart::Scripted(part) => Arc::new(ScriptedTool {
            part: part.clone(),
            effects: stage.effects(),
        }),
    })
}

fn options(part: &ShellPart) -> ShellOptions {
    let default = ShellOptions::default();
    ShellOptions {
        commands: part.commands.clone(),
        timeout_ms: part.timeout_ms.unwrap_or(default.timeout_ms),
        max_output_chars: part.max_output_chars.unwrap_or(default.max_output_chars),
        environment: part.environment.clone(),
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn bytes(content: &FileContent) -> io::Result<Vec<u8>> {
    match content {
        FileContent::Text(text) => Ok(text.clone().into_bytes()),
        FileContent::Bytes { base64 } => STANDARD.decode(base64).map_err(io::Error::other),
        FileContent::Link { .. } | FileContent::Directory { .. } => Err(io::Error::other("no file content")),
    }
}

fn content(bytes: Vec<u8>) -> FileContent {
    match String::from_utf8(bytes) {
        Ok(text) => FileContent::Text(text),
        Err(error) => FileContent::Bytes {
            base64: STANDARD.encode(error.as_bytes()),
        },
    }
}

fn write_all(folder: &Path, files: &BTreeMap<String, FileContent>) -> io::Result<()> {
    for (name, content) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match content {
            FileContent::Link { symlink } => std::os::unix::fs::symlink(symlink, &path)?,
            FileContent::Directory { .. } => fs::create_dir_all(&path)?,
            FileContent::Text(_) | FileContent::Bytes { .. } => fs::write(&path, bytes(content)?)?,
        }
    }
    Ok(())
}

/// All files below a folder; links are not followed, directories are not listed.
fn read_all(folder: &Path) -> BTreeMap<String, FileContent> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push((entry.path(), format!("{path}/"))),
                Ok(kind) if kind.is_symlink() => {
                    let target = fs::read_link(entry.path()).unwrap_or_default();
                    let symlink = target.to_string_lossy().into_owned();
                    files.insert(path, FileContent::Link { symlink });
                }
                Ok(_) | Err(_) => {
                    files.insert(path, content(fs::read(entry.path()).unwrap_or_default()));
                }
            }
        }
    }
    files
}

fn faulty(workspace: Arc<dyn Workspace>, fault: Option<Fault>) -> Arc<dyn Workspace> {
    match fault {
        None => workspace,
        Some(fault) => Arc::new(Faulty {
            inner: workspace,
            fault,
            scanned: AtomicBool::new(false),
        }),
    }
}

/// A workspace that cannot be looked at, from the first or from the second look on.
#[derive(Debug)]
struct Faulty {
    inner: Arc<dyn Workspace>,
    fault: Fault,
    scanned: AtomicBool,
}

impl Workspace for Faulty {
    fn list(&self, path: &str) -> Result<Vec<String>, WorkspaceError> {
        self.inner.list(path)
    }

    fn read(&self, path: &str) -> Result<String, WorkspaceError> {
        self.inner.read(path)
    }

    fn write(&self, path: &str, content: &str) -> Result<(), WorkspaceError> {
        self.inner.write(path, content)
    }

    fn working_directory(&self, path: &str) -> Result<WorkingDirectory, WorkspaceError> {
        self.inner.working_directory(path)
    }

    fn scan(&self) -> Result<Manifest, WorkspaceError> {
        let again = self.scanned.swap(true, Ordering::SeqCst);
        match (self.fault, again) {
            (Fault::Artifacts, false) => self.inner.scan(),
            (Fault::Snapshot, _) | (Fault::Artifacts, true) => Err(WorkspaceError::Failed(
                "the scenario lets the look at the files fail".to_owned(),
            )),
        }
    }

    fn content(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        self.inner.content(path)
    }

    fn restore(
        &self,
        manifest: &Manifest,
        fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        self.inner.restore(manifest, fetch)
    }
}
