//! MCP servers of others, as `ci/mcp/install.sh` installs them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawrl_core::{
    Env, McpDecl, McpShare, McpTransport, NetworkPolicy, SandboxLimits, ToolKind, ToolcallSpec,
};
use clawrl_testkit::ready;
use serde_json::json;

use crate::support::{
    bare_provider, call, command, in_process, open_to_all, sandboxed, shown, tool, toolcall_task, with_env,
};

/// Where the servers are: in the user's cache folder, or in a copy that sandboxes can see.
struct Installed {
    folder: PathBuf,
    _copy: Option<tempfile::TempDir>,
}

impl Installed {
    fn find() -> Self {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
        let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
        let folder = cache.join("clawrl/mcp");
        assert!(folder.join("installed").exists(), "ci/setup.sh mcp installs the servers");
        if folder.ancestors().all(is_open) {
            return Self { folder, _copy: None };
        }
        let copy = tempfile::tempdir().unwrap();
        open_to_all(copy.path());
        let copied = std::process::Command::new("cp").arg("-a").arg(&folder).arg(copy.path()).status();
        assert!(copied.unwrap().success());
        Self { folder: copy.path().join("mcp"), _copy: Some(copy) }
    }

    fn path(&self, inside: &str) -> String {
        self.folder.join(inside).display().to_string()
    }

    /// A task with this server, which is a program in the sandbox.
    fn task(&self, argv: &[&str], tools: Option<&[&str]>) -> ToolcallSpec {
        let argv = argv.iter().map(|&text| text.to_owned()).collect();
        let transport = McpTransport::Stdio { argv, env: BTreeMap::new() };
        let mut spec = ToolcallSpec { mcp: vec![decl(transport, tools)], ..sandboxed(Vec::new()) };
        if let Some(workspace) = &mut spec.workspace {
            workspace.limits = SandboxLimits { memory_mib: 512, disk_mib: 32, pids: 128, cpu_percent: 200 };
            workspace.read_only = vec![self.folder.clone()];
        }
        spec
    }
}

fn is_open(folder: &Path) -> bool {
    let mode =
        std::fs::metadata(folder).map(|found| std::os::unix::fs::PermissionsExt::mode(&found.permissions()));
    mode.is_ok_and(|mode| mode & 0o001 != 0)
}

fn decl(transport: McpTransport, tools: Option<&[&str]>) -> McpDecl {
    McpDecl {
        name: "real".to_owned(),
        transport,
        tools: tools.map(|names| names.iter().map(|&name| name.to_owned()).collect()),
        prefix: String::new(),
        share: McpShare::Attempt,
        timeout: Duration::from_secs(20),
        max_calls: None,
    }
}

#[test]
fn time() {
    let installed = Installed::find();
    let python = installed.path("venv/bin/python");
    let spec = installed.task(
        &[&python, "-m", "mcp_server_time", "--local-timezone", "UTC"],
        Some(&["get_current_time", "convert_time"]),
    );
    with_env(spec, async |env| {
        let now = shown(env, &[call("get_current_time", json!({"timezone": "UTC"}))]).await;
        assert!(now.contains("\"timezone\": \"UTC\""), "{now}");
        let wrong = shown(env, &[call("get_current_time", json!({"timezone": 3}))]).await;
        assert!(wrong.contains("error: `timezone`: 3 is not of type"), "{wrong}");
    });
}

#[test]
fn git() {
    let installed = Installed::find();
    let python = installed.path("venv/bin/python");
    let mut spec = installed.task(&[&python, "-m", "mcp_server_git"], Some(&["git_status", "git_log"]));
    spec.tools = vec![command("shell", &["sh", "-c", "{script}"])];
    with_env(spec, async |env| {
        let script = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && touch new";
        let made = shown(env, &[call("shell", json!({ "script": script }))]).await;
        assert!(made.ends_with("[exit 0]"), "{made}");
        let status = shown(env, &[call("git_status", json!({"repo_path": "/work"}))]).await;
        assert!(status.contains("new"), "{status}");
        let log = shown(env, &[call("git_log", json!({"repo_path": "/work"}))]).await;
        assert!(log.contains("first"), "{log}");
    });
}

async fn use_everything(env: &mut dyn Env) {
    let said = shown(env, &[call("echo", json!({"message": "hello"}))]).await;
    assert!(said.contains("hello"), "{said}");
    let sum = shown(env, &[call("get-sum", json!({"a": 2, "b": 3}))]).await;
    assert!(sum.contains('5'), "{sum}");
}

const EVERYTHING: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";

#[test]
fn everything_over_standard_input() {
    let installed = Installed::find();
    let script = installed.path(EVERYTHING);
    let spec = installed.task(&["node", &script, "stdio"], Some(&["echo", "get-sum"]));
    with_env(spec, async |env| use_everything(env).await);
}

#[tokio::test]
async fn everything_over_http() {
    let installed = Installed::find();
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    drop(socket);
    let _server = Running(
        std::process::Command::new("node")
            .args([installed.path(EVERYTHING), "streamableHttp".to_owned()])
            .env("PORT", port.to_string())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap(),
    );
    let by = std::time::Instant::now() + Duration::from_secs(30);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(std::time::Instant::now() < by, "it does not listen");
        // timer: another program has no event for listening.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let transport =
        McpTransport::Http { url: format!("http://127.0.0.1:{port}/mcp"), headers: BTreeMap::new() };
    let spec = ToolcallSpec {
        mcp: vec![decl(transport, Some(&["echo", "get-sum"]))],
        ..in_process(vec![tool("compute", ToolKind::Arithmetic)])
    };
    let provider = bare_provider();
    let mut env = ready(&provider, &toolcall_task(spec, Vec::new())).await;
    use_everything(env.as_mut()).await;
    assert!(env.close().await.leftovers.is_empty());
}

/// A program that ends with the test, however that ends.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn filesystem() {
    let installed = Installed::find();
    let script = installed.path("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    let spec = installed.task(&["node", &script, "/work"], Some(&["write_file", "read_text_file"]));
    assert_eq!(spec.workspace.as_ref().unwrap().network, NetworkPolicy::None);
    with_env(spec, async |env| {
        let written = json!({"path": "/work/a.txt", "content": "river"});
        let told = shown(env, &[call("write_file", written)]).await;
        assert!(told.contains("Successfully"), "{told}");
        let read = shown(env, &[call("read_text_file", json!({"path": "/work/a.txt"}))]).await;
        assert!(read.contains("river"), "{read}");
        let outside = shown(env, &[call("read_text_file", json!({"path": "/etc/passwd"}))]).await;
        assert!(outside.contains("error: "), "{outside}");
    });
}
