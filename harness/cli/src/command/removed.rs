//! Options of earlier versions. Using one is an error that names the replacement.

use clap::builder::UnknownArgumentValueParser;
use clap::{Arg, ArgAction};

/// `--profile` wrote a flame graph and a histogram of each phase.
pub(crate) fn profile() -> Arg {
    let replacement =
        "use samply or perf (harness/docs/profile.md); `clawrl report` has the time of each phase";
    Arg::new("profile")
        .long("profile")
        .hide(true)
        .action(ArgAction::SetTrue)
        .value_parser(UnknownArgumentValueParser::suggest(replacement))
}
