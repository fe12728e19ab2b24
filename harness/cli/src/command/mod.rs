//! One file per command: its arguments, and what it does.

pub(crate) mod clean;
pub(crate) mod doctor;
pub(crate) mod help;
pub(crate) mod ls;
pub(crate) mod new;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod train;
pub(crate) mod validate;

mod run_end;
mod verdict;
mod words;

use words::{end_word, ending_word, policy_name, policy_words};

/// The failure of a command that needs what this build was made without.
#[cfg(not(feature = "torch"))]
pub(crate) fn without_torch() -> crate::failure::Failure {
    let help = "`make` builds with it; by hand: eval \"$(ci/setup.sh env)\" and cargo build --release -p clawrl \
                -p clawrl-sandbox --features clawrl/torch";
    let message = "this build has no learner: it was made without the feature `torch`";
    crate::failure::Failure::with_help(crate::exit_code::Exit::Environment, message, help)
}
