//! The sandbox of an environment of any kind.

use clawrl_core::{EnvSpec, NetworkPolicy, SandboxKind, SandboxLimits};

use crate::capacity::BrowserPlace;

/// Sandbox settings of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sandbox {
    pub(crate) kind: SandboxKind,
    pub(crate) limits: SandboxLimits,
    pub(crate) network: NetworkPolicy,
}

/// The sandbox, where there is one on this host.
pub(crate) fn sandbox_of(env: &EnvSpec, browsers: BrowserPlace) -> Option<Sandbox> {
    match env {
        EnvSpec::Terminal(terminal) => {
            Some(Sandbox { kind: terminal.sandbox, limits: terminal.limits, network: terminal.network })
        }
        EnvSpec::Swe(swe) => Some(Sandbox {
            kind: swe.workspace.sandbox,
            limits: swe.workspace.limits,
            network: swe.workspace.network,
        }),
        EnvSpec::Toolcall(toolcall) => toolcall.workspace.as_ref().map(|workspace| Sandbox {
            kind: workspace.sandbox,
            limits: workspace.limits,
            network: workspace.network,
        }),
        EnvSpec::Custom(custom) => custom.workspace().map(|workspace| Sandbox {
            kind: workspace.sandbox,
            limits: workspace.limits,
            network: workspace.network,
        }),
        EnvSpec::Gui(_) if browsers == BrowserPlace::Elsewhere => None,
        // The browser's processes share one memory limit.
        EnvSpec::Gui(gui) => Some(Sandbox {
            kind: gui.sandbox,
            limits: SandboxLimits { memory_mib: gui.memory_mib, ..SandboxLimits::default() },
            network: NetworkPolicy::None,
        }),
        _ => None,
    }
}
