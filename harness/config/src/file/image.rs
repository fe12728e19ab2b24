//! Images, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::forms::two_forms;
use super::located::{Located, Text};
use crate::bounds;

two_forms! {
    /// The root file system of an environment.
    enum ImageFile as "Image" { Name(String), Fields(Box<ImageFields>) }
    expects "the name of an image, or a map with `name:`, `build:` or `rootfs:`";
    described "The root file system: the name of an image, or a map.";
}

/// An image in full: exactly one of `name`, `build` and `rootfs`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ImageMap")]
pub(crate) struct ImageFields {
    /// An image that the container engine knows, or finds where it is set to look. Containers only.
    pub(crate) name: Option<Text>,
    /// A folder beside the suite with a Dockerfile. Containers only.
    pub(crate) build: Option<Text>,
    /// With `build`: the Dockerfile in that folder. Default: Dockerfile.
    pub(crate) dockerfile: Option<Text>,
    /// With `build`: how long the build may take. Default: 600.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) build_timeout_secs: Option<Located<f64>>,
    /// A folder beside the suite with an unpacked root file system; a link to one elsewhere will do. Bubblewrap only.
    pub(crate) rootfs: Option<Text>,
    /// Folder that the agent works in: the workspace. Default: the image's own for containers, /work otherwise.
    pub(crate) workdir: Option<Text>,
    /// The agent's user. Default: the image's own. Containers only.
    pub(crate) user: Option<Text>,
}
