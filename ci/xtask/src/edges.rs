//! The list of allowed dependencies between crates, checked against every manifest and against ARCHITECTURE.md.
//!
//! I1. Crates are called by their folder: `harness/core` is `core`. I2. A dependency that is not listed is a
//! problem, in tests too. I3. ARCHITECTURE.md holds [`block`] word for word.

use crate::manifest::{self, Dependency, Manifest, Section};
use crate::problem::Problem;
use crate::tree::Tree;

/// The crates that may depend on one of ours.
enum Users {
    Everyone,
    /// All crates, as a dev-dependency only.
    Tests,
    These(&'static [&'static str]),
    None,
}

/// A new edge is a design decision: give the reason in harness/docs/design, then run `cargo xtask generate`.
const EDGES: &[(&str, Users)] = &[
    ("core", Users::Everyone),
    ("conformance", Users::These(&["testkit", "cli"])),
    ("testkit", Users::Tests),
    (
        "sandbox",
        Users::These(&[
            "workspace",
            "terminal",
            "toolcall",
            "custom",
            "gui",
            "swe",
            "node",
            "container",
            "runtime",
            "cli",
            "bench",
        ]),
    ),
    ("workspace", Users::These(&["terminal", "toolcall", "custom", "gui", "swe"])),
    (
        "config",
        Users::These(&["regression", "runtime", "serve", "cli", "train", "import", "bench", "clawrl"]),
    ),
    ("template", Users::These(&["config", "torch"])),
    ("scheduler", Users::These(&["runtime", "cli", "train", "bench", "clawrl"])),
    ("import", Users::These(&["runtime", "cli"])),
    ("record", Users::These(&["report", "regression", "view", "runtime", "cli", "train", "clawrl", "bench"])),
    ("redact", Users::These(&["record", "toolcall", "gateway", "remote", "runtime", "cli"])),
    ("report", Users::These(&["regression", "view", "cli", "clawrl"])),
    ("regression", Users::These(&["runtime", "cli", "bench"])),
    ("gateway", Users::These(&["serve", "chat", "train", "clawrl", "bench"])),
    ("terminal", Users::These(&["swe", "container", "runtime", "bench"])),
    ("toolcall", Users::These(&["runtime"])),
    ("custom", Users::These(&["runtime"])),
    ("inprocess", Users::These(&["runtime", "clawrl"])),
    ("gui", Users::These(&["runtime"])),
    ("node", Users::These(&["container"])),
    ("container", Users::These(&["runtime"])),
    ("swe", Users::These(&["container", "runtime"])),
    ("cassette", Users::These(&["runtime", "cli"])),
    ("judge", Users::These(&["runtime", "train"])),
    ("remote", Users::These(&["runtime", "serve", "chat", "cli", "train"])),
    ("scripted", Users::These(&["runtime", "cli", "train"])),
    ("learn", Users::These(&["torch", "train", "clawrl", "bench"])),
    ("gates", Users::These(&["regression", "cli", "bench"])),
    ("torch", Users::These(&["train", "clawrl", "bench"])),
    ("shim", Users::These(&["torch"])),
    ("runtime", Users::These(&["serve", "cli", "train", "clawrl"])),
    ("serve", Users::These(&["cli", "train", "clawrl"])),
    ("chat", Users::These(&["cli"])),
    ("view", Users::These(&["cli"])),
    ("cli", Users::These(&["clawrl"])),
    ("train", Users::These(&["clawrl"])),
    ("clawrl", Users::None),
    ("bench", Users::None),
    ("xtask", Users::None),
];

/// Third-party crates that only some workspace crates may use: (third-party, workspace).
const WRAPPED: &[(&str, &[&str])] = &[
    ("serde_yaml", &["config"]),
    ("axum", &["gateway"]),
    ("bollard", &["container"]),
    ("tch", &["torch", "shim"]),
    ("torch-sys", &["shim"]),
];

/// Third-party crates that a workspace crate must not use: (workspace, third-party).
const BARRED: &[(&str, &str)] = &[("core", "tokio"), ("core", "tokio-util")];

/// The page that contains the list, between two markers.
pub(crate) const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- edges -->";
const END: &str = "<!-- /edges -->";

/// Checks every manifest and the page.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems: Vec<Problem> = check_page(tree.text(PAGE)).into_iter().collect();
    match manifest::crates(tree) {
        Ok(crates) => problems.extend(check_manifests(&crates)),
        Err(problem) => problems.push(problem),
    }
    problems
}

fn check_manifests(crates: &[Manifest]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for user in crates {
        let name = user.short_name();
        if !EDGES.iter().any(|(listed, _)| *listed == name) {
            let message = format!("crate `{name}` is not in the list of edges, ci/xtask/src/edges.rs");
            problems.push(Problem::new(&user.path, 1, message));
        }
        for dependency in user.dependencies() {
            let ours = crates.iter().find(|used| used.package_name() == Some(&dependency.name));
            let refusal = match ours {
                Some(used) => refuse_ours(name, used.short_name(), dependency.section),
                None => refuse_theirs(name, &dependency),
            };
            problems.extend(refusal.map(|why| Problem::new(&user.path, dependency.line, why)));
        }
    }
    for (listed, _) in EDGES {
        if !crates.iter().any(|known| known.short_name() == *listed) {
            let message = format!("`{listed}` is in the list of edges, but there is no such crate");
            problems.push(Problem::new("ci/xtask/src/edges.rs", 1, message));
        }
    }
    problems
}

/// The reason why `user` must not depend on the workspace crate `used`, if there is one.
fn refuse_ours(user: &str, used: &str, section: Section) -> Option<String> {
    let (_, users) = EDGES.iter().find(|(listed, _)| *listed == used)?;
    let allowed = match users {
        Users::Everyone => true,
        Users::Tests => section == Section::Dev,
        Users::These(names) => names.contains(&user),
        Users::None => false,
    };
    (!allowed).then(|| format!("`{user}` may not depend on `{used}` here; allowed is: {}", line(used, users)))
}

/// The reason why `user` must not depend on a third-party crate, if there is one.
fn refuse_theirs(user: &str, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    if let Some((_, owners)) =
        WRAPPED.iter().find(|(theirs, owners)| *theirs == name && !owners.contains(&user))
    {
        return Some(format!("only `{}` may depend on {name}", owners.join("` and `")));
    }
    BARRED.contains(&(user, name)).then(|| format!("`{user}` has to do without {name}"))
}

fn line(used: &str, users: &Users) -> String {
    let users = match users {
        Users::Everyone => "all".to_owned(),
        Users::Tests => "all, as a dev-dependency".to_owned(),
        Users::These(names) => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        Users::None => "none".to_owned(),
    };
    format!("`{used}` <- {users}")
}

/// The list as ARCHITECTURE.md shows it, markers included.
pub(crate) fn block() -> String {
    let lines: String = EDGES.iter().map(|(used, users)| format!("- {}\n", line(used, users))).collect();
    format!("{BEGIN}\n{lines}{END}")
}

/// `page` with the current block; `None` if it has no markers.
pub(crate) fn updated(page: &str) -> Option<String> {
    let begin = page.find(BEGIN)?;
    let end = begin + page[begin..].find(END)? + END.len();
    Some(format!("{}{}{}", &page[..begin], block(), &page[end..]))
}

/// Another check, of all generated files, covers whether the list is current.
fn check_page(page: Option<&str>) -> Option<Problem> {
    let message = || format!("has no place for the list of edges: {BEGIN} and {END}");
    page.filter(|page| updated(page).is_none()).map(|_| Problem::new(PAGE, 1, message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_at(folder: &str, package: &str, rest: &str) -> (String, String) {
        (format!("{folder}/Cargo.toml"), format!("[package]\nname = \"{package}\"\n{rest}"))
    }

    /// `user`'s manifest is `folder` with `dependencies`, beside crates `core`, `record` and `testkit`.
    fn check(folder: &str, dependencies: &str, expected: &[&str]) {
        let mut crates: Vec<Manifest> = Vec::new();
        for (path, text) in [
            crate_at("harness/core", "clawrl-core", ""),
            crate_at("harness/record", "clawrl-record", ""),
            crate_at("harness/testkit", "clawrl-testkit", ""),
            crate_at(folder, "user", dependencies),
        ] {
            crates.extend(Manifest::parse(&path, &text));
        }
        let found: Vec<String> = check_manifests(&crates).iter().map(ToString::to_string).collect();
        let found: Vec<&str> =
            found.iter().map(String::as_str).filter(|text| text.starts_with(folder)).collect();
        assert_eq!(found, expected, "{dependencies:?} in {folder}");
    }

    #[test]
    fn listed_edges_pass() {
        check(
            "harness/cli",
            "[dependencies]\nclawrl-core.workspace = true\nclawrl-record.workspace = true",
            &[],
        );
        check("envs/terminal", "[dev-dependencies]\nclawrl-testkit.workspace = true", &[]);
        check("harness/config", "[dependencies]\nserde_yaml.workspace = true", &[]);
    }

    #[test]
    fn other_edges_do_not() {
        check(
            "harness/scheduler",
            "[dependencies]\nclawrl-record.workspace = true",
            &["harness/scheduler/Cargo.toml:4: `scheduler` may not depend on `record` here; \
               allowed is: `record` <- `report`, `regression`, `view`, `runtime`, `cli`, `train`, `clawrl`, `bench`"],
        );
        check(
            "harness/scheduler",
            "[dev-dependencies]\nclawrl-record.workspace = true",
            &["harness/scheduler/Cargo.toml:4: `scheduler` may not depend on `record` here; \
               allowed is: `record` <- `report`, `regression`, `view`, `runtime`, `cli`, `train`, `clawrl`, `bench`"],
        );
        check(
            "envs/terminal",
            "[dependencies]\nclawrl-testkit.workspace = true",
            &["envs/terminal/Cargo.toml:4: `terminal` may not depend on `testkit` here; \
               allowed is: `testkit` <- all, as a dev-dependency"],
        );
    }

    #[test]
    fn wrapped_and_barred_crates_stay_where_they_belong() {
        check(
            "harness/record",
            "[dependencies]\nserde_yaml.workspace = true",
            &["harness/record/Cargo.toml:4: only `config` may depend on serde_yaml"],
        );
        check(
            "harness/core",
            "[dependencies]\ntokio.workspace = true",
            &["harness/core/Cargo.toml:4: `core` has to do without tokio"],
        );
        check("policies/torch/shim", "[dependencies]\ntch.workspace = true\ntorch-sys.workspace = true", &[]);
        check(
            "policies/judge",
            "[dependencies]\ntch.workspace = true",
            &["policies/judge/Cargo.toml:4: only `torch` and `shim` may depend on tch"],
        );
    }

    #[test]
    fn unknown_crates_have_to_be_listed() {
        check(
            "envs/moon",
            "",
            &["envs/moon/Cargo.toml:1: crate `moon` is not in the list of edges, ci/xtask/src/edges.rs"],
        );
    }

    #[test]
    fn the_page_holds_the_list_word_for_word() {
        let good = format!("# A\n\n{}\n\nMore.\n", block());
        let stale = good.replace("`core` <- all", "`core` <- some");
        assert_eq!(updated(&good).as_deref(), Some(good.as_str()));
        assert_eq!(updated(&stale), Some(good.clone()));
        assert_eq!(updated("# A\n"), None);
        assert_eq!(check_page(Some(&good)), None);
        assert!(check_page(Some("# A\n")).is_some());
    }
}
