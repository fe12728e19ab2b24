//! File form of a sandbox with a workspace, shared by terminals and tools.

use clawrl_core::{NetworkPolicy, SandboxKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::FilesFile;
use super::forms::words;
use super::image::ImageFile;
use super::located::{Entries, Located, Text};
use crate::bounds;

/// Builds a struct of its own fields and those of a workspace, all optional. Flattening a common struct instead would
/// lose the spans: serde buffers flattened values.
macro_rules! with_workspace {
    ($(#[$meta:meta])* struct $name:ident { $($(#[$own_meta:meta])* $own:ident: $own_type:ty,)* }) => {
        $(#[$meta])*
        pub(crate) struct $name {
            $($(#[$own_meta])* pub(crate) $own: $own_type,)*
            /// Files laid into the workspace before anything runs: a folder beside the suite, copied as it is, or a
            /// map of paths to contents.
            pub(crate) files: Option<Located<FilesFile>>,
            /// Environment variables. A task's own map replaces that of the defaults.
            pub(crate) vars: Option<Entries<Text>>,
            /// Isolation. Default: bubblewrap. `container` needs a container engine; `none` runs on the host itself
            /// and warns.
            pub(crate) sandbox: Option<Located<SandboxFile>>,
            /// Memory of all processes together. Default: 256.
            #[schemars(range(min = bounds::MIN_MEMORY_MIB, max = bounds::MAX_MIB))]
            pub(crate) memory_mib: Option<Located<i64>>,
            /// Size of the workspace and, each, of /tmp and /dev/shm. Default: 64.
            #[schemars(range(min = 1, max = bounds::MAX_MIB))]
            pub(crate) disk_mib: Option<Located<i64>>,
            /// Processes and threads. Default: 128.
            #[schemars(range(min = bounds::MIN_PIDS, max = bounds::MAX_PIDS))]
            pub(crate) pids: Option<Located<i64>>,
            /// Hundredths of a CPU; 100 is one core. Default: 100.
            #[schemars(range(min = 1, max = bounds::MAX_CPU_PERCENT))]
            pub(crate) cpu_percent: Option<Located<i64>>,
            /// Network. Default: none. `host` is the host's own network, `public` the container engine's bridge to the
            /// world; both warn.
            pub(crate) network: Option<Located<NetworkFile>>,
            /// The root file system: the name of an image, or a map with `name`, `build` or `rootfs`. Default: the
            /// host's programs, read-only.
            pub(crate) image: Option<Located<ImageFile>>,
            /// Folders of this machine that sandboxes see at the same paths, read-only: where programs are installed that
            /// they need. Absolute, or from the suite's folder on.
            pub(crate) read_only: Option<Located<Vec<Text>>>,
        }

        impl $name {
            /// The settings of the workspace.
            pub(crate) fn workspace(&self) -> $crate::file::WorkspaceRef<'_> {
                $crate::file::WorkspaceRef {
                    files: self.files.as_ref(),
                    vars: self.vars.as_ref(),
                    sandbox: self.sandbox.as_ref(),
                    memory_mib: self.memory_mib.as_ref(),
                    disk_mib: self.disk_mib.as_ref(),
                    pids: self.pids.as_ref(),
                    cpu_percent: self.cpu_percent.as_ref(),
                    network: self.network.as_ref(),
                    image: self.image.as_ref(),
                    read_only: self.read_only.as_ref(),
                }
            }

            /// Fills missing keys from the defaults.
            pub(crate) fn or(self, defaults: &Self) -> Self {
                let below = defaults.clone();
                Self {
                    $($own: self.$own.or(below.$own),)*
                    files: self.files.or(below.files),
                    vars: self.vars.or(below.vars),
                    sandbox: self.sandbox.or(below.sandbox),
                    memory_mib: self.memory_mib.or(below.memory_mib),
                    disk_mib: self.disk_mib.or(below.disk_mib),
                    pids: self.pids.or(below.pids),
                    cpu_percent: self.cpu_percent.or(below.cpu_percent),
                    network: self.network.or(below.network),
                    image: self.image.or(below.image),
                    read_only: self.read_only.or(below.read_only),
                }
            }
        }
    };
}
pub(super) use with_workspace;

with_workspace! {
    /// A sandbox with a workspace, for tools that are programs.
    #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "Workspace")]
    struct WorkspaceFile {}
}

/// The settings of a workspace, borrowed from the environment that has them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WorkspaceRef<'a> {
    pub(crate) files: Option<&'a Located<FilesFile>>,
    pub(crate) vars: Option<&'a Entries<Text>>,
    pub(crate) sandbox: Option<&'a Located<SandboxFile>>,
    pub(crate) memory_mib: Option<&'a Located<i64>>,
    pub(crate) disk_mib: Option<&'a Located<i64>>,
    pub(crate) pids: Option<&'a Located<i64>>,
    pub(crate) cpu_percent: Option<&'a Located<i64>>,
    pub(crate) network: Option<&'a Located<NetworkFile>>,
    pub(crate) image: Option<&'a Located<ImageFile>>,
    pub(crate) read_only: Option<&'a Located<Vec<Text>>>,
}

words! {
    enum SandboxFile for SandboxKind {
        Bubblewrap,
        Container,
        None,
    }
}

words! {
    enum NetworkFile for NetworkPolicy {
        None,
        Host,
        Public,
    }
}
