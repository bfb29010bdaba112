//! `portolan demo`: an agent repairs a small project, its server is killed in the middle of a model call, and the run goes
//! on from its journal.
//!
//! Everything that is claimed at the end is judged on evidence from outside: the exit status of the killed process, the
//! ledger of the provider, the journal as the API shows it, and the project's own tests, run again on the files that the
//! run left. One claim that does not hold is a failure of the command.

mod claims;
mod evidence;
mod ledger;
mod narrate;
mod process;
mod project;
mod provider;
mod report;
mod script;
mod story;

use crate::{
    Exit, Failure,
    args::{DemoArgs, DemoProviderArgs, Global},
    screen::{Form, Screen},
};
use story::{Model, Plan};

/// What the script thinks for a person who watches.
const WATCHED_THINKING_MS: u64 = 250;

/// Tells the story and judges it.
pub(super) async fn run(args: DemoArgs, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    let model = match &args.model {
        Some(name) => Model::Real(name.clone()),
        None => Model::Scripted {
            thinking_ms: args.thinking_ms.unwrap_or_else(|| {
                if screen.is_watched() {
                    WATCHED_THINKING_MS
                } else {
                    0
                }
            }),
        },
    };
    let plan = Plan {
        model,
        crash: !args.no_crash,
        keep: args.keep,
    };
    let told = tokio::select! {
        told = Box::pin(story::tell(&plan, global, screen)) => told?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::interrupted("the demo was stopped")),
    };
    let claims = claims::judge(&plan, &told.evidence);
    if screen.form == Form::Text {
        report::text(&plan, &told, &claims, screen)?;
    } else {
        screen.document(&report::json(&plan, &told, &claims))?;
    }
    let holds = claims.iter().all(|claim| claim.holds);
    Ok(if holds { Exit::Ok } else { Exit::Negative })
}

/// The provider process of the demo.
pub(super) async fn provider(args: DemoProviderArgs, screen: &Screen) -> Result<Exit, Failure> {
    provider::run(args, screen).await
}
