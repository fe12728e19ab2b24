//! The network of an environment in each phase.
//!
//! Harbor's default is full network access. A sandbox has no network: a task that does not ask for it runs without,
//! with a note, and a task that asks for `public` is refused.

use crate::document::Section;
use crate::findings::Findings;

/// The network access of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    None,
    Public,
    /// Public, because it is Harbor's default.
    Unsaid,
}

impl Network {
    /// The value in a suite.
    pub(super) fn word(self, in_containers: bool) -> &'static str {
        match self {
            Self::Public | Self::Unsaid if in_containers => "public",
            _ => "none",
        }
    }
}

/// The network access that a table of an environment asks for.
pub(super) fn baseline(section: &Section<'_>, in_containers: bool, findings: &mut Findings) -> Network {
    let internet = section.flag("allow_internet", findings);
    match (mode(section, in_containers, findings), internet) {
        (Some(network), _) => network,
        (None, Some(internet)) if !internet.value => Network::None,
        (None, Some(_)) if !in_containers => {
            refuse_public(section, "allow_internet", findings);
            Network::None
        }
        (None, Some(_)) => Network::Public,
        (None, None) => Network::Unsaid,
    }
}

/// The network access that a table asks for; `None` if it does not say.
pub(super) fn mode(section: &Section<'_>, in_containers: bool, findings: &mut Findings) -> Option<Network> {
    let mode = section.text("network_mode", findings)?;
    match mode.value.as_str() {
        "no-network" => Some(Network::None),
        "public" if in_containers => Some(Network::Public),
        "public" => {
            refuse_public(section, "network_mode", findings);
            None
        }
        "allowlist" => {
            let message =
                format!("`{}` is `allowlist`, which cannot be represented", section.named("network_mode"));
            let help =
                "only no network and full network access are supported; ask for `no-network` or `public`";
            section.refuse("network_mode", findings, message, help);
            None
        }
        other => {
            let message = format!("`{other}` is not a network mode");
            section.refuse("network_mode", findings, message, "write `no-network` or `public`");
            None
        }
    }
}

fn refuse_public(section: &Section<'_>, key: &str, findings: &mut Findings) {
    let message = format!("`{}` asks for a network, which a sandbox does not have", section.named(key));
    let help = "import for containers with `--sandbox container`, or ask for `network_mode = \"no-network\"`";
    section.refuse(key, findings, message, help);
}
