//! MCP servers that are programs in the sandbox, well-behaved and not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clawrl_core::{
    Boundary, CancelToken, EnvProvider, Fault, FixtureContent, FixtureFile, LeaseRequest, McpDecl, McpShare,
    McpTransport, Retry, StepCtx, TextSource, ToolKind, ToolcallSpec,
};
use clawrl_testkit::{lease_request, step_ctx};
use serde_json::json;

use crate::support::{
    act, call, command, provider_with, sandboxed, shown, tool, toolcall_task, with_env, with_provider,
    with_spawner,
};

const SERVER: &str = include_str!("server.py");

/// The small server.
pub(crate) fn server(mode: &str) -> McpDecl {
    let argv = ["python3", "/work/server.py", mode].map(str::to_owned).to_vec();
    McpDecl {
        name: "small".to_owned(),
        transport: McpTransport::Stdio { argv, env: BTreeMap::new() },
        tools: None,
        prefix: String::new(),
        share: McpShare::Attempt,
        timeout: Duration::from_secs(20),
        max_calls: None,
    }
}

/// A task with these servers, and the program of the small one in its workspace.
pub(crate) fn with_servers(servers: Vec<McpDecl>) -> ToolcallSpec {
    let mut spec = ToolcallSpec { mcp: servers, ..sandboxed(Vec::new()) };
    if let Some(workspace) = &mut spec.workspace {
        let content = FixtureContent::Inline(SERVER.to_owned());
        workspace.files = vec![FixtureFile { path: "server.py".to_owned(), mode: 0o644, content }];
    }
    spec
}

fn small(mode: &str) -> ToolcallSpec {
    with_servers(vec![server(mode)])
}

#[test]
fn tools_are_listed_and_called() {
    with_env(small("good"), async |env| {
        for (name, arguments, expected) in [
            ("echo", json!({"text": "a\nb"}), "[echo]\na\nb"),
            ("echo", json!({"text": 3}), "[echo] error: `text`: 3 is not of type \"string\""),
            ("echo", json!({}), "[echo] error: `text` is missing"),
            ("fail", json!({}), "[fail] error: no"),
            ("wrong", json!({}), "[wrong] error: wrong arguments"),
            ("image", json!({}), "[image] [image: image/png, 3 bytes]"),
        ] {
            assert_eq!(shown(env, &[call(name, arguments)]).await, expected);
        }
    });
}

#[test]
fn unreadable_real_answers_end_their_call() {
    with_env(small("odd"), async |env| {
        let unreadable = "error: the server's answer cannot be read: ";
        for (name, expected) in [
            ("half", "cut \u{fffd}"),
            ("nan", r#"{"n":null}"#),
            ("null", "fine"),
            ("list", "cut \u{fffd}"),
            ("broken", unreadable),
            ("lines", unreadable),
            ("large", &format!("{unreadable}it has more than 16 MiB")),
            ("nameless", "error: no"),
            ("nothing", "error: the server's answer is not a tool result"),
            ("read_file", "[content of an unknown kind: video]"),
        ] {
            let told = shown(env, &[call(name, json!({}))]).await;
            assert!(told.starts_with(&format!("[{name}] {expected}")), "{told}");
        }
        // Both answers can be read, whichever comes first.
        let told = shown(env, &[call("half", json!({})), call("null", json!({}))]).await;
        assert_eq!(told, "[half] cut \u{fffd}\n[null] fine");
        let refused = shown(env, &[call("read_file", json!({"path": "Too Long To Be"}))]).await;
        assert!(refused.starts_with("[read_file] error: `path`: "), "{refused}");
    });
}

#[test]
fn server_tools_follow_the_tasks_tools() {
    let chosen = McpDecl {
        tools: Some(vec!["fail".to_owned(), "echo".to_owned()]),
        prefix: "small_".to_owned(),
        max_calls: Some(2),
        ..server("good")
    };
    let mut spec = with_servers(vec![chosen]);
    spec.tools = vec![tool("compute", ToolKind::Arithmetic)];
    with_provider(&spec.clone(), |provider| async move {
        let mut env = provider.lease(lease_request(&toolcall_task(spec, Vec::new()))).await.unwrap();
        let offered = env.reset(clawrl_testkit::step_ctx(0)).await.unwrap().tools;
        let names: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["compute", "small_echo", "small_fail", "submit"]);
        assert_eq!(offered[1].description, "Does echo.");
        assert_eq!(offered[1].parameters["required"], json!(["text"]));
        let echo = |text: &str| call("small_echo", json!({"text": text}));
        let told = shown(env.as_mut(), &[echo("a"), echo("b"), call("small_fail", json!({}))]).await;
        let over = "[small_fail] error: not run: at most 2 calls of the tools of this server";
        assert_eq!(told, format!("[small_echo] a\n[small_echo] b\n{over}"));
        assert!(env.close().await.leftovers.is_empty());
    });
}

#[test]
fn calls_run_concurrently_late_one_is_cancelled() {
    let hasty = McpDecl { timeout: Duration::from_millis(300), name: "hasty".to_owned(), ..server("good") };
    with_env(with_servers(vec![hasty]), async |env| {
        let told = shown(env, &[call("slow", json!({})), call("echo", json!({"text": "x"}))]).await;
        assert_eq!(told, "[slow] error: no answer, ended after 0.3 s\n[echo] x");
        assert_eq!(shown(env, &[call("cancelled", json!({}))]).await, "[cancelled] 1");
    });
}

#[test]
fn ended_server_is_reported_and_restarted() {
    with_env(small("good"), async |env| {
        let result = act(env, &[call("die", json!({}))]).await;
        let told = result.observation.joined_text();
        assert!(
            told.starts_with(
                "[die] error: the MCP server has ended (exit code 3; its standard error: last words)"
            ),
            "{told}"
        );
        assert_eq!(result.observation.facts["calls"][0]["outcome"], json!("lost"));
        let next = shown(env, &[call("echo", json!({"text": "x"}))]).await;
        assert_eq!(next, "[echo]\n[the MCP server was restarted; what it kept is lost]\nx");
        assert_eq!(shown(env, &[call("echo", json!({"text": "y"}))]).await, "[echo] y");
    });
}

#[test]
fn an_agent_may_break_its_own_server() {
    let mut spec = small("good");
    spec.tools = vec![command("shell", &["sh", "-c", "{script}"])];
    with_env(spec, async |env| {
        let script = "rm *.py; for p in /proc/[0-9]*; do grep -qs 'serve[r].py' $p/cmdline && kill -9 ${p#/proc/}; done";
        shown(env, &[call("shell", json!({"script": script}))]).await;
        let mut told = shown(env, &[call("echo", json!({"text": "x"}))]).await;
        if told.contains("has ended") {
            told = shown(env, &[call("echo", json!({"text": "x"}))]).await;
        }
        assert!(told.contains("error: the MCP server could not be started again: "), "{told}");
    });
}

/// The fault of a reset.
fn refused(spec: ToolcallSpec, limit: Duration, check: impl FnOnce(Fault)) {
    with_provider(&spec.clone(), |provider| async move {
        let mut env = provider.lease(lease_request(&toolcall_task(spec, Vec::new()))).await.unwrap();
        let ctx = StepCtx { seq: 0, deadline: Instant::now() + limit, cancel: CancelToken::new() };
        let fault = env.reset(ctx).await.unwrap_err();
        assert!(env.close().await.leftovers.is_empty());
        check(fault);
    });
}

fn check_refused(spec: ToolcallSpec, secs: u64, code: &'static str, retry: Retry, said: &'static str) {
    refused(spec, Duration::from_secs(secs), |fault| {
        assert_eq!((fault.boundary, fault.code.as_str(), fault.retry), (Boundary::Provider, code, retry));
        assert!(fault.message.contains(said), "{}", fault.message);
    });
}

#[test]
fn servers_that_hang_are_faults() {
    check_refused(small("hang"), 3, "mcp-hung", Retry::Sound, "did not answer `initialize` in time");
    check_refused(small("garbage"), 3, "mcp-hung", Retry::Sound, "it wrote: I am no server");
}

#[test]
fn servers_that_do_not_serve_are_faults() {
    let died = "did not start: it ended before it answered (exit code 3); its standard error: there is no configuration";
    check_refused(small("dies"), 20, "mcp-start", Retry::Never, died);
    check_refused(small("old"), 20, "mcp-version", Retry::Never, "speaks protocol version \"2023-01-01\"");
    let argv = vec!["no-such-server".to_owned()];
    let missing = McpDecl { transport: McpTransport::Stdio { argv, env: BTreeMap::new() }, ..server("") };
    check_refused(with_servers(vec![missing]), 20, "mcp-missing", Retry::Never, "`workspace: read_only:`");
    let unknown = McpDecl { tools: Some(vec!["find".to_owned()]), ..server("good") };
    check_refused(
        with_servers(vec![unknown]),
        20,
        "mcp-no-such-tool",
        Retry::Never,
        "lacks the tool `find`; it lists echo, ",
    );
    let twice = vec![server("good"), McpDecl { name: "other".to_owned(), ..server("good") }];
    check_refused(
        with_servers(twice),
        20,
        "mcp-tool-twice",
        Retry::Never,
        "set a `prefix:` for the server, such as `other_`",
    );
}

#[test]
fn secrets_reach_only_their_server() {
    let source = TextSource::FromEnv { name: "NOTES_TOKEN".to_owned(), prefix: String::new() };
    let mut decl = server("tells");
    if let McpTransport::Stdio { env, .. } = &mut decl.transport {
        env.insert("TOKEN".to_owned(), source);
    }
    let spec = with_servers(vec![decl]);
    with_spawner(|client| async move {
        let secrets = [("NOTES_TOKEN".to_owned(), "s3cr3t-\"s3cr3t\"".to_owned())];
        let provider = provider_with(client, &spec, secrets);
        let mut env = provider.lease(lease_request(&toolcall_task(spec, Vec::new()))).await.unwrap();
        let offered = env.reset(step_ctx(0)).await.unwrap().tools;
        assert_eq!(offered[1].description, "Uses [NOTES_TOKEN]");
        assert_eq!(offered[1].parameters["properties"]["name"]["enum"], json!(["TOKEN", "[NOTES_TOKEN]"]));
        let variable = |name: &str| call("variable", json!({ "name": name }));
        let told = shown(env.as_mut(), &[variable("TOKEN"), variable("OTHER")]).await;
        let refused = r#"[variable] error: `name`: "OTHER" is none of "TOKEN" "[NOTES_TOKEN]""#;
        assert_eq!(told, format!("[variable] [NOTES_TOKEN]\n{refused}"));
        let told = shown(env.as_mut(), &[call("die", json!({}))]).await;
        assert!(told.contains("its standard error: last words[NOTES_TOKEN]"), "{told}");
        env.close().await;
        assert!(provider.shutdown().await.leftovers.is_empty());
    });
}

#[test]
fn a_server_of_all_attempts_is_started_once() {
    // Its workspace is its own and empty, so its program comes from elsewhere.
    let folder = tempfile::tempdir().unwrap();
    crate::support::open_to_all(folder.path());
    std::fs::write(folder.path().join("server.py"), SERVER).unwrap();
    let argv = vec![
        "python3".to_owned(),
        folder.path().join("server.py").display().to_string(),
        "changes".to_owned(),
    ];
    let shared = McpDecl {
        transport: McpTransport::Stdio { argv, env: BTreeMap::new() },
        share: McpShare::Run,
        ..server("")
    };
    let mut spec = with_servers(vec![shared]);
    if let Some(workspace) = &mut spec.workspace {
        workspace.read_only = vec![folder.path().to_owned()];
    }
    with_provider(&spec.clone(), |provider| async move {
        let task = toolcall_task(spec, Vec::new());
        // Of different seeds, as the attempts of different tasks are.
        let begun = async |seed: u64| {
            let request = LeaseRequest { seed, ..lease_request(&task) };
            let mut env = provider.lease(request).await.unwrap();
            env.reset(step_ctx(0)).await.unwrap();
            env
        };
        let (mut one, mut other) = tokio::join!(begun(1), begun(2));
        assert_eq!(provider.usage().live, 3, "two attempts and one server");
        let echo = || [call("echo", json!({"text": "x"}))];
        assert_eq!(shown(one.as_mut(), &echo()).await, "[echo] x");
        one.close().await;
        assert_eq!(shown(other.as_mut(), &echo()).await, "[echo] x");
        let fault = other.step(&[call("die", json!({}))], step_ctx(1)).await;
        match fault {
            Err(fault) => assert_eq!((fault.boundary, fault.code.as_str()), (Boundary::Env, "mcp-lost")),
            // This attempt saw the shorter list.
            Ok(result) => assert!(result.observation.joined_text().contains("there is no such tool")),
        }
        other.close().await;
    });
}
