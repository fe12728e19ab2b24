//! Build information of these programs.

use clawrl_cli::Build;
use clawrl_runtime::host::LinkedLibtorch;

/// `ci/setup.sh run` sets the commit, `build.rs` the rest.
pub(crate) const BUILD: Build = Build {
    commit: option_env!("CLAWRL_COMMIT"),
    libtorch: match option_env!("CLAWRL_LIBTORCH_VERSION") {
        Some(version) => Some(LinkedLibtorch { version, folder: option_env!("CLAWRL_LIBTORCH_FOLDER") }),
        None => None,
    },
};
