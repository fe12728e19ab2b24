//! Commands of checks, each in a fresh sandbox on a copy of the workspace.

use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{Boundary, BoxFuture, Fault, TerminalSpec};
use clawrl_sandbox::{
    Announcer, CopyOptions, ExecSpec, Owner, SafeDir, SandboxBackend, SandboxCommand, SandboxSpec,
    TreeBounds, WorkspaceStart, copy_tree,
};

use crate::checks::{CommandEnd, CommandError, CommandOutput, CommandRequest, CommandRunner};

/// Runs commands where the agent has never been.
pub(crate) struct FreshSandboxes<'a> {
    pub(crate) backend: &'a dyn SandboxBackend,
    /// Of the task: the copy gets the same limits.
    pub(crate) spec: &'a TerminalSpec,
    pub(crate) label: String,
    /// The workspace that the agent left. Only read.
    pub(crate) workspace: Arc<SafeDir>,
    /// Of the whole grading.
    pub(crate) deadline: Instant,
}

impl CommandRunner for FreshSandboxes<'_> {
    fn run<'a>(&'a self, request: CommandRequest<'a>) -> BoxFuture<'a, Result<CommandOutput, CommandError>> {
        Box::pin(async move {
            let spec = SandboxSpec {
                label: self.label.clone(),
                main: SandboxCommand {
                    program: "sleep".to_owned(),
                    arguments: vec!["infinity".to_owned()],
                    ..SandboxCommand::default()
                },
                announced_by: Announcer::Wrapper,
                size: self.spec.size,
                support_files: Vec::new(),
                limits: self.spec.limits,
                network: self.spec.network,
                image: self.spec.image.clone(),
                workspace: WorkspaceStart::Empty,
                folders: Vec::new(),
            };
            let started = self.backend.start(spec).await?;
            let (host_id, _) = started.sandbox.identity();
            let owner = rustix::process::geteuid().is_root().then_some(Owner { uid: host_id, gid: host_id });
            let (source, destination) = (Arc::clone(&self.workspace), started.sandbox.workspace());
            // The copy has no more room than the original had.
            let bounds =
                TreeBounds { bytes: u64::from(self.spec.limits.disk_mib) << 20, ..TreeBounds::default() };
            let copy = move || {
                copy_tree(&source, &destination, CopyOptions { owner, bounds, ..CopyOptions::default() })
            };
            let copied = tokio::task::spawn_blocking(copy)
                .await
                .map_err(|error| Fault::permanent(Boundary::Grader, "panic", error.to_string()))??;
            let exec = ExecSpec {
                command: SandboxCommand {
                    program: "/bin/sh".to_owned(),
                    arguments: vec!["-c".to_owned(), request.command.to_owned()],
                    environment: self.spec.env.clone(),
                },
                input: Vec::new(),
                // One more than is kept tells whether there was more.
                output_cap: request.stdout_cap + 1,
                deadline: self.deadline.min(Instant::now() + request.timeout),
                user: None,
            };
            let output = started.sandbox.exec(exec).await?;
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
