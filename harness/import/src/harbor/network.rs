//! The network of an environment, phase by phase.
//!
//! Harbor's default is all of it. A sandbox has none, and there a task that does not say what it needs gets none,
//! with a note; one that says `public` is refused.

use crate::document::Section;
use crate::findings::Findings;

/// What a phase may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    None,
    Public,
    /// Public, because nothing was said.
    Unsaid,
}

impl Network {
    /// The word of a suite.
    pub(super) fn word(self, in_containers: bool) -> &'static str {
        match self {
            Self::Public | Self::Unsaid if in_containers => "public",
            _ => "none",
        }
    }
}

/// The network of a table that describes an environment.
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

/// The network that a table asks for, if it does.
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
            let help = "a network here is none or all of it; ask for `no-network` or `public`";
            section.refuse("network_mode", findings, message, help);
            None
        }
        other => {
            let message = format!("`{other}` is no network mode");
            section.refuse("network_mode", findings, message, "write `no-network` or `public`");
            None
        }
    }
}

fn refuse_public(section: &Section<'_>, key: &str, findings: &mut Findings) {
    let message = format!("`{}` asks for the network, which a sandbox does not have", section.named(key));
    let help = "import for containers with `--sandbox container`, or ask for `network_mode = \"no-network\"`";
    section.refuse(key, findings, message, help);
}
