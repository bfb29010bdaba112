//! `portolan config show`: what is in force, and where each value came from.

use crate::{
    Exit, Failure,
    args::{ConfigCommand, Global},
    config::{Config, Provider, Source, process_environment},
    render::Table,
    screen::{Form, Screen},
};
use serde_json::{Value, json};

/// Runs the command.
pub(super) fn run(command: ConfigCommand, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    let ConfigCommand::Show { server } = command;
    let config = Config::load(&server.flags(global), &process_environment)?;
    let values = values(&config);
    if screen.form == Form::Text {
        let mut table = Table::new(["KEY", "VALUE", "FROM"]);
        for (key, value, source) in values {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            table.row([key, value, source.to_string()]);
        }
        for line in table.lines(screen) {
            screen.line(&line)?;
        }
        return Ok(Exit::Ok);
    }
    let shown = values.into_iter().map(|(key, value, source)| {
        let entry = json!({ "value": value, "from": source.to_string() });
        (key, entry)
    });
    screen.document(&Value::Object(shown.collect()))?;
    Ok(Exit::Ok)
}

fn values(config: &Config) -> Vec<(String, Value, Source)> {
    let mut values = vec![
        (
            "data".to_owned(),
            json!(config.data.value),
            config.data.source.clone(),
        ),
        (
            "listen".to_owned(),
            json!(config.listen.value),
            config.listen.source.clone(),
        ),
    ];
    for (key, setting) in [
        ("allowHostShell", &config.allow_host_shell),
        ("allowPrivateProviders", &config.allow_private_providers),
        ("insecureListen", &config.insecure_listen),
        ("allowUnsafeDatabase", &config.allow_unsafe_database),
    ] {
        values.push((key.to_owned(), json!(setting.value), setting.source.clone()));
    }
    let most = &config.max_concurrent_runs;
    values.push((
        "maxConcurrentRuns".to_owned(),
        json!(most.value),
        most.source.clone(),
    ));
    let database = &config.database;
    let shown = database.value.as_ref().map(ToString::to_string);
    values.push(("database".to_owned(), json!(shown), database.source.clone()));
    for (key, setting) in [("leaseMs", &config.lease_ms), ("sweepMs", &config.sweep_ms)] {
        values.push((key.to_owned(), json!(setting.value), setting.source.clone()));
    }
    values.push((
        "log".to_owned(),
        json!(config.log.value),
        config.log.source.clone(),
    ));
    let format = &config.log_format;
    values.push(("logFormat".to_owned(), json!(format.value), format.source.clone()));
    for provider in &config.providers {
        values.extend(of_provider(provider));
    }
    let file = config.file.clone().map_or(Source::Default, Source::File);
    for (model, price) in &config.prices {
        let shown = format!(
            "{} in, {} out",
            price.input_usd_per_million, price.output_usd_per_million
        );
        values.push((format!("prices.\"{model}\""), json!(shown), file.clone()));
    }
    values
}

fn of_provider(provider: &Provider) -> Vec<(String, Value, Source)> {
    let key = |member: &str| format!("providers.{}.{member}", provider.config.name);
    let mut values = vec![(
        key("baseUrl"),
        json!(provider.base_url.value),
        provider.base_url.source.clone(),
    )];
    if provider.key.found {
        let masked = format!("…{}", provider.key.last_four.as_deref().unwrap_or_default());
        let source = Source::Environment(provider.key.variable.clone());
        values.push((key("apiKey"), json!(masked), source));
    }
    values
}
