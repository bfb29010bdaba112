//! The script that stands in for a model. It knows nothing but the request: what it does next depends on what the tools
//! really answered. Two repairs that a model would have to think of are given to it.

use serde_json::{Value, json};

/// A conversation as the request carries it.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Assistant turns so far.
    turns: usize,
    exchanges: Vec<Exchange>,
}

/// A call and what came back.
#[derive(Debug)]
struct Exchange {
    tool: String,
    arguments: Value,
    output: String,
}

/// What the script does next.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Move {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
}

impl Conversation {
    /// Reads the messages of a chat completion request.
    pub(super) fn read(request: &Value) -> Self {
        let mut conversation = Self::default();
        let mut open: Vec<(String, String, Value)> = Vec::new();
        for message in request["messages"].as_array().into_iter().flatten() {
            match message["role"].as_str() {
                Some("assistant") => {
                    conversation.turns += 1;
                    let calls = message["tool_calls"].as_array().into_iter().flatten();
                    open.extend(calls.map(|call| {
                        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                        let arguments = serde_json::from_str(&text(&call["function"]["arguments"]));
                        (
                            text(&call["id"]),
                            text(&call["function"]["name"]),
                            arguments.unwrap_or(Value::Null),
                        )
                    }));
                }
                Some("tool") => {
                    let id = message["tool_call_id"].as_str().unwrap_or_default();
                    if let Some(place) = open.iter().position(|(open, ..)| open == id) {
                        let (_, tool, arguments) = open.remove(place);
                        let output = message["content"].as_str().unwrap_or_default().to_owned();
                        conversation.exchanges.push(Exchange {
                            tool,
                            arguments,
                            output,
                        });
                    }
                }
                _ => {}
            }
        }
        conversation
    }

    /// Which model call this is, from 1.
    pub(super) const fn call(&self) -> usize {
        self.turns + 1
    }
}

/// What the model of that name does next.
pub(super) fn next(model: &str, conversation: &Conversation) -> Move {
    if model == "walk" {
        return walk(conversation);
    }
    Fixer(conversation).next()
}

/// Writes six notes, one after the other.
fn walk(conversation: &Conversation) -> Move {
    let written = conversation.exchanges.len();
    if written < 6 {
        let path = format!("note-{}.txt", written + 1);
        return editor(json!({"operation": "write", "path": path, "content": "a note\n"}));
    }
    result(json!({"notes": written}))
}

/// Repairs of the two libraries: what is wrong, and what is right.
const REPAIRS: [(&str, &str); 2] = [
    (
        "h) total=$((total + number * 60)) ;;",
        "h) total=$((total + number * 3600)) ;;",
    ),
    ("for part in 1 2; do", "for part in 1 2 3; do"),
];

/// The agent that repairs the project.
struct Fixer<'a>(&'a Conversation);

impl Fixer<'_> {
    fn next(&self) -> Move {
        if self.latest(|exchange| exchange.is_editor("list", None)).is_none() {
            return editor(json!({"operation": "list", "path": "."}));
        }
        let Some((tested, tests)) = self.latest(|exchange| exchange.tool == "shell") else {
            return run_tests();
        };
        let Ok(outcome) = serde_json::from_str::<Value>(&tests.output) else {
            return self.give_up(&format!("the tests could not be run: {}", tests.output));
        };
        let printed = outcome["stdout"].as_str().unwrap_or_default();
        if outcome["exit_code"] == json!(0) {
            return self.done(printed);
        }
        if self
            .latest(|exchange| exchange.is_editor("write", None))
            .is_some_and(|(place, _)| place > tested)
        {
            return run_tests();
        }
        // The tests fail: the first file with a failing test says which library it tests.
        let Some(test_file) = first_failing(printed) else {
            return self.give_up("the tests fail without saying which");
        };
        let Some((_, test)) = self.latest(|exchange| exchange.is_editor("read", Some(test_file))) else {
            return read(test_file);
        };
        let Some(library) = sourced(&test.output) else {
            return self.give_up(&format!("{test_file} tests no library"));
        };
        let Some((_, found)) = self.latest(|exchange| exchange.is_editor("read", Some(library))) else {
            return read(library);
        };
        let written = self.latest(|exchange| exchange.is_editor("write", Some(library)));
        let repair = REPAIRS.iter().find(|(wrong, _)| found.output.contains(wrong));
        match (written, repair) {
            (None, Some((wrong, right))) => {
                let content = found.output.replace(wrong, right);
                editor(json!({"operation": "write", "path": library, "content": content}))
            }
            (Some(_), _) => self.give_up(&format!("{library} was edited and {test_file} still fails")),
            (None, None) => self.give_up(&format!("{library} has nothing that I can repair")),
        }
    }

    fn latest(&self, is_it: impl Fn(&Exchange) -> bool) -> Option<(usize, &Exchange)> {
        self.0
            .exchanges
            .iter()
            .enumerate()
            .rev()
            .find(|(_, exchange)| is_it(exchange))
    }

    fn changed(&self) -> Vec<&str> {
        let writes = self
            .0
            .exchanges
            .iter()
            .filter(|exchange| exchange.is_editor("write", None));
        writes
            .filter_map(|exchange| exchange.arguments["path"].as_str())
            .collect()
    }

    fn done(&self, printed: &str) -> Move {
        let changed = self.changed();
        let summary = format!("All tests pass after edits of {}.", changed.join(" and "));
        result(json!({"summary": summary, "testsPassed": passed(printed), "filesChanged": changed}))
    }

    fn give_up(&self, why: &str) -> Move {
        result(
            json!({"summary": format!("Gave up: {why}."), "testsPassed": 0, "filesChanged": self.changed()}),
        )
    }
}

impl Exchange {
    fn is_editor(&self, operation: &str, path: Option<&str>) -> bool {
        self.tool == "editor"
            && self.arguments["operation"] == json!(operation)
            && path.is_none_or(|path| self.arguments["path"] == json!(path))
    }
}

fn editor(arguments: Value) -> Move {
    Move {
        tool: "editor",
        arguments,
    }
}

fn read(path: &str) -> Move {
    editor(json!({"operation": "read", "path": path}))
}

fn run_tests() -> Move {
    Move {
        tool: "shell",
        arguments: json!({"command": "test"}),
    }
}

fn result(arguments: Value) -> Move {
    Move {
        tool: portolan_core::RESULT_TOOL,
        arguments,
    }
}

/// The file of the first failing test: `not ok - NAME (FILE: …)`.
fn first_failing(printed: &str) -> Option<&str> {
    let line = printed.lines().find(|line| line.starts_with("not ok"))?;
    let (_, place) = line.split_once('(')?;
    place.split_once(':').map(|(file, _)| file)
}

/// The library that a test file sources: `. ./LIBRARY`.
fn sourced(test: &str) -> Option<&str> {
    test.lines().find_map(|line| line.strip_prefix(". ./"))
}

/// The number in `N passed, M failed`.
fn passed(printed: &str) -> u64 {
    let last = printed.lines().last().unwrap_or_default();
    last.split_once(" passed")
        .and_then(|(number, _)| number.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request after some calls with their outputs.
    fn after(exchanges: &[(Move, String)]) -> Conversation {
        let mut messages = vec![json!({"role": "user", "content": "x"})];
        for (place, (call, output)) in exchanges.iter().enumerate() {
            let id = format!("c{place}");
            messages.push(json!({"role": "assistant", "tool_calls": [{
                "id": id, "type": "function",
                "function": {"name": call.tool, "arguments": call.arguments.to_string()},
            }]}));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
        }
        Conversation::read(&json!({ "messages": messages }))
    }

    fn tested(exit_code: i32, stdout: &str) -> (Move, String) {
        (
            run_tests(),
            json!({"exit_code": exit_code, "stdout": stdout}).to_string(),
        )
    }

    fn listed() -> (Move, String) {
        (editor(json!({"operation": "list", "path": "."})), "[]".to_owned())
    }

    #[test]
    fn what_comes_next_depends_on_what_the_tools_answered() {
        let start = after(&[]);
        assert_eq!((start.call(), next("fixer", &start)), (1, listed().0));
        assert_eq!(next("fixer", &after(&[listed()])), run_tests());
        let green = after(&[listed(), tested(0, "ok - a\n15 passed, 0 failed\n")]);
        assert_eq!(green.call(), 3);
        assert_eq!(next("fixer", &green).arguments["testsPassed"], json!(15));
        for file in ["tests/semver_test.sh", "tests/other_test.sh"] {
            let red = tested(
                1,
                &format!("ok - a\nnot ok - b ({file}: expected 1, got 2)\n1 passed, 1 failed"),
            );
            assert_eq!(next("fixer", &after(&[listed(), red])), read(file));
        }
    }

    #[test]
    fn a_repair_needs_the_defect_in_the_file_and_is_tried_once() {
        let red = || tested(1, "not ok - b (tests/s_test.sh: expected 1, got 2)");
        let test = || (read("tests/s_test.sh"), ". ./lib/s.sh\ncheck 1".to_owned());
        let library = |text: &str| (read("lib/s.sh"), text.to_owned());
        let mut so_far = vec![listed(), red(), test(), library("for part in 1 2; do :; done")];
        let edit = next("fixer", &after(&so_far));
        assert_eq!(edit.arguments["content"], json!("for part in 1 2 3; do :; done"));
        so_far.push((edit, "{}".to_owned()));
        assert_eq!(next("fixer", &after(&so_far)), run_tests());
        so_far.push(red());
        let summary = next("fixer", &after(&so_far)).arguments["summary"].to_string();
        assert!(summary.contains("still fails"), "{summary}");
        let unknown = after(&[listed(), red(), test(), library("something else")]);
        let summary = next("fixer", &unknown).arguments["summary"].to_string();
        assert!(summary.contains("nothing that I can repair"), "{summary}");
        let broken = after(&[listed(), (run_tests(), "Error: no sh".to_owned())]);
        assert!(
            next("fixer", &broken).arguments["summary"]
                .to_string()
                .contains("no sh")
        );
    }

    #[test]
    fn a_walk_ends_after_its_notes() {
        let mut so_far = Vec::new();
        for _ in 0..6 {
            let note = next("walk", &after(&so_far));
            assert_eq!(note.tool, "editor");
            so_far.push((note, "{}".to_owned()));
        }
        assert_eq!(next("walk", &after(&so_far)), result(json!({"notes": 6})));
    }
}
