//! Environment variables: the one list of those that `clawrl` reads.
//!
//! I1. Nothing else in this crate reads a variable; those that people name as holders of secrets are read by [`named`]. Programs in sandboxes see none of them.

use std::fmt::Write;

/// A variable that changes what `clawrl` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variable {
    /// Folder of results.
    Results,
    /// Which messages of the libraries are shown.
    Log,
    /// No colours.
    NoColor,
    /// Where programs are looked for.
    Path,
    /// Where the container engine listens.
    DockerHost,
    /// How long threads of libtorch spin.
    SpinCount,
}

impl Variable {
    /// All, in the order in which they are explained.
    pub(crate) const ALL: [Self; 6] =
        [Self::Results, Self::Log, Self::NoColor, Self::Path, Self::DockerHost, Self::SpinCount];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Results => "CLAWRL_RESULTS",
            Self::Log => "CLAWRL_LOG",
            Self::NoColor => "NO_COLOR",
            Self::Path => "PATH",
            Self::DockerHost => "DOCKER_HOST",
            Self::SpinCount => "GOMP_SPINCOUNT",
        }
    }

    /// What it does.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Results => "Folder that holds `runs/`, where --results does not say. Default: results.",
            Self::Log => {
                "Messages of the libraries on standard error: error, warn, info, debug, trace, or by library, \
                 such as clawrl_scheduler=debug. Default: warn."
            }
            Self::NoColor => "If not empty: no colours.",
            Self::Path => "Where bwrap is looked for. Sandboxes have a PATH of their own.",
            Self::DockerHost => {
                "Socket of the container engine, unix://PATH. Default: unix:///var/run/docker.sock."
            }
            Self::SpinCount => {
                "How often threads of libtorch look for work before they sleep. Default: 10000."
            }
        }
    }

    /// Its value; `None` when it is not set, empty, or no Unicode.
    pub(crate) fn value(self) -> Option<String> {
        std::env::var(self.name()).ok().filter(|value| !value.is_empty())
    }
}

/// The value of a variable that a person named; `None` when it is not set, empty, or no Unicode.
pub(crate) fn named(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The list for `clawrl help environment`.
pub(crate) fn table() -> String {
    let mut text = "| variable | meaning |\n| --- | --- |\n".to_owned();
    for variable in Variable::ALL {
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} | {} |", variable.name(), variable.meaning());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_explained() {
        insta::assert_snapshot!(table());
    }
}
