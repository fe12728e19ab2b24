//! The program `clawrl-node`, on pipes, as beside a container engine. Its work in containers is tested with an engine,
//! in `envs/container/tests/it`.

#![allow(clippy::unwrap_used)]

use std::process::Stdio;
use std::sync::Arc;

use clawrl_core::{Boundary, Determinism, Fault, NetworkPolicy, Retry, SandboxLimits};
use clawrl_node::Node;
use clawrl_sandbox::{
    Announcer, LiveCount, RunningContainer, SandboxCommand, SandboxSpec, StartedSandbox, WorkspaceStart,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

fn program() -> Child {
    Command::new(env!("CARGO_BIN_EXE_clawrl-node"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn connected(program: &mut Child) -> Node {
    let (input, output) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
    Node::connect(tokio::io::join(output, input), ()).await.unwrap()
}

/// Requests a shell in the container whose first process has this id.
async fn enter(node: &Node, pid: u32, live: &Arc<LiveCount>) -> Result<StartedSandbox, Fault> {
    let spec = SandboxSpec {
        label: "test".to_owned(),
        main: SandboxCommand { program: "bash".to_owned(), ..SandboxCommand::default() },
        announced_by: Announcer::Wrapper,
        size: (80, 24),
        support_files: Vec::new(),
        limits: SandboxLimits::default(),
        network: NetworkPolicy::None,
        image: None,
        workspace: WorkspaceStart::Image,
        folders: Vec::new(),
        read_only: Vec::new(),
        inner_sandbox: false,
    };
    let enclosure = RunningContainer {
        pid,
        mark: ("CLAWRL_CONTAINER".to_owned(), "test/0".to_owned()),
        user: String::new(),
        workdir: "/work".to_owned(),
        commons: Vec::new(),
        environment: Vec::new(),
        capabilities: 0,
        keep_alive: Arc::new(()),
        live: live.begin(),
    };
    node.enter(&Determinism::default(), spec, enclosure).await
}

#[tokio::test]
async fn ended_container_is_fault_and_node_survives() {
    let mut program = program();
    let node = connected(&mut program).await;
    let live = Arc::default();
    let mut ended = Command::new("true").spawn().unwrap();
    let pid = ended.id().unwrap();
    ended.wait().await.unwrap();
    for _ in 0..2 {
        let fault = enter(&node, pid, &live).await.err().unwrap();
        assert_eq!((fault.boundary, fault.retry), (Boundary::Provider, Retry::Sound), "{fault}");
        assert!(fault.message.contains("ended"), "{fault}");
    }
    assert!(!node.is_gone());
    assert_eq!(live.live(), 0);
    // The last client is gone, and with it the program.
    drop(node);
    program.wait().await.unwrap();
}

#[tokio::test]
async fn a_program_that_is_killed_is_a_lost_connection() {
    let mut program = program();
    let node = connected(&mut program).await;
    program.kill().await.unwrap();
    let live = Arc::default();
    let fault = enter(&node, 1, &live).await.err().unwrap();
    assert_eq!((fault.code.as_str(), fault.retry), ("node-lost", Retry::Sound), "{fault}");
    assert!(node.is_gone());
    assert_eq!(live.live(), 0);
}

#[tokio::test]
async fn foreign_protocol_is_reported_and_closed() {
    let mut program = program();
    let mut input = program.stdin.take().unwrap();
    input.write_all(b"GET / HTTP/1.1\r\nhost: node\r\n\r\n").await.unwrap();
    let mut said = String::new();
    program.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("clawrl-node: "), "{said}");
    assert_eq!(program.wait().await.unwrap().code(), Some(1));
}

#[tokio::test]
async fn node_without_pipes_prints_usage() {
    let started =
        Command::new(env!("CARGO_BIN_EXE_clawrl-node")).stdin(Stdio::null()).output().await.unwrap();
    let said = String::from_utf8(started.stderr).unwrap();
    assert_eq!(said, "clawrl-node: this program is started by `clawrl`, on pipes\n");
    assert_eq!(started.status.code(), Some(1));
}
