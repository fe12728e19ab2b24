//! The libtorch that was loaded must be the one that this program was built for.

use clawrl_torch::probe;

use crate::exit_code::Exit;
use crate::failure::Failure;

/// Looks at it; before anything else of it is used, and before anything is written.
///
/// # Errors
/// Another version, as one that LD_LIBRARY_PATH names.
pub(super) fn check_libtorch() -> Result<(), Failure> {
    let refused = |error: clawrl_torch::RuntimeError| {
        Failure::with_help(Exit::Environment, error.to_string(), "`ci/setup.sh` installs the right one")
    };
    probe().map(|_| ()).map_err(refused)
}
