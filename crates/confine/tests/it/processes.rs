use crate::support::{Sandbox, path};
use portolan_confine::{
    CommandOutput, CommandSpec, RunError,
    process::{DEFAULT_PATH, Exit, InvalidCommand},
    run,
};
use portolan_core::cancel::CancelToken;
use std::{
    fs,
    io::Read,
    time::{Duration, Instant},
};

fn spec(sandbox: &Sandbox, argv: &[&str]) -> CommandSpec {
    CommandSpec {
        argv: argv.iter().map(|argument| (*argument).to_owned()).collect(),
        cwd: sandbox.root().directory(&path(".")).unwrap(),
        environment: Vec::new(),
        timeout_ms: 20_000,
        max_output_chars: 10_000,
    }
}

fn shell(sandbox: &Sandbox, script: &str) -> CommandSpec {
    spec(sandbox, &["sh", "-c", script])
}

fn run_ok(spec: &CommandSpec) -> CommandOutput {
    run(spec, &CancelToken::new()).unwrap()
}

/// Waits until a process with this number is gone, or is only waiting to be collected by its parent.
fn assert_gone(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        if stat.is_empty() || state.starts_with(['Z', 'X']) {
            return;
        }
        assert!(Instant::now() < deadline, "process {pid} is still there: {stat}");
        std::thread::yield_now();
    }
}

/// Whether anybody still holds a pipe open: the end of the file comes when nobody does.
fn read_to_end_soon(mut pipe: impl Read) -> Vec<u8> {
    let mut content = Vec::new();
    pipe.read_to_end(&mut content).unwrap();
    content
}

#[test]
fn outputs_and_codes_are_told_apart() {
    let sandbox = Sandbox::new();
    let output = run_ok(&shell(&sandbox, "echo out; echo err >&2; exit 3"));
    assert_eq!(output.exit, Exit::Code(3));
    assert_eq!(output.captured.stdout.text, "out\n");
    assert_eq!(output.captured.stderr.text, "err\n");
    assert!(!output.captured.stdout.truncated && !output.captured.stderr.truncated);
    assert_eq!(run_ok(&shell(&sandbox, "kill -KILL $$")).exit, Exit::Signal(9));
    assert_eq!(Exit::Signal(9).code(), -9);
}

#[test]
fn arguments_are_data() {
    let sandbox = Sandbox::new();
    let output = run_ok(&spec(
        &sandbox,
        &["printf", "%s|", "$HOME", "*", ";", "a b", "`id`", "-rf", "\n"],
    ));
    assert_eq!(output.captured.stdout.text, "$HOME|*|;|a b|`id`|-rf|\n|");
}

#[test]
fn malformed_commands_start_nothing() {
    let sandbox = Sandbox::new();
    let check = |spec: &CommandSpec, expected: InvalidCommand| {
        let error = run(spec, &CancelToken::new()).unwrap_err();
        assert!(
            matches!(error, RunError::Invalid(found) if found == expected),
            "{error:?}"
        );
    };
    check(&spec(&sandbox, &[]), InvalidCommand::Empty);
    check(&spec(&sandbox, &[""]), InvalidCommand::Empty);
    check(&spec(&sandbox, &["sh", "a\0b"]), InvalidCommand::Nul);
    check(
        &spec(&sandbox, &["sh", &"x".repeat(200_000)]),
        InvalidCommand::TooLong,
    );
    for (name, expected) in [
        ("", InvalidCommand::VariableName),
        ("A=B", InvalidCommand::VariableName),
        ("A\0", InvalidCommand::Nul),
    ] {
        let environment = vec![(name.to_owned(), String::new())];
        check(
            &CommandSpec {
                environment,
                ..shell(&sandbox, "true")
            },
            expected,
        );
    }
}

#[test]
fn a_missing_program_has_its_own_error() {
    let sandbox = Sandbox::new();
    sandbox.file("data", "no program");
    for program in ["no-such-program-9f3a", "./none", "/none/at/all"] {
        let error = run(&spec(&sandbox, &[program]), &CancelToken::new()).unwrap_err();
        assert!(
            matches!(error, RunError::ProgramNotFound { .. }),
            "{program}: {error:?}"
        );
    }
    let error = run(&spec(&sandbox, &["./data"]), &CancelToken::new()).unwrap_err();
    assert!(matches!(error, RunError::Spawn(_)), "{error:?}");
    sandbox.assert_hides_host(&error);
}

#[test]
fn nothing_of_the_environment_is_inherited() {
    let sandbox = Sandbox::new();
    assert!(std::env::var_os("HOME").is_some() || std::env::var_os("CARGO_PKG_NAME").is_some());
    let environment = vec![
        ("A".to_owned(), "1".to_owned()),
        ("LANG".to_owned(), "C".to_owned()),
    ];
    let output = run_ok(&CommandSpec {
        environment,
        ..spec(&sandbox, &["env"])
    });
    let mut lines: Vec<_> = output.captured.stdout.text.lines().collect();
    lines.sort_unstable();
    let [a, lang, path, marker] = lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!((a, lang), ("A=1", "LANG=C"));
    assert_eq!(path, format!("PATH={DEFAULT_PATH}"));
    assert!(marker.starts_with("PORTOLAN_CALL="));
}

#[test]
fn the_path_is_that_of_the_command() {
    let sandbox = Sandbox::new();
    let tool = sandbox.file("bin/tool", "#!/bin/sh\necho here\n");
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let with = |path: String| CommandSpec {
        environment: vec![("PATH".to_owned(), path)],
        ..spec(&sandbox, &["tool"])
    };
    let output = run_ok(&with(format!("/none:{}:/bin", sandbox.host("bin").display())));
    assert_eq!(output.captured.stdout.text, "here\n");
    for relative in ["bin", "", ".", "./bin:"] {
        let error = run(&with(relative.to_owned()), &CancelToken::new()).unwrap_err();
        assert!(
            matches!(error, RunError::ProgramNotFound { .. }),
            "{relative}: {error:?}"
        );
    }
    assert_eq!(
        run_ok(&spec(&sandbox, &["bin/tool"])).captured.stdout.text,
        "here\n"
    );
}

#[test]
fn the_directory_is_the_opened_one() {
    let sandbox = Sandbox::new();
    sandbox.file("sub/b.txt", "beta");
    let mut spec = spec(&sandbox, &["cat", "b.txt"]);
    spec.cwd = sandbox.root().directory(&path("sub")).unwrap();
    // Somebody puts a link out in the place of the directory before the command starts.
    fs::rename(sandbox.host("sub"), sandbox.host("moved")).unwrap();
    sandbox.link("sub", "../outside");
    assert_eq!(run_ok(&spec).captured.stdout.text, "beta");
    spec.argv = vec!["pwd".to_owned()];
    let directory = run_ok(&spec).captured.stdout.text;
    assert_eq!(
        directory.trim_end(),
        fs::canonicalize(sandbox.host("moved")).unwrap().to_str().unwrap()
    );
}

#[test]
fn no_handle_is_inherited() {
    let sandbox = Sandbox::new();
    let _open = fs::File::open(sandbox.outside("secret.txt")).unwrap();
    let output = run_ok(&shell(
        &sandbox,
        "for fd in /proc/self/fd/*; do readlink $fd; done",
    ));
    assert!(
        !output.captured.stdout.text.contains("outside"),
        "{}",
        output.captured.stdout.text
    );
    assert!(output.captured.stdout.text.contains("/dev/null"));
}

#[test]
fn standard_input_is_at_its_end() {
    let sandbox = Sandbox::new();
    assert_eq!(run_ok(&spec(&sandbox, &["cat"])).captured.stdout.text, "");
}

#[test]
fn output_without_end_is_read_and_not_kept() {
    let sandbox = Sandbox::new();
    let mut spec = shell(&sandbox, "yes \u{e4} & yes b >&2 & wait");
    spec.timeout_ms = 300;
    spec.max_output_chars = 5;
    let error = run(&spec, &CancelToken::new()).unwrap_err();
    let RunError::TimedOut {
        timeout_ms: 300,
        captured,
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(captured.stdout.text, "\u{e4}\n\u{e4}\n\u{e4}");
    assert_eq!(captured.stderr.text, "b\nb\nb");
    assert!(captured.stdout.truncated && captured.stderr.truncated);
    assert!(
        captured.stdout.dropped_bytes > 1_000_000,
        "the command was blocked"
    );
}

#[test]
fn long_output_of_a_command_that_ends_is_whole() {
    let sandbox = Sandbox::new();
    let mut spec = shell(
        &sandbox,
        "i=0; while [ $i -lt 20000 ]; do echo 123456789; i=$((i+1)); done",
    );
    spec.max_output_chars = 1_000_000;
    let output = run_ok(&spec);
    assert_eq!(output.captured.stdout.text.len(), 200_000);
    assert!(!output.captured.stdout.truncated);
    spec.max_output_chars = 199_999;
    let output = run_ok(&spec);
    assert_eq!(
        (
            output.captured.stdout.truncated,
            output.captured.stdout.dropped_bytes
        ),
        (true, 1)
    );
}

#[test]
fn a_timeout_ends_the_whole_tree() {
    let sandbox = Sandbox::new();
    // One child in the group, one in a session of its own, one of which the parent is gone; none listens to signals.
    let script = "trap '' TERM INT HUP; echo $$ > leader; \
        sh -c 'trap \"\" TERM HUP; echo $$ > child; while :; do sleep 1000; done' & \
        setsid sh -c 'echo $$ > session; while :; do sleep 1000; done' & \
        (setsid sh -c 'echo $$ > orphan; while :; do sleep 1000; done' &) ; \
        while ! [ -s child ] || ! [ -s session ] || ! [ -s orphan ]; do :; done; echo ready; wait; wait";
    let mut spec = shell(&sandbox, script);
    spec.timeout_ms = 1_500;
    let error = run(&spec, &CancelToken::new()).unwrap_err();
    let RunError::TimedOut { captured, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(captured.stdout.text, "ready\n");
    for name in ["leader", "child", "session", "orphan"] {
        assert_gone(fs::read_to_string(sandbox.host(name)).unwrap().trim());
    }
}

#[test]
fn a_daemon_ends_with_its_command() {
    let sandbox = Sandbox::new();
    sandbox.fifo("alive");
    let pipe = rustix::fs::open(
        sandbox.host("alive"),
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    // A double fork into a session of its own, with all outputs closed; only the pipe tells whether it lives.
    let script = "(setsid sh -c 'exec >/dev/null 2>&1; exec 9>alive; echo $$ > pid; \
        exec sleep 1000' &) ; while ! [ -s pid ]; do :; done; echo done";
    let output = run_ok(&shell(&sandbox, script));
    assert_eq!(output.captured.stdout.text, "done\n");
    assert_gone(fs::read_to_string(sandbox.host("pid")).unwrap().trim());
    rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::empty()).unwrap();
    assert_eq!(
        read_to_end_soon(fs::File::from(pipe)),
        b"",
        "somebody still holds the pipe"
    );
}

#[test]
fn a_tree_of_a_process_without_mark_is_found_by_its_parents() {
    let sandbox = Sandbox::new();
    let mut spec = shell(
        &sandbox,
        "env -i setsid sh -c 'echo $$ > pid; while :; do sleep 1000; done' & \
         while ! [ -s pid ]; do :; done; wait",
    );
    spec.timeout_ms = 1_000;
    assert!(matches!(
        run(&spec, &CancelToken::new()),
        Err(RunError::TimedOut { .. })
    ));
    assert_gone(fs::read_to_string(sandbox.host("pid")).unwrap().trim());
}

#[test]
fn a_command_that_exited_keeps_its_output() {
    let sandbox = Sandbox::new();
    let start = Instant::now();
    let output = run_ok(&shell(
        &sandbox,
        "echo before; sleep 1000 & echo $! > pid; echo after; exit 4",
    ));
    assert_eq!(output.exit, Exit::Code(4));
    assert_eq!(output.captured.stdout.text, "before\nafter\n");
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "the exited command counted as running"
    );
    assert_gone(fs::read_to_string(sandbox.host("pid")).unwrap().trim());
}

#[test]
fn processes_that_multiply_are_ended() {
    let sandbox = Sandbox::new();
    // Each generation leaves its group and its parent behind.
    let script = "cat > grow <<'X'\n[ \"$1\" -gt 6 ] && exec sleep 1000\n\
        n=$(( $1 + 1 ))\nsetsid sh grow $n &\nsetsid sh grow $n &\nX\n\
        sh grow 0; wait; exec sleep 1000";
    let mut spec = shell(&sandbox, script);
    spec.timeout_ms = 400;
    assert!(matches!(
        run(&spec, &CancelToken::new()),
        Err(RunError::TimedOut { .. })
    ));
    let root = fs::canonicalize(sandbox.host("")).unwrap();
    let living = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == root));
    assert_eq!(living.count(), 0);
}

#[test]
fn another_thread_can_cancel() {
    let sandbox = Sandbox::new();
    sandbox.fifo("started");
    let cancel = CancelToken::new();
    let spec = shell(&sandbox, "echo partial; echo x > started; sleep 1000");
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Opening waits for the command to open its end.
            assert_eq!(fs::read(sandbox.host("started")).unwrap(), b"x\n");
            cancel.cancel();
        });
        run(&spec, &cancel).unwrap_err()
    });
    let RunError::Cancelled { captured } = error else {
        panic!("{error:?}")
    };
    assert_eq!(captured.stdout.text, "partial\n");
    fs::remove_file(sandbox.host("started")).unwrap();
    assert!(matches!(run(&spec, &cancel), Err(RunError::Cancelled { .. })));
    assert!(
        !sandbox.host("started").exists(),
        "a cancelled call starts nothing"
    );
}

#[test]
fn calls_at_the_same_time_do_not_end_each_other() {
    let sandbox = Sandbox::new();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|number| {
                let spec = shell(
                    &sandbox,
                    &format!("(setsid sleep 1000 &); sleep 0.{number}; echo {number}"),
                );
                scope.spawn(move || run(&spec, &CancelToken::new()))
            })
            .collect();
        for (number, call) in calls.into_iter().enumerate() {
            let output = call.join().unwrap().unwrap();
            assert_eq!(
                (output.exit, output.captured.stdout.text),
                (Exit::Code(0), format!("{number}\n"))
            );
        }
    });
}
