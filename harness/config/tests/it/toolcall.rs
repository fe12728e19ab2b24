//! Plans of suites with tools.

use std::path::Path;
use std::time::Duration;

use clawrl_config::{HostCapacity, PlanOptions, Resource, Suite, describe_plan, load_suite};
use clawrl_core::{ActionFormat, EnvSpec, RunPlan, TaskSpec, ToolKind, ToolcallSpec, command_pieces};
use proptest::prelude::*;

use crate::diagnostics::rendered;
use crate::plans::{host, load, options, plan, pretty};

fn toolcall() -> [Suite; 1] {
    [load("tests/it/good/toolcall")]
}

fn task<'a>(plan: &'a RunPlan, id: &str) -> &'a TaskSpec {
    plan.tasks.iter().find(|task| task.id.0.ends_with(id)).unwrap_or_else(|| panic!("no task {id}"))
}

fn spec(task: &TaskSpec) -> &ToolcallSpec {
    let EnvSpec::Toolcall(spec) = &task.env else { panic!("{} has no tools", task.id.0) };
    spec
}

/// The tasks of a suite that is written out here, without its first lines.
fn tasks_of(below: &str) -> (Suite, RunPlan) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("suite.yaml");
    std::fs::write(&path, format!("format: 1\nsuite: written\n{below}")).expect("a file");
    let suite = match load_suite(&path) {
        Ok(suite) => suite,
        Err(error) => panic!("{}", rendered(&error)),
    };
    let suites = [suite];
    let plan = plan(&suites, &options());
    let [suite] = suites;
    (suite, plan)
}

#[test]
fn every_key_of_tools_arrives_in_the_plan() {
    let suites = toolcall();
    assert!(suites[0].warnings().is_empty());
    let plan = plan(&suites, &options());
    insta::assert_snapshot!("toolcall_looked_up_0", pretty(task(&plan, "looked-up#0")));
    insta::assert_snapshot!("toolcall_computed", pretty(task(&plan, "computed")));
    insta::assert_snapshot!("toolcall_served_0", pretty(task(&plan, "served#0")));
    insta::assert_snapshot!("toolcall_asked", pretty(task(&plan, "asked")));
}

#[test]
fn a_plan_with_tools_survives_json() {
    let plan = plan(&toolcall(), &options());
    let json = serde_json::to_string(&plan).expect("JSON");
    assert_eq!(serde_json::from_str::<RunPlan>(&json).expect("a plan"), plan);
}

#[test]
fn there_is_a_sandbox_only_where_something_needs_one() {
    let plan = plan(&toolcall(), &options());
    assert!(spec(task(&plan, "looked-up#0")).workspace.is_none(), "tools that are no programs");
    assert!(spec(task(&plan, "asked")).workspace.is_none(), "no tools");
    let workspace = spec(task(&plan, "computed")).workspace.as_ref().expect("python");
    assert_eq!((workspace.limits.memory_mib, workspace.limits.disk_mib), (64, 32), "key by key");
    let (_, plan) = tasks_of(
        "tasks:
  - id: command
    instruction: Say it.
    env: { toolcall: }
    checks: [{ answer_command: { run: grep x } }]
  - id: files
    instruction: Say it.
    env: { toolcall: { workspace: { files: { a: b } } } }
    checks: [{ file_equals: { path: a, expected: b } }]
",
    );
    assert!(plan.tasks.iter().all(|task| spec(task).workspace.is_some()), "checks that need one");
}

#[test]
fn folders_of_this_machine_are_shown_where_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let (suite, shown) = (folder.path().join("suites"), folder.path().join("venv"));
    std::fs::create_dir(&suite).expect("a folder");
    std::fs::create_dir(&shown).expect("a folder");
    let path = suite.join("suite.yaml");
    let write = |entry: &str| {
        let text = format!(
            "format: 1\nsuite: shown\ntasks:\n  - id: one\n    instruction: Do it.\n    env: {{ toolcall: {{ tools: {{ python: \
             {{ python: }} }}, workspace: {{ read_only: [{entry}] }} }} }}\n    checks: [{{ answer_equals: x }}]\n"
        );
        std::fs::write(&path, text).expect("a file");
    };
    for entry in ["../venv", "./../suites/../venv/", &shown.display().to_string()] {
        write(entry);
        let suites = [load_suite(&path).expect("a suite")];
        let plan = plan(&suites, &options());
        let workspace = spec(&plan.tasks[0]).workspace.as_ref().expect("python");
        assert_eq!(workspace.read_only, [shown.as_path()], "{entry}");
    }
    // A folder that contains keys is refused under every name.
    std::fs::create_dir(shown.join(".ssh")).expect("a folder");
    assert!(rendered(&crate::diagnostics::failure(&path)).contains("holds `.ssh`, where secrets are kept"));
    std::os::unix::fs::symlink("/etc", folder.path().join("link")).expect("a link");
    write("../link");
    assert!(rendered(&crate::diagnostics::failure(&path)).contains("is in `/etc`"));
}

#[test]
fn defaults_are_laid_below_tasks_of_their_kind() {
    let (_, plan) = tasks_of(
        "defaults:
  env:
    toolcall:
      tools: { add: { arithmetic: } }
      max_parallel_calls: 3
      workspace: { pids: 40, vars: { A: a } }
tasks:
  - id: same
    instruction: Add.
    checks: [{ answer_equals: 1 }]
  - id: other-tools
    instruction: Run.
    env: { toolcall: { tools: { run: { python: } }, workspace: { memory_mib: 32 } } }
    checks: [{ answer_equals: 1 }]
  - id: shell
    instruction: Type.
    env: { terminal: }
    checks: [{ file_absent: { path: a } }]
",
    );
    let names =
        |id: &str| spec(task(&plan, id)).tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    assert_eq!((names("same"), names("other-tools")), (vec!["add".to_owned()], vec!["run".to_owned()]));
    let other = spec(task(&plan, "other-tools"));
    let workspace = other.workspace.as_ref().expect("python");
    assert_eq!(other.max_parallel_calls, 3);
    assert_eq!((workspace.limits.pids, workspace.limits.memory_mib), (40, 32));
    assert_eq!(workspace.env["A"], "a");
    let EnvSpec::Terminal(terminal) = &task(&plan, "shell").env else { panic!("a terminal") };
    assert_eq!(terminal.limits.pids, 128, "defaults of tools say nothing about terminals");
}

#[test]
fn replies_are_read_as_the_tools_need() {
    let (suite, plan) = tasks_of(
        "tasks:
  - id: objects
    instruction: Add.
    env: { toolcall: { tools: { add: { arithmetic: } } } }
    checks: [{ answer_equals: 1 }]
  - id: text
    instruction: Run.
    env: { toolcall: { tools: { run: { python: , text_argument: code } } } }
    checks: [{ answer_equals: 1 }]
  - id: nothing
    instruction: Say.
    env: { toolcall: }
    checks: [{ answer_equals: 1 }]
  - id: told
    instruction: Add.
    action_format: fenced
    env: { toolcall: { tools: { add: { arithmetic: } } } }
    checks: [{ answer_equals: 1 }]
",
    );
    let format = |id: &str| task(&plan, id).action_format;
    assert_eq!(format("objects"), ActionFormat::Hermes);
    assert_eq!([format("text"), format("nothing")], [ActionFormat::Raw; 2]);
    assert_eq!(format("told"), ActionFormat::Fenced);
    let warnings: Vec<_> = suite.warnings().iter().filter_map(|warning| warning.location()).collect();
    assert_eq!(warnings.iter().map(|&(_, line, column)| (line, column)).collect::<Vec<_>>(), [(18, 20)]);
}

/// Semantics lock: the defaults of a tool. Change them only on purpose.
#[test]
fn defaults_of_tools_are_locked() {
    let (_, plan) = tasks_of(
        "tasks:
  - id: plain
    instruction: Run.
    env: { toolcall: { tools: { run: { python: }, look: { table: { rows: {} } } } } }
    checks: [{ answer_number: { expected: 1 } }]
  - id: hasty
    instruction: Run.
    step_timeout_secs: 4
    env: { toolcall: { tools: { run: { python: } } } }
    checks: [{ called: { tool: run } }]
",
    );
    insta::assert_snapshot!("toolcall_defaults", pretty(task(&plan, "plain")));
    assert_eq!(spec(task(&plan, "hasty")).tools[0].timeout, Duration::from_secs(4), "no longer than a step");
    insta::assert_snapshot!(
        serde_json::to_string(&task(&plan, "hasty").checks).expect("JSON"),
        @r#"[{"label":"called run","weight":1.0,"check":{"called":{"call":{"tool":"run"},"at_least":1}}}]"#
    );
}

#[test]
fn tools_without_a_sandbox_take_little_of_the_host() {
    let suites = toolcall();
    let bare = HostCapacity { ptys_free: 0, memory_available_mib: 300, ..host() };
    let options = PlanOptions { filter: vec!["looked-up".to_owned()], host: bare, ..options() };
    let made = plan(&suites, &options);
    assert_eq!(made.limits.concurrency, 4, "every slot");
    let summary = describe_plan(&made, &suites, &options);
    assert!(summary.concurrency.room.iter().all(|bound| bound.resource != Resource::PseudoTerminals));
    assert_eq!(summary.limits.keys().copied().collect::<Vec<_>>(), ["max_turns"]);
    let with_python = PlanOptions { filter: vec!["computed".to_owned()], ..options };
    clawrl_config::resolve_plan(&suites, &with_python).expect_err("a sandbox has a terminal");
}

#[test]
fn sandboxes_of_tools_are_counted_like_others() {
    let (suite, made) = tasks_of(
        "tasks:
  - id: open
    instruction: Run.
    env: { toolcall: { tools: { run: { python: } }, workspace: { sandbox: none, network: host } } }
    checks: [{ answer_equals: 1 }]
",
    );
    assert_eq!(suite.warnings().len(), 2);
    let summary = describe_plan(&made, &[suite], &options());
    assert_eq!((summary.tasks_without_sandbox, summary.tasks_with_network), (1, 1));
}

/// Calls of scripts that do not fit their tool, and commands that could not be filled.
fn misfits(task: &TaskSpec) -> Vec<String> {
    let mut misfits = Vec::new();
    let tools = &spec(task).tools;
    for call in task.oracle.iter().chain(&task.mistakes).flat_map(|script| script.calls()) {
        if call.name == "submit" {
            continue;
        }
        let Some(tool) = tools.iter().find(|tool| tool.name == call.name) else {
            assert!(!spec(task).mcp.is_empty(), "{} is neither declared nor served", call.name);
            continue;
        };
        if !jsonschema::is_valid(&tool.parameters, &call.arguments) {
            misfits.push(format!("{}: {}", call.name, call.arguments));
        }
    }
    for tool in tools {
        if let ToolKind::Command { argv, stdin } = &tool.kind {
            misfits.extend(argv.iter().chain(stdin).filter(|text| command_pieces(text).is_err()).cloned());
        }
    }
    misfits
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// I1 of the plan for any seed, and of its tasks: what scripts call fits what is offered.
    #[test]
    fn plans_with_tools_are_functions_of_their_seed(seed: u64) {
        let suites = toolcall();
        let options = PlanOptions { seed, ..options() };
        let first = plan(&suites, &options);
        prop_assert_eq!(&first, &plan(&suites, &options));
        for task in &first.tasks {
            prop_assert_eq!(misfits(task), Vec::<String>::new());
        }
    }
}

#[test]
fn the_example_of_the_page_is_a_good_one() {
    let page = std::fs::read_to_string(Path::new("../docs/environments/toolcall.md")).expect("the page");
    let (_, example) = page.split_once("```yaml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let indented: String = example.lines().map(|line| format!("    {line}\n")).collect();
    let (suite, plan) = tasks_of(&format!(
        "tasks:\n  - id: one\n    instruction: Do it.\n    checks: [{{ answer_equals: x }}]\n{indented}"
    ));
    assert!(suite.warnings().is_empty());
    assert_eq!(spec(&plan.tasks[0]).tools.len(), 3);
}

/// The same for the page about suites, whose example has checks and an oracle.
#[test]
fn the_example_among_the_suites_is_a_good_one() {
    let page = std::fs::read_to_string("../../tasks/README.md").expect("the page");
    let (_, section) = page.split_once("### Tool-call environment").expect("the section");
    let (_, example) = section.split_once("```yaml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let indented: String = example.lines().map(|line| format!("    {line}\n")).collect();
    let (_, plan) = tasks_of(&format!("tasks:\n  - id: one\n    instruction: Do it.\n{indented}"));
    assert_eq!(plan.tasks[0].oracle.as_ref().map(|script| script.calls().len()), Some(4));
}

/// The problems of a suite that is written out here, without its first lines.
fn problems_of(below: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("suite.yaml");
    std::fs::write(&path, format!("format: 1\nsuite: written\n{below}")).expect("a file");
    load_suite(&path).map_or_else(|error| rendered(&error), |_| String::new())
}

/// A task with this tool `t`, whose call with the argument `more` is expected.
fn with_parameters(parameters: &str) -> String {
    format!(
        "tasks:\n  - id: a\n    instruction: x\n    action_format: tool_calls\n    env: {{ toolcall: {{ tools: {{ t: {{ returns: ok, \
         description: d, parameters: {parameters} }} }} }} }}\n    checks: [{{ calls_match: {{ calls: [{{ tool: t, arguments: {{ \
         more: true }} }}] }} }}, {{ called: {{ tool: t, arguments: {{ more: true }} }} }}]\n    oracle: {{ actions: [{{ call: {{ \
         name: t, arguments: {{ more: true }} }} }}, {{ submit: x }}] }}\n"
    )
}

#[test]
fn arguments_that_an_open_schema_allows_may_be_expected() {
    for open in [
        "{ type: object }",
        "{ type: object, properties: { a: { type: string } }, additionalProperties: { type: boolean } }",
        "{ type: object, properties: { a: { type: string } }, additionalProperties: true }",
        "{ type: object, properties: { a: { type: string } }, patternProperties: { \"^m\": { type: boolean } } }",
        "{ type: object, properties: { a: { type: string } }, anyOf: [{ properties: { more: {} } }] }",
        "{ type: object, properties: { more: { type: boolean } }, patternProperties: { \"^(?!x)\": {} } }",
    ] {
        assert_eq!(problems_of(&with_parameters(open)), "", "{open}");
    }
    for (closed, expected) in [
        ("{ type: object, additionalProperties: false }", "the tool `t` has no argument `more`"),
        ("{ type: object, properties: { mode: {} } }", "the tool `t` has no argument `more`"),
        (
            "{ type: object, properties: { a: {} }, additionalProperties: { type: string } }",
            "no call of the tool `t` is like this",
        ),
    ] {
        let problems = problems_of(&with_parameters(closed));
        assert!(problems.contains(expected), "{closed}: {problems}");
    }
}

#[test]
fn tools_of_servers_are_named_as_they_are_offered() {
    let with_server = |chosen: &str, called: &str| {
        problems_of(&format!(
            "tasks:\n  - id: a\n    instruction: x\n    action_format: tool_calls\n    env: {{ toolcall: {{ mcp: {{ m: {{ url: \
             \"http://127.0.0.1:1/mcp\"{chosen} }} }} }} }}\n    checks: [{{ called: {{ tool: {called} }} }}]\n"
        ))
    };
    assert_eq!(with_server(", tools: [files.read, git/log], prefix: m_", "m_files_read"), "");
    assert_eq!(with_server("", "files_read"), "");
    let named = with_server(", tools: [files.read]", "files.read");
    assert!(named.contains("there is no tool `files.read`") && named.contains("files_read"), "{named}");
    assert!(with_server("", "files.read").contains("there is no tool `files.read`"));
    let twice = with_server(", tools: [a.b, a/b]", "a_b");
    assert!(twice.contains("two tools are called `a_b`"), "{twice}");
}
