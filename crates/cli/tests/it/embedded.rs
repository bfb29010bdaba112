//! `portolan run FILE`: the same agent here and now, on a copy.

use crate::support::{Stage, run};
use std::{fs, path::Path};

/// The example of the demo, with the scripted model.
fn fixer(stage: &Stage) -> String {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fixer");
    copy(Path::new(example), stage.path());
    let file = stage.path().join("agent.toml");
    let text = fs::read_to_string(&file)
        .expect("there")
        .replace("openai/gpt-4.1-mini", "demo/fixer");
    fs::write(&file, text).expect("written");
    "agent.toml".to_owned()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("there") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            fs::create_dir_all(&target).expect("made");
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("copied");
        }
    }
}

#[test]
fn a_file_is_run_on_a_copy_and_shows_the_diff() {
    let stage = Stage::set(&[]);
    let agent = fixer(&stage);
    let library = stage.path().join("project/lib/duration.sh");
    let before = fs::read_to_string(&library).expect("there");
    for workspace in [&["--workspace", "project"][..], &[]] {
        let mut arguments = vec!["run", agent.as_str(), "--json"];
        arguments.extend(workspace);
        let done = run(stage.path(), &arguments).expect(0).json();
        assert_eq!(done["output"]["testsPassed"], 15, "{done}");
        let diff = done["diff"].as_str().expect("a diff");
        assert!(
            diff.contains("+            h) total=$((total + number * 3600)) ;;"),
            "{diff}"
        );
        assert_eq!(done["artifacts"].as_array().map(Vec::len), Some(2));
        assert!(done["costUsd"].is_string(), "{done}");
    }
    assert_eq!(
        fs::read_to_string(&library).expect("there"),
        before,
        "the folder itself is untouched"
    );

    let in_place = run(
        stage.path(),
        &["run", &agent, "--workspace", "project", "--in-place"],
    )
    .expect(0);
    assert!(
        in_place.stdout.contains("modified lib/duration.sh"),
        "{}",
        in_place.stdout
    );
    assert_ne!(fs::read_to_string(&library).expect("there"), before);
}

#[test]
fn the_bounds_and_refusals_are_those_of_the_server() {
    let stage = Stage::set(&[]);
    let agent = fixer(&stage);
    let config = stage.path().join("portolan.toml");
    let strict = fs::read_to_string(&config)
        .expect("there")
        .replace("allowHostShell = true", "");
    fs::write(&config, strict).expect("written");
    run(stage.path(), &["run", &agent])
        .expect(2)
        .says("--allow-host-shell");
    run(stage.path(), &["run", &agent, "--allow-host-shell", "--quiet"]).expect(0);

    let text = fs::read_to_string(stage.path().join(&agent)).expect("there");
    fs::write(
        stage.path().join("poor.toml"),
        text.replace("\"0.50\"", "\"0.000001\""),
    )
    .expect("written");
    let poor = run(
        stage.path(),
        &["run", "poor.toml", "--allow-host-shell", "--json"],
    )
    .expect(1)
    .json();
    assert_eq!(
        (&poor["error"]["kind"], &poor["error"]["limit"]),
        (&"limit_exhausted".into(), &"maxCostUsd".into())
    );

    run(stage.path(), &["run", "gone.toml"])
        .expect(2)
        .says("gone.toml");
    run(stage.path(), &["run", "walker", "--allow-host-shell"])
        .expect(2)
        .says("--allow-host-shell is for an agent file");
}
