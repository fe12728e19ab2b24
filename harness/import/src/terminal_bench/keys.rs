//! The keys of `task.yaml`.
//!
//! Source: Terminal-Bench's own model of a task, version 0.2.

use crate::keys::{KeyRow, ignored, taken};

const NO_EFFECT: &str = "for people and catalogues";

/// How each key is imported.
pub(crate) const KEYS: &[KeyRow] = &[
    taken("instruction", "`instruction`"),
    ignored("author_name", NO_EFFECT),
    ignored("author_email", NO_EFFECT),
    ignored("difficulty", NO_EFFECT),
    ignored("category", NO_EFFECT),
    ignored("tags", NO_EFFECT),
    taken("parser_name", "only `pytest`: `verifier.reward`; another is refused"),
    taken(
        "max_agent_timeout_sec",
        "`step_timeout_secs`, and with the setup `attempt_timeout_secs`; 360 where it is left out",
    ),
    taken("max_test_timeout_sec", "`verifier.timeout_secs`; 60 where it is left out"),
    taken(
        "run_tests_in_same_shell",
        "only `false`; `true` is refused, since nothing of the agent lives when it is graded",
    ),
    ignored("disable_asciinema", "the record of an attempt holds its terminal"),
    ignored("estimated_duration_sec", NO_EFFECT),
    ignored("expert_time_estimate_min", NO_EFFECT),
    ignored("junior_time_estimate_min", NO_EFFECT),
];
