//! The story itself: start, run, kill, start again, and gather the evidence.

use super::{
    evidence::{Changed, Evidence, Kill},
    ledger::{Held, Send},
    narrate::Narrator,
    process::Process,
    project,
};
use crate::{
    Failure,
    agent_file::{self, Folders},
    args::Global,
    client::{Follow, Server, text},
    compose,
    failure::OrFail as _,
    folder,
    screen::Screen,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// The model call whose reply is held while the server dies: in the middle, with one edit behind it.
const HELD_CALL: usize = 6;
/// With a real model, the step at whose start the server dies.
const REAL_KILL_STEP: &str = "llm-3";
/// The whole story, real models included.
const PATIENCE: Duration = Duration::from_secs(900);

const CONFIG: &str = r#"# Made by `portolan demo`.
allowHostShell = true

[providers.demo]
kind = "compatible"
baseUrl = "{{url}}/v1"
honoursIdempotencyKeys = true

[prices."demo/*"]
inputUsdPerMillion = "0.40"
outputUsdPerMillion = "1.60"
"#;

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Model {
    /// The scripted provider.
    Scripted {
        /// How long it thinks.
        thinking_ms: u64,
    },
    /// A real one, by its name.
    Real(String),
}

/// What the demo is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) model: Model,
    pub(super) crash: bool,
    pub(super) keep: bool,
}

/// The story when it is over.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) evidence: Evidence,
    pub(super) run_id: String,
    /// The directory that stays, if it stays.
    pub(super) kept: Option<PathBuf>,
    _directory: Option<TempDir>,
}

/// Tells the story.
pub(super) async fn tell(plan: &Plan, global: &Global, screen: &Screen) -> Result<Told, Failure> {
    let directory = tempfile::Builder::new()
        .prefix("portolan-demo-")
        .tempdir()
        .or_unavailable(|| "a temporary directory cannot be made".to_owned())?;
    let told = tokio::time::timeout(PATIENCE, Box::pin(stage(plan, global, directory.path(), screen))).await;
    let (evidence, run_id) = told.map_err(|_| Failure::unavailable("the demo takes too long"))??;
    let (kept, directory) = if plan.keep {
        (Some(directory.keep()), None)
    } else {
        (None, Some(directory))
    };
    Ok(Told {
        evidence,
        run_id,
        kept,
        _directory: directory,
    })
}

/// What is on stage at a moment.
struct Stage<'a> {
    directory: &'a Path,
    /// `None` with a real model.
    provider: Option<(Process, Server)>,
    /// A configuration that is used instead of ours, for a real model.
    config: Option<PathBuf>,
}

impl Stage<'_> {
    async fn start_server(&self) -> Result<(Process, Server), Failure> {
        let data = self.directory.join("data");
        let mut arguments: Vec<&OsStr> = Vec::new();
        if let Some(config) = &self.config {
            arguments.extend([OsStr::new("--config"), config.as_os_str()]);
        }
        arguments
            .extend(["serve", "--listen", "127.0.0.1:0", "--allow-host-shell", "--data"].map(OsStr::new));
        arguments.push(data.as_os_str());
        let process = Process::start("server", &arguments, self.directory, "server.log").await?;
        let key =
            compose::read_admin_key(&data).or_unavailable(|| "the admin key cannot be read".to_owned())?;
        let server = Server::at(process.url(), key)?;
        Ok((process, server))
    }
}

async fn stage(
    plan: &Plan,
    global: &Global,
    directory: &Path,
    screen: &Screen,
) -> Result<(Evidence, String), Failure> {
    let narrator = Narrator::new(screen);
    project::write(directory)?;
    let tests_before = project::test(&directory.join("project")).await?;
    narrator.opening(plan, &tests_before)?;

    let stage = set(plan, global, directory).await?;
    if let Some((provider, _)) = &stage.provider {
        narrator.provider(provider.pid(), provider.url())?;
    }
    let (process, server) = stage.start_server().await?;
    narrator.server(process.pid(), process.url(), directory)?;
    let run_id = begin(plan, &server, directory).await?;
    narrator.run(&run_id)?;

    let Acted {
        process,
        server,
        kill,
    } = act(plan, &stage, process, server, &run_id, &narrator).await?;
    let evidence = gather(&stage, &server, &run_id, tests_before, kill).await?;
    let last_exit = process.terminate().await?;
    Ok((
        Evidence {
            last_exit,
            ..evidence
        },
        run_id,
    ))
}

/// Starts the provider, if there is one, and writes the configuration.
async fn set<'a>(plan: &Plan, global: &Global, directory: &'a Path) -> Result<Stage<'a>, Failure> {
    let Model::Scripted { thinking_ms } = &plan.model else {
        // A server of ours runs elsewhere, so the file must not be a relative path.
        let config = global
            .config
            .clone()
            .or_else(|| Some(PathBuf::from(crate::config::FILE_NAME)));
        let config = config.and_then(|config| fs::canonicalize(config).ok());
        return Ok(Stage {
            directory,
            provider: None,
            config,
        });
    };
    let (thinking, held) = (thinking_ms.to_string(), HELD_CALL.to_string());
    let mut arguments = vec![
        "demo-provider",
        "--ledger",
        "ledger.jsonl",
        "--thinking-ms",
        &thinking,
    ];
    if plan.crash {
        arguments.extend(["--hold-call", &held]);
    }
    let arguments: Vec<&OsStr> = arguments.into_iter().map(OsStr::new).collect();
    let provider = Process::start("provider", &arguments, directory, "provider.log").await?;
    let config = directory.join(crate::config::FILE_NAME);
    let text = CONFIG.replace("{{url}}", provider.url());
    fs::write(&config, text).or_unavailable(|| format!("{} cannot be written", config.display()))?;
    let control = Server::at(provider.url(), None)?;
    Ok(Stage {
        directory,
        provider: Some((provider, control)),
        config: Some(config),
    })
}

/// Applies the agent and starts its run.
async fn begin(plan: &Plan, server: &Server, directory: &Path) -> Result<String, Failure> {
    let mut definition = agent_file::load(&directory.join("agent.toml"), Folders::Inlined)?;
    definition.model = Some(match &plan.model {
        Model::Scripted { .. } => "demo/fixer".to_owned(),
        Model::Real(name) => name.clone(),
    });
    let name = definition.name.clone();
    let body =
        serde_json::to_value(definition).or_unavailable(|| "the agent cannot be encoded".to_owned())?;
    server
        .submit(Method::PUT, &["v1", "agents", name.as_str()], Some(&body))
        .await?;
    let body = json!({"agentName": name, "input": null, "tags": ["demo"]});
    let answer = server.submit(Method::POST, &["v1", "runs"], Some(&body)).await?;
    Ok(text(&answer["run"], "id").to_owned())
}

/// What is on stage when the run has ended.
struct Acted {
    process: Process,
    server: Server,
    kill: Option<Kill>,
}

/// Follows the run; when the moment has come, kills the server and starts it again.
async fn act(
    plan: &Plan,
    stage: &Stage<'_>,
    process: Process,
    server: Server,
    run_id: &str,
    narrator: &Narrator<'_>,
) -> Result<Acted, Failure> {
    let mut last_seq = 0;
    let mut moment = None;
    if plan.crash {
        let mut follow = Follow::new(&server, run_id, 0);
        let mut held = Box::pin(held(stage));
        loop {
            tokio::select! {
                // What had happened before the kill is told before it.
                biased;
                frame = follow.next() => {
                    let Some(frame) = frame? else { break };
                    last_seq = frame.seq;
                    narrator.event(&frame.event)?;
                    if stage.provider.is_none() && text(&frame.event, "kind") == "step_started"
                        && text(&frame.event, "stepId") == REAL_KILL_STEP
                    {
                        moment = Some(Held {
                            key: text(&frame.event["data"], "idempotencyKey").to_owned(),
                            call: 3,
                        });
                        break;
                    }
                }
                here = &mut held => {
                    moment = here?;
                    break;
                }
            }
        }
    }
    let (process, server, kill) = match moment {
        None => (process, server, None),
        Some(held) => {
            let (process, server, kill) = crash(stage, process, held, last_seq, narrator).await?;
            (process, server, Some(kill))
        }
    };
    let mut follow = Follow::new(&server, run_id, last_seq);
    while let Some(frame) = follow.next().await? {
        narrator.event(&frame.event)?;
    }
    Ok(Acted {
        process,
        server,
        kill,
    })
}

/// The call whose reply the provider holds. With a real model nothing is held.
async fn held(stage: &Stage<'_>) -> Result<Option<Held>, Failure> {
    let Some((_, control)) = &stage.provider else {
        return std::future::pending().await;
    };
    let answer = control.get(&["control", "held"], &[]).await?;
    serde_json::from_value(answer).or_unavailable(|| "the provider answered something else".to_owned())
}

async fn crash(
    stage: &Stage<'_>,
    process: Process,
    held: Held,
    last_seq: u64,
    narrator: &Narrator<'_>,
) -> Result<(Process, Server, Kill), Failure> {
    let pid = process.pid();
    narrator.killing(pid, &held, stage.provider.is_some())?;
    let signal = process.kill().await?;
    narrator.killed(pid, signal)?;
    // Only now, with the server dead, may the provider answer: nobody is there to hear it.
    if let Some((_, control)) = &stage.provider {
        control
            .submit(Method::POST, &["control", "release"], None)
            .await?;
    }
    let (process, server) = stage.start_server().await?;
    narrator.again(process.pid(), process.url())?;
    let kill = Kill {
        pid,
        signal,
        key: held.key,
        call: held.call,
        last_seq_before: last_seq,
    };
    Ok((process, server, kill))
}

/// Asks everybody but the server's memory: the API, the provider, and the project's own tests.
async fn gather(
    stage: &Stage<'_>,
    server: &Server,
    run_id: &str,
    tests_before: project::TestRun,
    kill: Option<Kill>,
) -> Result<Evidence, Failure> {
    let of = |mut answer: Value, member: &str| match answer.get_mut(member).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let run = server.get(&["v1", "runs", run_id], &[]).await?["run"].take();
    let events = server.get(&["v1", "runs", run_id, "events"], &[]).await?;
    let steps = server.get(&["v1", "runs", run_id, "steps"], &[]).await?;
    let artifacts = server.get(&["v1", "runs", run_id, "artifacts"], &[]).await?;
    let mut changed = Vec::new();
    for artifact in of(artifacts, "data") {
        let path = text(&artifact, "path").to_owned();
        let content = if artifact["digest"].is_null() {
            None
        } else {
            let mut segments = vec!["v1", "runs", run_id, "artifacts"];
            segments.extend(path.split('/'));
            Some(server.get_bytes(&segments).await?)
        };
        changed.push(Changed {
            operation: text(&artifact, "operation").to_owned(),
            path,
            content,
        });
    }
    let tests_after = test_result(stage.directory, &changed).await?;
    let ledger = match &stage.provider {
        None => None,
        Some((_, control)) => {
            let sends = of(control.get(&["control", "ledger"], &[]).await?, "sends");
            let sends: Result<Vec<Send>, _> = sends.into_iter().map(serde_json::from_value).collect();
            Some(sends.or_unavailable(|| "the ledger cannot be read".to_owned())?)
        }
    };
    Ok(Evidence {
        tests_before,
        tests_after,
        kill,
        run,
        events: of(events, "data"),
        steps: of(steps, "data"),
        changed,
        ledger,
        last_exit: None,
    })
}

/// Runs the tests on the original files with the run's changes, in a directory that no agent has seen.
async fn test_result(directory: &Path, changed: &[Changed]) -> Result<project::TestRun, Failure> {
    let result = directory.join("result");
    for (path, content) in project::FILES {
        folder::write(&result, path, content.as_bytes())?;
    }
    for file in changed {
        match &file.content {
            Some(content) => folder::write(&result, &file.path, content)?,
            None => {
                let path = result.join(&file.path);
                fs::remove_file(&path).or_unavailable(|| format!("{} cannot be removed", path.display()))?;
            }
        }
    }
    project::test(&result).await
}
