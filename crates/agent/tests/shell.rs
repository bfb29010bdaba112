use crate::support::{ALL, Sandbox, policy};
use portolan_agent::{
    tools::{Editor, Shell, ShellConfigError, ShellOptions},
    workspace::{MemoryWorkspace, Policy},
};
use portolan_core::{
    cancel::CancelToken,
    digest::Digest,
    manifest::Manifest,
    tool::{Tool, ToolClass, ToolError, ToolInvocation},
    workspace::{WorkingDirectory, Workspace, WorkspaceError},
};
use serde_json::{Value, json};
use std::{
    future::Future,
    path::PathBuf,
    pin::pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

fn options() -> ShellOptions {
    let sh = ("sh".to_owned(), vec!["sh".to_owned(), "-c".to_owned()]);
    ShellOptions {
        commands: [sh].into(),
        ..ShellOptions::default()
    }
}

fn shell() -> Shell {
    Shell::new(options()).unwrap()
}

fn invocation<'a>(
    arguments: &'a Value,
    workspace: Option<&'a dyn Workspace>,
    cancel: &'a CancelToken,
) -> ToolInvocation<'a> {
    ToolInvocation {
        call_id: "c1",
        arguments,
        key: None,
        workspace,
        cancel,
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

fn call(tool: &dyn Tool, arguments: &Value, workspace: &dyn Workspace) -> Result<Value, ToolError> {
    wait(tool.call(invocation(arguments, Some(workspace), &CancelToken::new())))
}

fn script(text: &str) -> Value {
    json!({"command": "sh", "args": [text]})
}

/// A script that starts a process in the background, tells both numbers in a file, and then does not end.
const ENDLESS: &str = "sleep 1000 & echo $! $$ > pids.new; mv pids.new pids; while :; do sleep 1000; done";

/// The numbers that `ENDLESS` told. A command needs a moment to tell them.
fn pids(sandbox: &Sandbox) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match std::fs::read_to_string(sandbox.host("pids")) {
            Ok(text) => return text.split_whitespace().map(str::to_owned).collect(),
            Err(_) => assert!(Instant::now() < deadline, "the command did not start"),
        }
        std::thread::yield_now();
    }
}

/// Whether a process with this number still does something.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !stat.is_empty() && !state.starts_with(['Z', 'X'])
}

#[test]
fn dropping_a_call_ends_all_that_it_started() {
    let sandbox = Sandbox::new(&[]);
    let workspace = sandbox.workspace(policy(&ALL, &[]));
    let (shell, arguments, cancel) = (shell(), script(ENDLESS), CancelToken::new());
    let pids = {
        let mut call = shell.call(invocation(&arguments, Some(&workspace), &cancel));
        let mut context = Context::from_waker(Waker::noop());
        // The first look starts the command and comes back at once, although the command never ends.
        assert!(call.as_mut().poll(&mut context).is_pending());
        pids(&sandbox)
    };
    assert_eq!(pids.len(), 2);
    let deadline = Instant::now() + Duration::from_secs(20);
    while pids.iter().any(|pid| is_running(pid)) {
        assert!(Instant::now() < deadline, "still running: {pids:?}");
        std::thread::yield_now();
    }
    assert!(
        !cancel.is_cancelled(),
        "dropping a call is no cancel of the execution"
    );
}

#[test]
fn a_cancelled_call_returns_when_nothing_is_left() {
    let sandbox = Sandbox::new(&[]);
    let workspace = sandbox.workspace(policy(&ALL, &[]));
    let (shell, arguments, cancel) = (shell(), script(ENDLESS), CancelToken::new());
    let outcome = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(shell.call(invocation(&arguments, Some(&workspace), &cancel))));
        pids(&sandbox);
        cancel.cancel();
        waiting.join().unwrap()
    });
    assert!(
        matches!(&outcome, Err(ToolError::Failed(text)) if text.contains("cancelled")),
        "{outcome:?}"
    );
    assert!(pids(&sandbox).iter().all(|pid| !is_running(pid)));
}

#[test]
fn nothing_is_started_after_a_cancel() {
    let sandbox = Sandbox::new(&[]);
    let workspace = sandbox.workspace(policy(&ALL, &[]));
    let cancel = CancelToken::new();
    cancel.cancel();
    let arguments = script("echo > here");
    let outcome = wait(shell().call(invocation(&arguments, Some(&workspace), &cancel)));
    assert!(matches!(outcome, Err(ToolError::Failed(_))), "{outcome:?}");
    assert_eq!(workspace.scan().unwrap(), Manifest::default());
}

#[test]
fn a_command_out_of_time_tells_what_it_wrote() {
    let sandbox = Sandbox::new(&[]);
    let workspace = sandbox.workspace(policy(&ALL, &[]));
    let shell = Shell::new(ShellOptions {
        timeout_ms: 300,
        ..options()
    })
    .unwrap();
    let outcome = call(&shell, &script("echo waiting for a lock; sleep 1000"), &workspace);
    let Err(ToolError::Failed(text)) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        text.contains("300 ms") && text.contains("waiting for a lock"),
        "{text}"
    );
    sandbox.assert_hidden_in(&text);
}

#[test]
fn output_is_cut_by_characters() {
    let sandbox = Sandbox::new(&[("t.txt", "\u{e9}\u{e9}\u{e9}\u{e9}")]);
    let workspace = sandbox.workspace(policy(&ALL, &[]));
    let shell = Shell::new(ShellOptions {
        max_output_chars: 3,
        ..options()
    })
    .unwrap();
    let output = call(&shell, &script("cat t.txt; printf abc >&2; exit 7"), &workspace).unwrap();
    let expected = json!({
        "command": "sh",
        "exit_code": 7,
        "stdout": "\u{e9}\u{e9}\u{e9}",
        "stderr": "abc",
        "stdout_truncated": true,
        "stderr_truncated": false,
    });
    assert_eq!(output, expected);
    let killed = call(&shell, &script("kill -9 $$"), &workspace).unwrap();
    assert_eq!(killed["exit_code"], -9);
}

#[test]
fn the_environment_is_what_was_configured() {
    let sandbox = Sandbox::new(&[]);
    let workspace = sandbox.workspace(policy(&ALL, &[]));
    let shell = Shell::new(ShellOptions {
        environment: [("NAME".to_owned(), "a value".to_owned())].into(),
        ..options()
    })
    .unwrap();
    // Cargo sets this one for every test.
    assert!(option_env!("CARGO_MANIFEST_DIR").is_some());
    let text = "printf '%s|%s|%s' \"$NAME\" \"$CARGO_MANIFEST_DIR\" \"$HOME\"";
    let output = call(&shell, &script(text), &workspace).unwrap();
    assert_eq!(output["stdout"], "a value||");
}

#[test]
fn only_configured_commands_run() {
    let sandbox = Sandbox::new(&[("dir/private/x", "")]);
    let workspace = sandbox.workspace(policy(&ALL, &["private"]));
    let shell = shell();
    for arguments in [
        json!({"command": "ls"}),
        json!({"command": "sh -c"}),
        json!({"command": "/bin/sh", "args": ["-c", "true"]}),
        json!({"command": "sh", "args": ["true"], "cwd": "dir/private"}),
        json!({"command": "sh", "args": ["true"], "cwd": "../outside"}),
    ] {
        let outcome = call(&shell, &arguments, &workspace);
        assert!(
            matches!(outcome, Err(ToolError::Denied(_))),
            "{arguments}: {outcome:?}"
        );
    }
    let missing = Shell::new(ShellOptions {
        commands: [("x".to_owned(), vec!["/opt/nowhere/tool".to_owned()])].into(),
        ..ShellOptions::default()
    })
    .unwrap();
    let Err(ToolError::Failed(text)) = call(&missing, &json!({"command": "x"}), &workspace) else {
        panic!("a program that is not there ran")
    };
    assert!(text.contains("\"x\"") && !text.contains("/opt"), "{text}");
    assert!(!missing.spec().description.contains("/opt"));
}

#[test]
fn options_that_run_nothing_are_refused() {
    let check = |options: ShellOptions, expected: &ShellConfigError| {
        assert_eq!(&Shell::new(options).unwrap_err(), expected);
    };
    let with = |command: &[&str]| ShellOptions {
        commands: [(
            "x".to_owned(),
            command.iter().map(|part| (*part).to_owned()).collect(),
        )]
        .into(),
        ..options()
    };
    let name = "x".to_owned();
    check(with(&[]), &ShellConfigError::EmptyCommand { name: name.clone() });
    check(
        with(&[""]),
        &ShellConfigError::EmptyCommand { name: name.clone() },
    );
    check(with(&["a\0"]), &ShellConfigError::NulInCommand { name });
    for variable in ["", "A=B"] {
        let options = ShellOptions {
            environment: [(variable.to_owned(), String::new())].into(),
            ..options()
        };
        let name = variable.to_owned();
        check(options, &ShellConfigError::Variable { name });
    }
    let (no_time, no_output) = (
        ShellOptions {
            timeout_ms: 0,
            ..options()
        },
        ShellOptions {
            max_output_chars: 0,
            ..options()
        },
    );
    check(no_time, &ShellConfigError::ZeroTimeout);
    check(no_output, &ShellConfigError::ZeroOutput);
}

/// A pipe that nobody writes into must not hold an execution for ever.
#[test]
fn the_editor_does_not_wait_for_a_pipe() {
    let sandbox = Sandbox::new(&[]);
    let workspace = sandbox.workspace(policy(&ALL, &[]));
    call(&shell(), &script("mkfifo pipe"), &workspace).unwrap();
    for arguments in [
        json!({"operation": "read", "path": "pipe"}),
        json!({"operation": "write", "path": "pipe", "content": "x"}),
    ] {
        let cancel = CancelToken::new();
        let call = pin!(Editor.call(invocation(&arguments, Some(&workspace), &cancel)));
        let outcome = call.poll(&mut Context::from_waker(Waker::noop()));
        assert!(
            matches!(outcome, Poll::Ready(Err(ToolError::Failed(_)))),
            "{outcome:?}"
        );
    }
}

#[test]
fn tools_say_how_an_interrupted_call_is_treated() {
    let write = json!({"operation": "write", "path": "a", "content": ""});
    assert_eq!(Editor.class(&write), ToolClass::Idempotent);
    for pure in [
        json!({"operation": "list"}),
        json!({"operation": "read"}),
        json!({"operation": "write"}),
        json!(7),
    ] {
        assert_eq!(Editor.class(&pure), ToolClass::Pure, "{pure}");
    }
    assert_eq!(shell().class(&script("true")), ToolClass::Once);
}

/// A workspace of another make, which knows no handles.
#[derive(Debug)]
struct ByPath(MemoryWorkspace, PathBuf);

impl Workspace for ByPath {
    fn list(&self, path: &str) -> Result<Vec<String>, WorkspaceError> {
        self.0.list(path)
    }

    fn read(&self, path: &str) -> Result<String, WorkspaceError> {
        self.0.read(path)
    }

    fn write(&self, path: &str, content: &str) -> Result<(), WorkspaceError> {
        self.0.write(path, content)
    }

    fn working_directory(&self, path: &str) -> Result<WorkingDirectory, WorkspaceError> {
        Ok(WorkingDirectory {
            path: self.1.join(path),
            guard: Box::new(()),
        })
    }

    fn scan(&self) -> Result<Manifest, WorkspaceError> {
        self.0.scan()
    }

    fn content(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        self.0.content(path)
    }

    fn restore(
        &self,
        manifest: &Manifest,
        fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        self.0.restore(manifest, fetch)
    }
}

#[test]
fn a_workspace_may_name_its_directories_by_path() {
    let sandbox = Sandbox::new(&[("sub/here.txt", "h")]);
    let memory = MemoryWorkspace::new([], Policy::editing()).unwrap();
    let workspace = ByPath(memory, sandbox.host(""));
    let arguments = json!({"command": "sh", "args": ["cat here.txt"], "cwd": "sub"});
    assert_eq!(call(&shell(), &arguments, &workspace).unwrap()["stdout"], "h");
    let gone = json!({"command": "sh", "args": ["true"], "cwd": "gone"});
    let outcome = call(&shell(), &gone, &workspace);
    let Err(ToolError::Failed(text)) = outcome else {
        panic!("{outcome:?}")
    };
    sandbox.assert_hidden_in(&text);
}
