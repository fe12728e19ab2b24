//! Settings of a terminal environment, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::files::FilesFile;
use super::image::ImageFile;
use super::located::{Entries, Located, Text};
use super::verifier::VerifierFile;
use super::workspace::{NetworkFile, SandboxFile, with_workspace};
use crate::bounds;

with_workspace! {
    /// A shell on a pseudo-terminal.
    #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "Terminal")]
    struct TerminalFile {
        /// Program in the sandbox. Default: bash.
        shell: Option<Text>,
        /// Commands run before the first observation. One that fails is a setup fault.
        setup: Option<Vec<Text>>,
        /// Columns of the terminal. Default: 80.
        #[schemars(range(min = bounds::MIN_SCREEN, max = bounds::MAX_SCREEN))]
        cols: Option<Located<i64>>,
        /// Rows of the terminal. Default: 24.
        #[schemars(range(min = bounds::MIN_SCREEN, max = bounds::MAX_SCREEN))]
        rows: Option<Located<i64>>,
        /// How long a silent program that waits for input is waited for before the step returns. Default: 500.
        #[schemars(range(min = 1, max = bounds::MAX_IDLE_MILLIS))]
        idle_millis: Option<Located<i64>>,
        /// Most characters of output that an observation shows. Default: 4000.
        #[schemars(range(min = bounds::MIN_OBSERVATION, max = bounds::MAX_OBSERVATION))]
        observation_chars: Option<Located<i64>>,
        /// A program that grades, instead of checks or beside them; then the score is its score times that of the
        /// checks.
        verifier: Option<Located<VerifierFile>>,
    }
}
