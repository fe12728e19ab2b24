//! The sandbox of an episode: its pool key, and how it is created.
//!
//! The main program of such a sandbox is idle; tools run beside it. If a task has a `python` tool, an interpreter is
//! also started ahead. Its seed is not known then, so its own hashes are seeded with 0, unless the plan fixes a number:
//! they are the same in every episode.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    Boundary, Determinism, Fault, ImageSpec, NetworkPolicy, SandboxKind, SandboxLimits, ToolKind,
    ToolcallSpec,
};
use clawrl_sandbox::{
    Announcer, Live, LiveCount, Sandbox, SandboxBackend, SandboxCommand, SandboxSpec, Terminal,
    WorkspaceStart,
};

use crate::python::{Interpreter, StartError};

/// Time for an interpreter to become ready.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Tasks with equal keys share a pool of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SandboxKey {
    pub(crate) sandbox: SandboxKind,
    limits: SandboxLimits,
    network: NetworkPolicy,
    image: Option<ImageSpec>,
    read_only: Vec<PathBuf>,
    /// Environment variables of the interpreter, if there is one.
    interpreter: Option<BTreeMap<String, String>>,
}

impl SandboxKey {
    /// `None` if a task needs no sandbox.
    pub(crate) fn of(spec: &ToolcallSpec) -> Option<Self> {
        let workspace = spec.workspace.as_ref()?;
        let has_python = spec.tools.iter().any(|tool| tool.kind == ToolKind::Python);
        Some(Self {
            sandbox: workspace.sandbox,
            limits: workspace.limits,
            network: workspace.network,
            image: workspace.image.clone(),
            read_only: workspace.read_only.clone(),
            interpreter: has_python.then(|| workspace.env.clone()),
        })
    }
}

impl SandboxKey {
    /// The same sandbox for a program alone.
    pub(crate) fn without_interpreter(self) -> Self {
        Self { interpreter: None, ..self }
    }
}

/// A sandbox that is ready for use.
pub(crate) struct ReadySandbox {
    /// Declared first, so dropped first: the interpreter then ends with it, and its descendants need not be searched
    /// for.
    pub(crate) sandbox: Box<dyn Sandbox>,
    pub(crate) interpreter: Option<Interpreter>,
    /// Hanging the terminal up would end the main program, and the sandbox with it.
    _terminal: Terminal,
    _live: Live,
}

/// Creates a sandbox, with an interpreter if required.
///
/// # Errors
/// A provider [`Fault`] that names what is missing.
pub(crate) async fn make(
    backend: &dyn SandboxBackend,
    kind: SandboxKey,
    determinism: &Determinism,
    count: &Arc<LiveCount>,
) -> Result<ReadySandbox, Fault> {
    let live = count.begin();
    let spec = SandboxSpec {
        label: "toolcall".to_owned(),
        main: SandboxCommand {
            program: "sleep".to_owned(),
            arguments: vec!["infinity".to_owned()],
            ..SandboxCommand::default()
        },
        announced_by: Announcer::Wrapper,
        size: (80, 24),
        support_files: Vec::new(),
        limits: kind.limits,
        network: kind.network,
        image: kind.image,
        workspace: WorkspaceStart::Image,
        folders: Vec::new(),
        read_only: kind.read_only,
        inner_sandbox: false,
    };
    let started = backend.start(spec).await?;
    let interpreter = match kind.interpreter {
        None => None,
        Some(variables) => {
            let environment = interpreter_variables(variables, determinism);
            let by = Instant::now() + READY_LIMIT;
            let made = Interpreter::start(started.sandbox.as_ref(), environment, by).await;
            Some(made.map_err(start_fault)?)
        }
    };
    Ok(ReadySandbox { sandbox: started.sandbox, interpreter, _terminal: started.terminal, _live: live })
}

/// Environment variables of every interpreter of a task.
pub(crate) fn interpreter_variables(
    mut variables: BTreeMap<String, String>,
    determinism: &Determinism,
) -> BTreeMap<String, String> {
    if determinism.python_hash_seed.is_none() {
        variables.entry("PYTHONHASHSEED".to_owned()).or_insert_with(|| "0".to_owned());
    }
    variables
}

fn start_fault(error: StartError) -> Fault {
    match error {
        StartError::Fault(fault) => fault,
        StartError::Missing(reason) => {
            let message = format!(
                "a task with a `python` tool needs `python3` in its sandbox: {reason}; install it, or use an \
                 `image` that contains it"
            );
            Fault::permanent(Boundary::Provider, "python-missing", message)
        }
        StartError::Failed(reason) => {
            let message = format!("the interpreter of the `python` tool did not start: {reason}");
            Fault::transient(Boundary::Provider, "python-start", message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_same_in_every_episode() {
        let check = |own: &[(&str, &str)], fixed: Option<u32>, expected: Option<&str>| {
            let own = own.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            let determinism = Determinism { python_hash_seed: fixed, ..Determinism::default() };
            let variables = interpreter_variables(own, &determinism);
            assert_eq!(variables.get("PYTHONHASHSEED").map(String::as_str), expected);
        };
        check(&[], None, Some("0"));
        check(&[], Some(5), None);
        check(&[("PYTHONHASHSEED", "3")], None, Some("3"));
    }
}
