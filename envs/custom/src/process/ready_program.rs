//! The sandbox of a program: its pool key, and how it is created.
//!
//! The main program of such a sandbox is idle; the environment's program runs beside it, started ahead with its files,
//! before its task is known. The seed is not known either, so Python's hashes are seeded with 0 unless the plan fixes a
//! number: they are the same in every episode.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use clawrl_core::{Boundary, CustomLink, CustomSpec, Determinism, Fault, SandboxKind, WorkspaceSpec};
use clawrl_sandbox::{
    Announcer, Live, LiveCount, ProgramSpec, Sandbox, SandboxBackend, SandboxCommand, SandboxSpec, Terminal,
    WorkspaceStart,
};
use clawrl_workspace::FixtureReader;

use super::client::ProcessClient;

/// Tasks with equal keys share a pool of programs: everything that the program is started with.
#[derive(Debug, Clone)]
pub(crate) struct ProgramKey {
    command: Arc<[String]>,
    workspace: Arc<WorkspaceSpec>,
    message_bytes: u32,
    /// All of it, as text.
    key: Arc<str>,
}

impl PartialEq for ProgramKey {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for ProgramKey {}

impl Hash for ProgramKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl ProgramKey {
    /// `None` if there is no program.
    pub(crate) fn of(spec: &CustomSpec) -> Option<Self> {
        let CustomLink::Process { command, workspace } = &spec.link else { return None };
        // Plain data, as in the plan.
        let key = serde_json::to_string(&(command, workspace, spec.message_bytes)).ok()?;
        Some(Self {
            command: command.as_slice().into(),
            workspace: Arc::new(*workspace.clone()),
            message_bytes: spec.message_bytes,
            key: key.into(),
        })
    }

    pub(crate) fn sandbox(&self) -> SandboxKind {
        self.workspace.sandbox
    }
}

/// A sandbox with a program that waits for a request.
pub(crate) struct ReadyProgram {
    /// Declared first, so dropped first: the program then ends with it, and its descendants need not be searched for.
    pub(crate) sandbox: Box<dyn Sandbox>,
    pub(crate) talk: ProcessClient,
    /// Hanging the terminal up would end the main program, and the sandbox with it.
    _terminal: Terminal,
    _live: Live,
}

/// Creates a sandbox, writes its files, and starts the program.
///
/// # Errors
/// A provider [`Fault`] that names what is missing. If the program itself cannot be run, its first request reports
/// that.
pub(crate) async fn make(
    backend: &dyn SandboxBackend,
    kind: ProgramKey,
    fixtures: &Arc<FixtureReader>,
    determinism: &Determinism,
    count: &Arc<LiveCount>,
) -> Result<ReadyProgram, Fault> {
    let live = count.begin();
    let workspace = kind.workspace.as_ref();
    let files = fixtures.read(workspace.files.clone()).await?;
    let spec = SandboxSpec {
        label: "process".to_owned(),
        main: SandboxCommand {
            program: "sleep".to_owned(),
            arguments: vec!["infinity".to_owned()],
            ..SandboxCommand::default()
        },
        announced_by: Announcer::Wrapper,
        size: (80, 24),
        support_files: Vec::new(),
        limits: workspace.limits,
        network: workspace.network,
        image: workspace.image.clone(),
        read_only: workspace.read_only.clone(),
        workspace: WorkspaceStart::Image,
        folders: Vec::new(),
        inner_sandbox: false,
    };
    let started = backend.start(spec).await?;
    started.sandbox.put(files).await?;
    let mut environment = workspace.env.clone();
    if determinism.python_hash_seed.is_none() {
        environment.entry("PYTHONHASHSEED".to_owned()).or_insert_with(|| "0".to_owned());
    }
    let (program, arguments) = kind.command.split_first().ok_or_else(no_command)?;
    let command = SandboxCommand { program: program.clone(), arguments: arguments.to_vec(), environment };
    let opened = started.sandbox.open(ProgramSpec { command, user: None }).await?;
    let talk = ProcessClient::new(opened, program, kind.message_bytes as usize).ok_or_else(no_command)?;
    Ok(ReadyProgram { sandbox: started.sandbox, talk, _terminal: started.terminal, _live: live })
}

fn no_command() -> Fault {
    Fault::permanent(Boundary::Harness, "no-command", "the plan lacks the environment's program")
}
