use super::*;

fn load(flags: &Flags, variables: &[(&str, &str)], file: &str) -> Result<Config, Failure> {
    let directory = tempfile::tempdir().expect("made");
    let path = directory.path().join(FILE_NAME);
    std::fs::write(&path, file).expect("written");
    let flags = Flags {
        config: Some(path),
        ..flags.clone()
    };
    let environment = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Config::load(&flags, &environment)
}

fn names(config: &Config) -> Vec<&str> {
    config
        .providers
        .iter()
        .map(|provider| provider.config.name.as_str())
        .collect()
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let file = "listen = \"127.0.0.1:1\"\nmaxConcurrentRuns = 3\ndata = \"from-file\"";
    let flags = Flags {
        listen: Some("127.0.0.1:3".to_owned()),
        ..Flags::default()
    };
    let variables = [("PORTOLAN_LISTEN", "127.0.0.1:2"), ("PORTOLAN_DATA", "from-env")];
    let config = load(&flags, &variables, file).expect("valid");
    assert_eq!(config.listen.value.port(), 3);
    assert_eq!(config.listen.source, Source::Flag("--listen"));
    assert_eq!(config.data.value, PathBuf::from("from-env"));
    assert_eq!(
        config.data.source,
        Source::Environment("PORTOLAN_DATA".to_owned())
    );
    assert_eq!(config.max_concurrent_runs.value, 3);
    assert!(matches!(config.max_concurrent_runs.source, Source::File(_)));
    assert!(!config.allow_host_shell.value);
    assert_eq!(config.allow_host_shell.source, Source::Default);
}

#[test]
fn unknown_keys_and_bad_values_are_refused_by_name() {
    for (file, named) in [
        ("lisen = \"127.0.0.1:1\"", "lisen"),
        ("[providers.openai]\napiKey = \"sk-1\"", "apiKey"),
        ("[prices.\"openai/x\"]\ninput = \"1\"", "input"),
        ("listen = \"nowhere\"", "nowhere"),
        ("maxConcurrentRuns = 0", "maxConcurrentRuns"),
        ("[providers.mine]", "mine"),
        ("[providers.anthropic]", "anthropic is not supported yet"),
    ] {
        let failure = load(&Flags::default(), &[], file).expect_err(file);
        assert!(failure.to_string().contains(named), "{file}: {failure}");
        assert_eq!(failure.exit().code(), 2, "{file}");
    }
    let failure =
        load(&Flags::default(), &[("PORTOLAN_MAX_CONCURRENT_RUNS", "many")], "").expect_err("no number");
    assert!(
        failure.to_string().contains("PORTOLAN_MAX_CONCURRENT_RUNS"),
        "{failure}"
    );
}

#[test]
fn presets_are_there_when_they_have_a_key_or_need_none() {
    let config = load(&Flags::default(), &[], "").expect("valid");
    assert_eq!(names(&config), ["vllm", "ollama"]);
    let variables = [
        ("OPENAI_API_KEY", "sk-0123456789abcdef"),
        ("ANTHROPIC_API_KEY", "x"),
    ];
    let config = load(&Flags::default(), &variables, "").expect("valid");
    assert_eq!(names(&config), ["openai", "vllm", "ollama"]);
    assert_eq!(config.providers[0].key.last_four.as_deref(), Some("cdef"));
    assert_eq!(config.unsupported_keys, ["ANTHROPIC_API_KEY"]);
    let public = Flags {
        listen: Some("0.0.0.0:0".to_owned()),
        ..Flags::default()
    };
    assert_eq!(names(&load(&public, &[], "").expect("valid")), Vec::<&str>::new());
}

#[test]
fn a_provider_of_the_file_has_its_own_words() {
    let file = "[providers.local-gw]\nbaseUrl = \"http://127.0.0.1:9/v1\"\napiKeyEnv = \"GW\"\n\
                honoursIdempotencyKeys = true\ntoolChoice = \"auto\"\ntimeoutMs = 5";
    let config = load(&Flags::default(), &[("GW", "abc")], file).expect("valid");
    let provider = config.providers.last().expect("there");
    assert_eq!(provider.kind, ProviderKind::Compatible);
    assert!(provider.key.found && provider.key.last_four.is_none());
    assert!(provider.config.honours_idempotency_keys);
    assert_eq!(provider.config.timeout_ms, 5);
    assert_eq!(
        provider.config.dialect.tool_choice,
        portolan_router::ToolChoice::Auto
    );
    let moved = load(
        &Flags::default(),
        &[("LOCAL_GW_BASE_URL", "http://127.0.0.1:8/v1")],
        file,
    )
    .expect("valid");
    assert_eq!(
        moved.providers.last().expect("there").base_url.value,
        "http://127.0.0.1:8/v1"
    );
}

#[test]
fn private_providers_need_a_loopback_server_or_a_flag() {
    let policy = |listen: &str, allowed| {
        let flags = Flags {
            listen: Some(listen.to_owned()),
            allow_private_providers: allowed,
            ..Flags::default()
        };
        load(&flags, &[], "").expect("valid").provider_policy()
    };
    assert_eq!(policy("127.0.0.1:0", false), BaseUrlPolicy::AllowPrivate);
    assert_eq!(policy("[::1]:0", false), BaseUrlPolicy::AllowPrivate);
    assert_eq!(policy("0.0.0.0:0", false), BaseUrlPolicy::PublicOnly);
    assert_eq!(policy("0.0.0.0:0", true), BaseUrlPolicy::AllowPrivate);
}

#[test]
fn a_wrong_address_of_a_database_is_not_repeated() {
    let variables = [("PORTOLAN_DATABASE", "mysql://u:geheim@h/db")];
    let failure = load(&Flags::default(), &variables, "").expect_err("refused");
    let said = format!("{failure} {:?}", failure.chain());
    assert!(
        said.contains("PORTOLAN_DATABASE") && !said.contains("geheim"),
        "{said}"
    );
    let variables = [("PORTOLAN_DATABASE", "postgres://u:geheim@h/db")];
    let config = load(&Flags::default(), &variables, "leaseMs = 1000").expect("valid");
    assert!(config.database.value.is_some() && config.lease_ms.value == Some(1_000));
    assert!(!format!("{config:?}").contains("geheim"));
    let failure = load(&Flags::default(), &[], "leaseMs = 1").expect_err("refused");
    assert!(failure.to_string().contains("leaseMs is 1"), "{failure}");
}
