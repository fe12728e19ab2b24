//! Fresh sandboxes for commands of checks, each with a copy of the workspace.
//!
//! I1. If a command was not run, or its sandbox was ended from outside, the result is a fault, whatever its exit code.
//! A command that names a missing program has run: its shell reports that.

use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{Boundary, BoxFuture, Fault, WorkspaceSpec};
use clawrl_sandbox::{
    Announcer, CopyReport, Exclusions, ExecSpec, FillRequest, SafeDir, Sandbox, SandboxBackend,
    SandboxCommand, SandboxSpec, TreeBounds, TreeError, WorkspaceStart,
};

use crate::checks::{CommandEnd, CommandError, CommandOutput, CommandRequest, CommandRunner};

/// Columns and rows of the unused terminal.
pub(crate) const SIZE: (u16, u16) = (80, 24);

/// Runs commands in sandboxes that the agent never used.
pub struct FreshSandboxes<'a> {
    /// Starts them.
    pub backend: &'a dyn SandboxBackend,
    /// The task's workspace: the copy gets the same limits.
    pub spec: &'a WorkspaceSpec,
    /// Names them.
    pub label: String,
    /// The agent's workspace, if there is one. Read only.
    pub workspace: Option<Arc<SafeDir>>,
    /// Deadline of the whole grading.
    pub deadline: Instant,
}

impl CommandRunner for FreshSandboxes<'_> {
    fn run<'a>(&'a self, request: CommandRequest<'a>) -> BoxFuture<'a, Result<CommandOutput, CommandError>> {
        Box::pin(async move {
            let gone =
                || Fault::permanent(Boundary::Harness, "no-workspace", "a command without a workspace");
            let source = self.workspace.clone().ok_or_else(gone)?;
            let spec = SandboxSpec {
                label: self.label.clone(),
                main: SandboxCommand {
                    program: "sleep".to_owned(),
                    arguments: vec!["infinity".to_owned()],
                    ..SandboxCommand::default()
                },
                announced_by: Announcer::Wrapper,
                size: SIZE,
                support_files: Vec::new(),
                limits: self.spec.limits,
                network: self.spec.network,
                image: self.spec.image.clone(),
                workspace: WorkspaceStart::Empty,
                folders: Vec::new(),
                read_only: self.spec.read_only.clone(),
                inner_sandbox: false,
            };
            let started = self.backend.start(spec).await?;
            let copied = copy_workspace(source, started.sandbox.as_ref(), self.spec).await??;
            let exec = ExecSpec {
                command: SandboxCommand {
                    program: "/bin/sh".to_owned(),
                    arguments: vec!["-c".to_owned(), request.command.to_owned()],
                    environment: self.spec.env.clone(),
                },
                input: request.input.to_vec(),
                // One more than is kept shows whether there was more.
                output_cap: request.stdout_cap + 1,
                deadline: self.deadline.min(Instant::now() + request.timeout),
                user: None,
            };
            // The agent could not have prevented it, so not being run is a fault.
            let output = started.sandbox.exec(exec).await.map_err(Fault::from)?;
            refuse_lost(started.sandbox.as_ref()).await?;
            started.sandbox.kill().await?;
            let mut stdout = output.stdout;
            let stdout_truncated = stdout.len() > request.stdout_cap;
            stdout.truncate(request.stdout_cap);
            let end = match output.code {
                Some(code @ ..=127) => CommandEnd::Exited(code),
                Some(code) => CommandEnd::Signalled(code - 128),
                None => CommandEnd::TimedOut,
            };
            Ok(CommandOutput { end, stdout, stdout_truncated, left_out: copied.skipped })
        })
    }
}

/// Fails if the sandbox was lost, because its results say nothing then.
///
/// # Errors
/// The [`Fault`] that caused the loss.
pub async fn refuse_lost(sandbox: &dyn Sandbox) -> Result<(), Fault> {
    sandbox.lost().await.map_or(Ok(()), Err)
}

/// Copies a workspace into a fresh sandbox, or says why that is impossible.
pub(crate) async fn copy_workspace(
    source: Arc<SafeDir>,
    fresh: &dyn Sandbox,
    spec: &WorkspaceSpec,
) -> Result<Result<CopyReport, TreeError>, Fault> {
    let filling =
        FillRequest { tree: source, folder: None, exclude: Exclusions::default(), bounds: bounds(spec) };
    fresh.fill(filling).await
}

/// The size of a workspace: a copy has no more space than the original had.
pub(crate) fn bounds(spec: &WorkspaceSpec) -> TreeBounds {
    TreeBounds { bytes: u64::from(spec.limits.disk_mib) << 20, ..TreeBounds::default() }
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Fault::permanent(Boundary::Grader, "panic", error.to_string()))
}
