//! Transfers artifacts from the agent's sandbox to a separate verifier.

use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{ArtifactSpec, Boundary, Fault, VerifierApart, WorkspaceSpec};
use clawrl_sandbox::{
    Exclusions, ExecError, ExecOutput, ExecSpec, SafeDir, Sandbox, SandboxCommand, TransferError,
    TransferRequest, TreeBounds, remove_content,
};

use crate::checks::copy_fault;
use crate::fresh::blocking;

/// Runs the commands that prepare artifacts, while the agent's sandbox is still unchanged. Returns flags.
///
/// A failing command is not a fault, because the agent may be the cause.
///
/// # Errors
/// A [`Fault`] when the machine failed.
pub(crate) async fn collect(
    sandbox: &dyn Sandbox,
    spec: &WorkspaceSpec,
    apart: &VerifierApart,
    deadline: Instant,
) -> Result<Vec<String>, Fault> {
    let mut flags = Vec::new();
    for command in &apart.collect {
        let exec = ExecSpec {
            command: SandboxCommand {
                program: "/bin/sh".to_owned(),
                arguments: vec!["-c".to_owned(), command.run.clone()],
                environment: spec.env.clone(),
            },
            input: Vec::new(),
            output_cap: 0,
            deadline: deadline.min(Instant::now() + command.timeout),
            user: None,
        };
        let flag = match sandbox.exec(exec).await {
            Ok(ExecOutput { code: Some(0), .. }) => continue,
            // The agent, whose programs still run, may have left no shell, no folder, or no room for a process.
            Ok(ExecOutput { code: Some(_), .. }) | Err(ExecError::NotRun { .. }) => "collect-failed",
            Ok(ExecOutput { code: None, .. }) => "collect-timeout",
            Err(ExecError::Fault(fault)) => return Err(fault),
        };
        flags.push(flag.to_owned());
    }
    flags.dedup();
    Ok(flags)
}

/// A temporary folder for artifacts in transfer.
struct Staging {
    folder: Arc<SafeDir>,
    /// Declared last, so removed last.
    _place: tempfile::TempDir,
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Modes may close folders to this process. What cannot be removed stays in the temporary folder.
        let _ = remove_content(&self.folder);
    }
}

/// Transfers artifacts through a folder on the host, replacing what the image has at their paths, even if a file
/// replaces a folder or the other way round. Returns flags for artifacts that could not be transferred.
pub(super) async fn bring(
    artifacts: &[ArtifactSpec],
    from: &dyn Sandbox,
    to: &dyn Sandbox,
    bounds: TreeBounds,
) -> Result<Vec<String>, Fault> {
    if artifacts.is_empty() {
        return Ok(Vec::new());
    }
    let staged = |error: String| Fault::transient(Boundary::Grader, "stage", error);
    let staging = blocking(tempfile::tempdir).await?.map_err(|error| staged(error.to_string()))?;
    let folder = Arc::new(SafeDir::open(staging.path()).map_err(|error| staged(error.to_string()))?);
    let staging = Staging { folder: Arc::clone(&folder), _place: staging };
    let mut flags: Vec<String> = Vec::new();
    for (number, artifact) in artifacts.iter().enumerate() {
        let request = |inside: &str, exclude: Exclusions| TransferRequest {
            inside: inside.to_owned(),
            outside: Arc::clone(&folder),
            name: number.to_string(),
            exclude,
            bounds,
        };
        let exclude = Exclusions::new(artifact.exclude.iter().map(String::as_str));
        let report = match from.copy_out(request(&artifact.source, exclude)).await {
            Ok(report) => report,
            Err(TransferError::Fault(fault)) => return Err(fault),
            Err(TransferError::Tree(error)) if error.is_infrastructure() => {
                return Err(copy_fault("stage", &error, format!("{}: {error}", artifact.source)));
            }
            // The agent's doing: the verifier finds nothing there.
            Err(TransferError::Tree(error)) => {
                flags.push(error.flag().unwrap_or("artifact-missing").to_owned());
                continue;
            }
        };
        let mut is_complete = report.skipped.is_empty();
        let destination = artifact.destination.as_ref().unwrap_or(&artifact.source);
        match to.copy_in(request(destination, Exclusions::default())).await {
            // The copy on the host may be closed to this process if it is not root.
            Ok(report) => is_complete &= report.skipped.is_empty(),
            Err(TransferError::Fault(fault)) => return Err(fault),
            Err(TransferError::Tree(error)) if error.is_infrastructure() => {
                return Err(copy_fault("stage", &error, format!("{destination}: {error}")));
            }
            Err(TransferError::Tree(error)) => {
                flags.push(error.flag().unwrap_or("artifact-missing").to_owned())
            }
        }
        if !is_complete {
            flags.push("copy-incomplete".to_owned());
        }
    }
    // Removing a large tree takes a while.
    blocking(move || drop(staging)).await?;
    Ok(flags)
}
