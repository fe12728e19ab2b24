//! The isolation of a plan's environments from this machine, and their name in messages.

use std::collections::HashSet;
use std::sync::Arc;

use clawrl_core::{EnvSpec, NetworkPolicy, RunPlan, SandboxKind, TaskSpec};

use crate::host::browser;
use crate::progress::Progress;

/// The kind of isolation of an environment's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Isolation {
    pub(super) sandbox: SandboxKind,
    pub(super) network: NetworkPolicy,
}

/// The isolation of a task. `None` if its environment starts no program.
pub(super) fn of(task: &TaskSpec) -> Option<Isolation> {
    let (sandbox, network) = match &task.env {
        EnvSpec::Terminal(terminal) => (terminal.sandbox, terminal.network),
        EnvSpec::Swe(swe) => (swe.workspace.sandbox, swe.workspace.network),
        EnvSpec::Toolcall(toolcall) => {
            let workspace = toolcall.workspace.as_ref()?;
            (workspace.sandbox, workspace.network)
        }
        EnvSpec::Custom(custom) => {
            let workspace = custom.workspace()?;
            (workspace.sandbox, workspace.network)
        }
        // The isolation of remote browsers is the responsibility of their host.
        EnvSpec::Gui(_) if !browser::are_here() => return None,
        EnvSpec::Gui(gui) => (gui.sandbox, NetworkPolicy::None),
        _ => return None,
    };
    Some(Isolation { sandbox, network })
}

/// The kinds of isolation that plans ask for.
pub(super) fn kinds(plans: &[&RunPlan]) -> HashSet<SandboxKind> {
    let tasks = plans.iter().flat_map(|plan| &plan.tasks);
    tasks.filter_map(|task| Some(of(task)?.sandbox)).collect()
}

/// The name of a plan's environments in messages: sandboxes if all are in sandboxes.
pub fn word(plan: &RunPlan) -> &'static str {
    let boxed = |task: &Arc<TaskSpec>| of(task).is_some_and(|found| found.sandbox != SandboxKind::None);
    if plan.tasks.iter().all(boxed) { "sandboxes" } else { "environments" }
}

/// Warns of access to this machine and its network that attempts have.
pub(super) fn warn_of_openness(plans: &[&RunPlan], progress: &dyn Progress) {
    let count = |open: fn(Isolation) -> bool| {
        let tasks = plans.iter().flat_map(|plan| &plan.tasks);
        let open = tasks.filter(|task| of(task).is_some_and(open));
        open.map(|task| &task.id).collect::<HashSet<_>>().len()
    };
    let unboxed = count(|isolation| isolation.sandbox == SandboxKind::None);
    if unboxed > 0 {
        progress.warn(format_args!(
            "tasks with `sandbox: none`: {unboxed}. Whatever acts there acts on this machine, as you"
        ));
    }
    let networked = count(|isolation| isolation.network == NetworkPolicy::Host);
    if networked > 0 {
        progress.warn(format_args!(
            "tasks with `network: host`: {networked}. Whatever acts there reaches your network"
        ));
    }
    let public = count(|isolation| isolation.network == NetworkPolicy::Public);
    if public > 0 {
        progress.warn(format_args!(
            "tasks with `network: public`: {public}. Whatever acts there reaches the world, and this machine by the \
             engine's bridge"
        ));
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::{TerminalSpec, ToolcallSpec, WorkspaceSpec};
    use clawrl_testkit::{PlanShape, task};

    use super::*;

    fn terminal(sandbox: SandboxKind) -> EnvSpec {
        EnvSpec::Terminal(TerminalSpec { sandbox, ..TerminalSpec::default() })
    }

    fn toolcall(workspace: Option<WorkspaceSpec>) -> EnvSpec {
        let (tools, observation_chars, max_parallel_calls) = (Vec::new(), 400, 8);
        EnvSpec::Toolcall(ToolcallSpec {
            tools,
            mcp: Vec::new(),
            workspace,
            observation_chars,
            max_parallel_calls,
            step_rewards: Vec::new(),
        })
    }

    fn check(envs: &[EnvSpec], expected: &[SandboxKind], expected_word: &str) {
        let mut plan = PlanShape::flat(1, 1).build();
        plan.tasks = envs.iter().map(|env| Arc::new(TaskSpec { env: env.clone(), ..task("a") })).collect();
        assert_eq!(kinds(&[&plan]), expected.iter().copied().collect(), "{envs:?}");
        assert_eq!(word(&plan), expected_word, "{envs:?}");
    }

    #[test]
    fn only_environments_that_start_programs_are_isolated() {
        let (boxed, none) = (SandboxKind::Bubblewrap, SandboxKind::None);
        let workspace = |sandbox| Some(WorkspaceSpec { sandbox, ..WorkspaceSpec::default() });
        check(&[terminal(boxed)], &[boxed], "sandboxes");
        check(&[terminal(none)], &[none], "environments");
        check(&[toolcall(None)], &[], "environments");
        check(&[toolcall(workspace(boxed))], &[boxed], "sandboxes");
        check(&[terminal(boxed), toolcall(workspace(none))], &[boxed, none], "environments");
        check(&[terminal(boxed), toolcall(None)], &[boxed], "environments");
    }
}
