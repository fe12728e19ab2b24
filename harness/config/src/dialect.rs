//! Differences between the kinds of file: wording of messages, and the newest format.

use crate::bounds;
use crate::schema;

/// One kind of file.
pub(crate) struct Dialect {
    /// Noun for the kind of file: `suite`.
    pub(crate) noun: &'static str,
    /// The file itself: `suite file`.
    pub(crate) file: &'static str,
    pub(crate) newest_format: i64,
    /// Help for an empty file: how to begin.
    pub(crate) start: &'static str,
    /// Help if the path is not a file.
    pub(crate) which: &'static str,
    /// Help if the path does not exist.
    pub(crate) nothing: &'static str,
    /// Help if the file is too large.
    pub(crate) shrink: &'static str,
    /// Example of a missing key; empty if the key needs no example.
    pub(crate) example: fn(&str) -> &'static str,
    /// Paths at which an unknown key would be valid.
    pub(crate) homes: fn(&str) -> Vec<&'static str>,
}

pub(crate) const SUITE: Dialect = Dialect {
    noun: "suite",
    file: "suite file",
    newest_format: bounds::FORMAT,
    start: "start with `clawrl new suite NAME`, which writes a suite that runs",
    which: "name a suite.yaml, or the folder that holds it",
    nothing: "name a suite.yaml or its folder; `clawrl new suite NAME` writes a new one",
    shrink: "move long lists into text files (`lines:`) and contents into fixtures",
    example: suite_example,
    homes: schema::homes_of_suite_key,
};

pub(crate) const TRAIN: Dialect = Dialect {
    noun: "train file",
    file: "train file",
    newest_format: bounds::TRAIN_FORMAT,
    start: "the page harness/docs/guides/train.md has a short one to start from",
    which: "name a train file, such as train.yaml",
    nothing: "name a train file, such as train.yaml",
    shrink: "a train file names suites; tasks belong into those",
    example: train_example,
    homes: schema::homes_of_train_key,
};

pub(crate) const POLICY: Dialect = Dialect {
    noun: "policy file",
    file: "policy file",
    newest_format: bounds::POLICY_FORMAT,
    start: "the page harness/docs/guides/remote-models.md has a short one to start from",
    which: "name a policy file, such as policy.yaml",
    nothing: "name a policy file, such as policy.yaml",
    shrink: "a policy file names a server and a model, and little else",
    example: policy_example,
    homes: schema::homes_of_policy_key,
};

pub(crate) const AGENT: Dialect = Dialect {
    noun: "agent file",
    file: "agent file",
    newest_format: bounds::AGENT_FORMAT,
    start: "the page harness/docs/guides/agents.md has a short one to start from",
    which: "name an agent file, such as agent.yaml",
    nothing: "name an agent file, such as agent.yaml",
    shrink: "an agent file names a program and its model, and little else",
    example: |field| match field {
        "format" => "write `format: 1` as the first line",
        "command" => "write `command: [python3, agent.py]`",
        _ => "",
    },
    homes: schema::homes_of_agent_key,
};

pub(crate) const CHAT: Dialect = Dialect {
    noun: "chat file",
    file: "chat file",
    newest_format: bounds::CHAT_FORMAT,
    start: "the page harness/docs/guides/chat-learning.md has a short one to start from",
    which: "name a chat file, such as chat.yaml",
    nothing: "name a chat file, such as chat.yaml",
    shrink: "a chat file says how to learn, and little else",
    example: |field| if field == "format" { "write `format: 1` as the first line" } else { "" },
    homes: schema::homes_of_chat_key,
};

pub(crate) const CI: Dialect = Dialect {
    noun: "gate file",
    file: "gate file",
    newest_format: bounds::CI_FORMAT,
    start: "the page harness/docs/guides/ci.md has a short one to start from",
    which: "name a gate file, such as ci/gates/my-gate.yaml",
    nothing: "name a gate file, such as ci/gates/my-gate.yaml",
    shrink: "a gate file names suites; tasks belong into those",
    example: ci_example,
    homes: schema::homes_of_ci_key,
};

/// A document that others defined.
pub(crate) const ANY: Dialect = Dialect {
    noun: "document",
    file: "file",
    newest_format: i64::MAX,
    start: "write what it should hold",
    which: "name a file",
    nothing: "name a file that is there",
    shrink: "shorten it",
    example: |_| "",
    homes: |_| Vec::new(),
};

fn suite_example(field: &str) -> &'static str {
    match field {
        "format" => "write `format: 1` as the first line",
        "suite" => "name the suite: `suite: my-suite`",
        "tasks" => "add `tasks:` with at least one `- id: my-task` below it",
        "id" => "give the task a name: `id: my-task`",
        "instruction" => "say what the policy is asked to do: `instruction: Write hello into out.txt.`",
        "checks" => {
            "say how success is established: `checks: [{ file_equals: { path: out.txt, expected: \"hello\\n\" } }]`"
        }
        "path" => "name a file of the workspace: `path: out.txt`",
        "expected" => "give all of what is expected: `expected: \"hello\\n\"`",
        "lines" => "name a text file beside the suite: `lines: fixtures/names.txt`",
        "from" => "name a list under `vars`: `from: words`",
        "count" => "say how many: `count: [2, 4]`",
        "run" => "give the command: `run: sh tests.sh`",
        "pointer" => "give a JSON pointer: `pointer: /a/0`, or `pointer: \"\"` for the whole file",
        "equals" => "give the expected value: `equals: 3`",
        "mode" => "give the permission bits: `mode: \"0644\"`",
        "regex" => "give a regular expression in single quotes: `regex: '^ok$'`",
        "sha256" => "give the 64 hex digits that `clawrl validate` prints",
        "uid" => "give the user id inside the sandbox: `uid: 1000`",
        "text" => "give the text: `text: hello`",
        "rows" => "give the result for each key: `rows: { river: 12 }`",
        "tool" => "name a tool of the task: `tool: lookup`",
        "name" => "name a tool of the task: `name: lookup`",
        "key" => "give the key: `key: river`",
        _ => "",
    }
}

fn train_example(field: &str) -> &'static str {
    match field {
        "format" => "write `format: 1` as the first line",
        "train" => "name the training: `train: my-training`",
        "policy" => "say what is trained: `policy: { preset: tiny }`",
        "suites" => "name at least one suite: `suites: [{ path: ../tasks/terminal-basics, instances: 200 }]`",
        "path" => "name a suite.yaml or its folder: `path: ../tasks/terminal-basics`",
        "low" => "give both ends: `{ low: 0.5, high: 5 }`",
        "high" => "give both ends: `{ low: 0.5, high: 5 }`",
        _ => "",
    }
}

fn policy_example(field: &str) -> &'static str {
    match field {
        "format" => "write `format: 1` as the first line",
        "model" => "name the model: `model: qwen3:4b`",
        "input" => "give the price of a million tokens of the prompt, in US dollars: `input: 2.5`",
        "output" => "give the price of a million tokens of replies, in US dollars: `output: 10`",
        _ => "",
    }
}

fn ci_example(field: &str) -> &'static str {
    match field {
        "format" => "write `format: 1` as the first line",
        "gate" => "name the gate: `gate: my-gate`",
        "suites" => "name at least one suite: `suites: [{ path: ../../tasks/terminal-basics }]`",
        "policy" => "say who is judged, as `--policy` of `clawrl run` takes it: `policy: openai:gpt-5`",
        "metrics" => "say what has to be kept: `metrics: [{ metric: pass_rate, min_effect: 0.1 }]`",
        "path" => "name a suite.yaml or its folder: `path: ../../tasks/terminal-basics`",
        "metric" => "say what is compared: `metric: pass_rate`",
        "min_effect" => {
            "name the smallest effect of interest, in units of the metric: `min_effect: 0.1` for ten points of a pass rate"
        }
        _ => "",
    }
}
