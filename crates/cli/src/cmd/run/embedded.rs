//! A run of a file, here and now: the same loop and the same rules as on the server, without a journal.

use super::{
    ground::{Ground, OneWorkspace, Origin},
    metered::{Bill, Metered},
};
use crate::{
    Exit, Failure,
    agent_file::{self, Folders},
    args::{Global, RunArgs},
    compose::{RouterModels, registry},
    config::{Config, Flags, process_environment},
    failure::OrFail as _,
    render::{diff, failure_line},
    screen::{Form, Screen, Style},
};
use portolan_agent::{Execution, ExecutionError, agent};
use portolan_core::{
    agent::{AgentDefinition, AgentVersion, RunLimits},
    artifact::Artifact,
    cancel::CancelToken,
    entropy::Entropy,
    event::RunQueued,
    failure::FailureKind,
    price::Prices,
    time::Clock,
    usage::LoopUsage,
};
use portolan_engine::{
    Configuration, DefinitionPreparer, Equipment, HostAbilities, ModelSource as _, Preparer as _, Violation,
    ambient::{OsEntropy, SystemClock},
    definition,
};
use portolan_journal::RunRef;
use portolan_router::PriceTable;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Runs the file and shows what came of it.
pub(super) async fn run(
    args: &RunArgs,
    input: Value,
    global: &Global,
    screen: &Screen,
) -> Result<Exit, Failure> {
    let config = Config::load(
        &Flags {
            allow_host_shell: args.allow_host_shell,
            ..global.flags()
        },
        &process_environment,
    )?;
    let folders = match &args.workspace {
        Some(_) => Folders::WorkspaceReplaced,
        None => Folders::Inlined,
    };
    let definition = agent_file::load(Path::new(&args.agent), folders)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let models =
        registry(&config, Arc::clone(&clock)).or_usage(|| "the providers cannot be set up".to_owned())?;
    let models = RouterModels::new(models);
    let prices = PriceTable::with_overrides(config.prices.clone())
        .or_usage(|| "a stated price cannot be used".to_owned())?;

    let queued = queued(&definition, input);
    let abilities = HostAbilities {
        allow_host_shell: config.allow_host_shell.value,
    };
    refuse(&args.agent, definition::check(&definition, &abilities, &models))?;
    refuse(
        &args.agent,
        definition::check_run(&definition, &queued, &models, &prices),
    )?;

    let ground = Ground::lay(
        definition.workspace.as_ref(),
        args.workspace.as_deref(),
        args.in_place,
    )?;
    let (configuration, equipment) = prepare(&*clock, definition, &queued, ground.as_ref())?;
    let model = models
        .model(&configuration.model)
        .or_usage(|| "the model of the agent cannot be reached".to_owned())?;
    let told = args.follow.then(|| screen.clone());
    let model = Metered::new(
        model,
        prices.price(&configuration.model),
        configuration.spend,
        told,
    );
    let ended = execute(&configuration, equipment, &model, &*clock, screen).await?;
    show(&Shown::of(ended, model.bill()), ground.as_ref(), screen)
}

fn queued(definition: &AgentDefinition, input: Value) -> RunQueued {
    RunQueued {
        agent_name: definition.name.clone(),
        agent_version: 1,
        input,
        files: BTreeMap::new(),
        limits: RunLimits::default(),
        tags: Vec::new(),
        metadata: BTreeMap::new(),
        parent_run_id: None,
    }
}

fn refuse(file: &str, violations: Vec<Violation>) -> Result<(), Failure> {
    if violations.is_empty() {
        return Ok(());
    }
    let mut what = format!("{file} cannot be run");
    for violation in violations {
        what.push_str(&format!("\n  {}: {}", violation.pointer, violation.message));
    }
    Err(Failure::usage(what))
}

/// Fixes the configuration and builds the tools, exactly as the server does.
fn prepare(
    clock: &dyn Clock,
    definition: AgentDefinition,
    queued: &RunQueued,
    ground: Option<&Ground>,
) -> Result<(Configuration, Equipment), Failure> {
    let entropy: &dyn Entropy = &OsEntropy;
    let at = clock.now();
    let run = RunRef {
        tenant: entropy.tenant_id(at),
        run: entropy.run_id(at),
    };
    let agent = AgentVersion {
        id: entropy.agent_id(at),
        version: 1,
        definition,
        created_at: at,
        retired: false,
    };
    let preparer = DefinitionPreparer::new(Arc::new(OneWorkspace::of(ground)));
    let unprepared = || "the agent cannot be prepared".to_owned();
    let equipment = preparer.equip(run, &agent, queued).or_usage(unprepared)?;
    let configuration = preparer
        .configure(run, &agent, queued, &equipment.tools)
        .or_usage(unprepared)?;
    Ok((configuration, equipment))
}

type Ended = Result<Execution<Value>, ExecutionError>;

/// Drives the loop. Ctrl-C ends it at its next boundary, a second one at once.
async fn execute(
    configuration: &Configuration,
    equipment: Equipment,
    model: &Metered,
    clock: &dyn Clock,
    screen: &Screen,
) -> Result<Ended, Failure> {
    let configured = &configuration.configured;
    let cancel = CancelToken::new();
    let mut call = agent(configured.task.clone())
        .model(model)
        .context(&configured.context)
        .limits(configured.limits)
        .max_output_tokens(configuration.max_output_tokens())
        .clock(clock)
        .cancel(cancel.clone())
        .tools(equipment.tools);
    for instruction in &configured.instructions {
        call = call.instruction(instruction.clone());
    }
    if let Some(workspace) = &equipment.workspace {
        call = call.workspace(&**workspace);
    }
    let mut running = Box::pin(call.returns_schema(configured.result_schema.clone()).run_async());
    let mut interrupts = 0;
    loop {
        tokio::select! {
            ended = &mut running => return Ok(ended),
            _ = tokio::signal::ctrl_c() => {
                interrupts += 1;
                if interrupts > 1 {
                    return Err(Failure::interrupted("ended at once; what was in flight may have been paid for"));
                }
                screen.talk("cancelling at the next boundary; once more ends it at once");
                cancel.cancel();
            }
        }
    }
}

/// What came of an execution, either way.
struct Shown {
    output: Option<Value>,
    error: Option<Value>,
    is_cancelled: bool,
    artifacts: Vec<Artifact>,
    artifacts_unknown: Option<String>,
    usage: LoopUsage,
    bill: Bill,
}

impl Shown {
    fn of(ended: Ended, bill: Bill) -> Self {
        match ended {
            Ok(execution) => Self {
                output: Some(execution.value),
                error: None,
                is_cancelled: false,
                artifacts: execution.artifacts,
                artifacts_unknown: execution.artifacts_unknown,
                usage: execution.usage,
                bill,
            },
            Err(error) => {
                let mut failure = error.failure;
                if let Some(limit) = bill.refused {
                    failure.kind = FailureKind::LimitExhausted;
                    failure.limit = Some(limit);
                }
                Self {
                    output: None,
                    is_cancelled: failure.kind == FailureKind::Cancelled,
                    error: Some(serde_json::to_value(&failure).unwrap_or(Value::Null)),
                    artifacts: error.evidence.artifacts,
                    artifacts_unknown: error.evidence.artifacts_unknown,
                    usage: error.evidence.usage,
                    bill,
                }
            }
        }
    }

    const fn exit(&self) -> Exit {
        match (&self.error, self.is_cancelled) {
            (None, _) => Exit::Ok,
            (Some(_), true) => Exit::Interrupted,
            (Some(_), false) => Exit::Negative,
        }
    }
}

fn show(shown: &Shown, ground: Option<&Ground>, screen: &Screen) -> Result<Exit, Failure> {
    if screen.form == Form::Text {
        show_text(shown, ground, screen)?;
    } else {
        let plain = diffs(shown, ground, &Screen::plain(screen.width()));
        screen.document(&json!({
            "status": if shown.error.is_none() { "succeeded" } else { "failed" },
            "output": shown.output,
            "error": shown.error,
            "usage": shown.usage,
            "tokens": shown.bill.tokens,
            "costUsd": shown.bill.cost,
            "artifacts": shown.artifacts,
            "artifactsUnknown": shown.artifacts_unknown,
            "diff": plain.join("\n"),
        }))?;
    }
    Ok(shown.exit())
}

fn show_text(shown: &Shown, ground: Option<&Ground>, screen: &Screen) -> Result<(), Failure> {
    if let Some(output) = &shown.output {
        let text = serde_json::to_string_pretty(output)
            .or_unavailable(|| "the output cannot be shown".to_owned())?;
        screen.line(&text)?;
    }
    let lines = diffs(shown, ground, screen);
    if !lines.is_empty() {
        screen.line("")?;
    }
    for line in lines {
        screen.line(&line)?;
    }
    if let Some(why) = &shown.artifacts_unknown {
        screen.talk(&format!("the changed files are not known: {why}"));
    }
    let cost = shown
        .bill
        .cost
        .map_or_else(|| "an unknown price".to_owned(), |cost| format!("${cost}"));
    screen.talk(&format!(
        "{} model calls, {} tool calls, {} tokens, {cost}",
        shown.usage.model_calls,
        shown.usage.tool_calls,
        shown.bill.tokens.total()
    ));
    if let Some(error) = &shown.error {
        screen.talk(&screen.paint(Style::Bad, &failure_line(error)));
    }
    Ok(())
}

/// The changes as a diff; in place only their names, because what was there before is gone.
fn diffs(shown: &Shown, ground: Option<&Ground>, screen: &Screen) -> Vec<String> {
    let Some(ground) = ground else {
        return Vec::new();
    };
    let of = |artifact: &Artifact| match ground.origin {
        Origin::InPlace => vec![format!("{} {}", artifact_word(artifact), artifact.path)],
        Origin::Folder(_) | Origin::Definition(_) => {
            let (before, after) = (ground.origin.before(&artifact.path), ground.after(&artifact.path));
            diff(screen, &artifact.path, before.as_deref(), after.as_deref())
        }
    };
    shown.artifacts.iter().flat_map(of).collect()
}

const fn artifact_word(artifact: &Artifact) -> &'static str {
    use portolan_core::artifact::Operation;
    match artifact.operation {
        Operation::Created => "created",
        Operation::Modified => "modified",
        Operation::Deleted => "deleted",
    }
}
