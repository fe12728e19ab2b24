//! The keys of `task.toml`.
//!
//! Source: Harbor's own models of schema version 1.4, and key names of older versions.

use crate::keys::{KeyRow, ignored, refused, taken};

const NO_EFFECT: &str = "for people and catalogues";
const NO_ALLOWLIST: &str =
    "a network here is none or all of it; ask for `network_mode = \"no-network\"` or `\"public\"`";
const SEPARATE: &str = "as the same key of `environment`";

/// How each key is imported.
pub(crate) const KEYS: &[KeyRow] = &[
    taken("schema_version", "must be 1.0 to 1.4"),
    taken("version", "older name of `schema_version`"),
    ignored("source", NO_EFFECT),
    ignored("multi_step_reward_strategy", "a task of one step has one reward"),
    taken(
        "artifacts",
        "`verifier.apart.artifacts`, with `/logs/artifacts`; without a separate verifier nothing reads them",
    ),
    taken("artifacts.source", "absolute, or relative to the workspace"),
    taken("artifacts.destination", "names a place in Harbor's results; noted, and left out"),
    taken("artifacts.exclude", "`exclude`"),
    taken("artifacts.service", "only `main`; another is refused"),
    taken("task.name", "kept in the record of the import"),
    ignored("task.version", NO_EFFECT),
    ignored("task.description", NO_EFFECT),
    ignored("task.authors", NO_EFFECT),
    ignored("task.keywords", NO_EFFECT),
    ignored("metadata", NO_EFFECT),
    taken(
        "agent.timeout_sec",
        "`step_timeout_secs`, and with the setup `attempt_timeout_secs`; 3600 where it is left out",
    ),
    taken("agent.user", "`image.user`; refused in a sandbox"),
    taken("agent.network_mode", "`network`; `allowlist` is refused"),
    refused("agent.allowed_hosts", NO_ALLOWLIST),
    taken("verifier.timeout_sec", "`verifier.timeout_secs`"),
    taken("verifier.env", "`verifier.vars`"),
    taken("verifier.user", "`verifier.user`; refused in a sandbox"),
    taken("verifier.network_mode", "`verifier.network`; `allowlist` is refused"),
    refused("verifier.allowed_hosts", NO_ALLOWLIST),
    taken("verifier.environment_mode", "`separate`: `verifier.apart`"),
    taken("verifier.collect.command", "`verifier.apart.collect`; refused where the verifier is shared"),
    taken("verifier.collect.timeout_sec", "`verifier.apart.collect`"),
    taken("verifier.collect.service", "only `main`; another is refused"),
    refused("verifier.collect.user", "let the command run as the agent's user: remove the key"),
    taken("verifier.environment.build_timeout_sec", SEPARATE),
    taken("verifier.environment.docker_image", "`verifier.apart.image`"),
    taken("verifier.environment.os", SEPARATE),
    ignored("verifier.environment.cpus", "the limits of the task hold"),
    ignored("verifier.environment.memory_mb", "the limits of the task hold"),
    ignored("verifier.environment.storage_mb", "the limits of the task hold"),
    ignored("verifier.environment.memory", "the limits of the task hold"),
    ignored("verifier.environment.storage", "the limits of the task hold"),
    refused(
        "verifier.environment.gpus",
        "remove it, or run this task by Harbor: no environment here has a GPU",
    ),
    refused(
        "verifier.environment.gpu_types",
        "remove it, or run this task by Harbor: no environment here has a GPU",
    ),
    refused(
        "verifier.environment.tpu",
        "remove it, or run this task by Harbor: no environment here has a TPU",
    ),
    taken(
        "verifier.environment.network_mode",
        "`verifier.network`, unless `verifier.network_mode` says otherwise",
    ),
    taken("verifier.environment.allow_internet", SEPARATE),
    refused("verifier.environment.allowed_hosts", NO_ALLOWLIST),
    taken("verifier.environment.env", "`verifier.vars`, below `verifier.env`"),
    taken("verifier.environment.workdir", "`verifier.apart.image.workdir`"),
    ignored("verifier.environment.skills_dir", "no agent works there"),
    refused("verifier.environment.healthcheck", "wait for what is needed in `test.sh`"),
    refused("verifier.environment.mcp_servers", "remove it: no agent works there"),
    taken(
        "environment.build_timeout_sec",
        "`image.build_timeout_secs`; in a sandbox, part of `setup_timeout_secs`",
    ),
    taken("environment.docker_image", "`image.name`, or the root file system given for it"),
    taken("environment.os", "only `linux`; `windows` is refused"),
    taken("environment.cpus", "`cpu_percent`"),
    taken("environment.memory_mb", "`memory_mib`"),
    taken("environment.storage_mb", "`disk_mib`"),
    taken("environment.memory", "older form of `memory_mb`, such as `2G`"),
    taken("environment.storage", "older form of `storage_mb`, such as `10G`"),
    refused("environment.gpus", "remove it, or run this task by Harbor: no environment here has a GPU"),
    refused("environment.gpu_types", "remove it, or run this task by Harbor: no environment here has a GPU"),
    refused("environment.tpu", "remove it, or run this task by Harbor: no environment here has a TPU"),
    taken(
        "environment.network_mode",
        "`network` of agent and verifier, unless they have their own; `allowlist` is refused",
    ),
    taken("environment.allow_internet", "older form of `network_mode`"),
    refused("environment.allowed_hosts", NO_ALLOWLIST),
    taken("environment.env", "`vars`, and below `verifier.env` also `verifier.vars`"),
    taken("environment.workdir", "`image.workdir`"),
    ignored(
        "environment.skills_dir",
        "skills are files that an agent of Harbor's copies; they stay where they are",
    ),
    taken("environment.healthcheck.command", "the last command of `setup`"),
    taken("environment.healthcheck.interval_sec", "seconds between two tries"),
    taken("environment.healthcheck.timeout_sec", "seconds of one try"),
    taken("environment.healthcheck.start_period_sec", "seconds in which a failure does not count"),
    taken("environment.healthcheck.start_interval_sec", "seconds between two tries in that time"),
    taken("environment.healthcheck.retries", "failures in a row that end the setup"),
    refused(
        "environment.mcp_servers",
        "remove it, or give the task's programs to the agent in the image: agents here work in a terminal",
    ),
    taken("solution.env", "variables of the oracle's script"),
    refused(
        "steps",
        "split the task into one folder for each step: a task here has one instruction and one verifier",
    ),
];
