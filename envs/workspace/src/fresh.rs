//! Fresh sandboxes for commands of checks, each with a copy of the workspace.
//!
//! I1. A command that was not run, or ran in a sandbox that somebody else ended, is a fault, whatever its exit code seems to
//! be. One that names a program which is not there has run: its shell says so.

use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{Boundary, BoxFuture, Fault, WorkspaceSpec};
use clawrl_sandbox::{
    Announcer, CopyReport, Exclusions, ExecSpec, FillRequest, SafeDir, Sandbox, SandboxBackend,
    SandboxCommand, SandboxSpec, TreeBounds, TreeError, WorkspaceStart,
};

use crate::checks::{CommandEnd, CommandError, CommandOutput, CommandRequest, CommandRunner};

/// Columns and rows of a terminal that nobody looks at.
pub(crate) const SIZE: (u16, u16) = (80, 24);

/// Runs commands where the agent has never been.
pub struct FreshSandboxes<'a> {
    /// Starts them.
    pub backend: &'a dyn SandboxBackend,
    /// Of the task: the copy gets the same limits.
    pub spec: &'a WorkspaceSpec,
    /// Names them.
    pub label: String,
    /// The workspace that the agent left, if it left one. Only read.
    pub workspace: Option<Arc<SafeDir>>,
    /// Of the whole grading.
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
                // One more than is kept tells whether there was more.
                output_cap: request.stdout_cap + 1,
                deadline: self.deadline.min(Instant::now() + request.timeout),
                user: None,
            };
            // Nothing of the agent could keep it from being run: that it was not is a fault.
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

/// What ran in a sandbox that went away says nothing.
///
/// # Errors
/// The [`Fault`] that it went away by.
pub async fn refuse_lost(sandbox: &dyn Sandbox) -> Result<(), Fault> {
    sandbox.lost().await.map_or(Ok(()), Err)
}

/// Copies a workspace into a fresh sandbox, or says why that cannot be.
pub(crate) async fn copy_workspace(
    source: Arc<SafeDir>,
    fresh: &dyn Sandbox,
    spec: &WorkspaceSpec,
) -> Result<Result<CopyReport, TreeError>, Fault> {
    let filling =
        FillRequest { tree: source, folder: None, exclude: Exclusions::default(), bounds: bounds(spec) };
    fresh.fill(filling).await
}

/// As much as a workspace holds: a copy has no more room than the original had.
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
