//! Our side: cold, warm, and the layers of a cold start.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{EnvProvider, NetworkPolicy, TaskSpec, ToolCall};
use clawrl_sandbox::spawner::{Confinement, LaunchKind, LaunchRequest, SpawnerClient};
use clawrl_sandbox::{Nonce, SandboxBackend, SandboxSpec, rc_script};
use serde_json::json;

use super::{Round, Side};
use crate::terminals::{FIXTURE, Failure, Fixtures, SessionShell, Shell, Terminals, bash_sandbox, ctx, task};

/// One round of everything that is ours.
pub(super) async fn ours(terminals: &Terminals, starts: u32) -> Result<Round, Failure> {
    let task = task(Fixtures::OneFile);
    let mut round = Round::new();
    for _ in 0..starts {
        let (leased, reset) = start(terminals, &task).await?;
        round.entry(Side::Cold).or_default().push(leased + reset);
        round.entry(Side::PhaseReset).or_default().push(reset);
        let spawned = spawn(&terminals.client).await?;
        round.entry(Side::PhaseSpawn).or_default().push(spawned);
        let host_network = sandbox_with_host_network(terminals).await?;
        round.entry(Side::PhaseSandboxHostNetwork).or_default().push(host_network);
        let (sandbox, prompt) = layers(terminals).await?;
        round.entry(Side::PhaseSandbox).or_default().push(sandbox);
        round.entry(Side::PhasePrompt).or_default().push(prompt);
    }
    terminals.provider.warm_up(starts).await?;
    for _ in 0..starts {
        let (leased, reset) = start(terminals, &task).await?;
        round.entry(Side::Warm).or_default().push(leased + reset);
    }
    Ok(round)
}

/// Times a lease and its reset, proves that the workspace is usable, and closes.
async fn start(terminals: &Terminals, task: &Arc<TaskSpec>) -> Result<(Duration, Duration), Failure> {
    let begun = Instant::now();
    let mut env = terminals.lease(task).await?;
    let leased = begun.elapsed();
    env.reset(ctx(0)).await?;
    let reset = begun.elapsed() - leased;
    let calls = [ToolCall::new("run", json!({ "command": format!("cat {} && : > new", FIXTURE.0) }))];
    let shown = env.step(&calls, ctx(1)).await?.observation.joined_text();
    let left = env.close().await.leftovers;
    if !shown.starts_with(FIXTURE.1) || !shown.contains("[exit 0]") {
        return Err(format!("the workspace is not usable: {shown}").into());
    }
    if left.is_empty() { Ok((leased, reset)) } else { Err(left.join("; ").into()) }
}

/// Times the sandbox and the shell in it.
async fn layers(terminals: &Terminals) -> Result<(Duration, Duration), Failure> {
    let nonce = Nonce::from_bytes([0xbe; 16]);
    let begun = Instant::now();
    let started = terminals.backend.start(bash_sandbox(&nonce, rc_script(&nonce))).await?;
    let sandbox = begun.elapsed();
    let shell = SessionShell::take_over(started.sandbox, started.terminal.master()?, nonce).await?;
    let prompt = begun.elapsed() - sandbox;
    shell.close().await?;
    Ok((sandbox, prompt))
}

/// Times a sandbox that shares the host's network.
async fn sandbox_with_host_network(terminals: &Terminals) -> Result<Duration, Failure> {
    let nonce = Nonce::from_bytes([0xbe; 16]);
    let spec = SandboxSpec { network: NetworkPolicy::Host, ..bash_sandbox(&nonce, String::new()) };
    let begun = Instant::now();
    let started = terminals.backend.start(spec).await?;
    let took = begun.elapsed();
    started.sandbox.kill().await?;
    Ok(took)
}

/// Times the way through the spawner alone: there and back, two programs loaded, one ended.
async fn spawn(client: &SpawnerClient) -> Result<Duration, Failure> {
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    let launch = LaunchRequest {
        kind: LaunchKind::Descriptors,
        confinement: Confinement::default(),
        join: None,
        parent: 0,
        label: "true".to_owned(),
        program: "/bin/true".into(),
        hidden_arguments: Vec::new(),
        data: Vec::new(),
        arguments: Vec::new(),
        environment: Vec::new(),
        working_folder: None,
    };
    let begun = Instant::now();
    let mut process = client.spawn(launch, None, &[nothing.as_fd(); 3]).await?;
    process.exit.ended().await;
    Ok(begun.elapsed())
}
