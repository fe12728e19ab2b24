//! Whether this program can train: the libtorch that it was built with, if with any.

use std::path::Path;

use super::examination::{bad, ok};
use crate::command::doctor::{Finding, Health};
use crate::program::libtorch_folder;

/// What `clawrl doctor` calls it.
const NAME: &str = "libtorch";
/// The library that everything else follows from.
const LIBRARY: &str = "libtorch_cpu.so";

/// Looks without loading it, which takes a quarter of a second.
pub(super) fn of_this_build() -> Finding {
    of_build_with(libtorch_folder())
}

fn of_build_with(folder: Option<&Path>) -> Finding {
    match folder {
        Some(folder) if folder.join(LIBRARY).is_file() => ok(NAME, &folder.display().to_string()),
        Some(folder) => bad(
            NAME,
            Health::Warn,
            format!("no {LIBRARY} in {}, so there is no training", folder.display()),
            "`ci/setup.sh` in the checkout brings it back",
        ),
        None => bad(
            NAME,
            Health::Warn,
            "not in this build, which cannot train".to_owned(),
            "`ci/setup.sh run cargo build --release -p clawrl -p clawrl-sandbox --features clawrl/torch` builds one that can",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(folder: Option<&Path>, health: Health, found: &str) {
        let finding = of_build_with(folder);
        assert_eq!((finding.health, finding.found.as_str()), (health, found));
        assert_eq!(finding.advice.is_some(), health != Health::Ok);
    }

    #[test]
    fn what_the_build_says_is_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        check(None, Health::Warn, "not in this build, which cannot train");
        let lost = format!("no libtorch_cpu.so in {}, so there is no training", path.display());
        check(Some(path), Health::Warn, &lost);
        std::fs::write(folder.path().join(LIBRARY), "").unwrap();
        check(Some(path), Health::Ok, path.to_str().unwrap());
    }
}
