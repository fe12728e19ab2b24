//! Prepares a repository whose history ends with the base commit, from an image or a folder.
//!
//! P1. The agent's repository and that of the tests are made by the same steps.
//! P2. Afterwards, every object can be reached from the one branch, and nothing else of the image's `.git` is left, nor
//! any repository inside the repository (S1).
//!
//! Errors: a [`Fault`]: a step of the task failed, or the image does not match the task. Cancellation: dropping the
//! future kills the script.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{Boundary, Fault, FixtureContent, FixtureFile, SweSpec};
use clawrl_sandbox::{PutFile, Sandbox};
use clawrl_workspace::FixtureReader;

use crate::repository::{Script, failed, last_lines};

/// Exit codes of [`CUT`] and what they mean.
const UNKNOWN_COMMIT: i32 = 41;
const NOT_BEFORE: i32 = 42;
const NO_COMMIT: i32 = 43;
const NO_FOLDER: i32 = 44;

/// Creates the base commit, from a folder without history or from a repository, and keeps nothing else of `.git`.
///
/// `$1` is the commit that the issue was raised against, or empty; `$2` says whether the task changed the repository,
/// so that its previous state would reveal how. Changes that the image made after that commit become one commit on it:
/// their files stay, their history is dropped. If objects of the history are missing, as in a partial clone, the
/// history starts with the base commit. Standard input lists the task's own files, which are included regardless of
/// `.gitignore`.
const CUT: &str = r#"
settle() {
    git symbolic-ref HEAD refs/heads/main
    git config user.name agent
    git config user.email agent@localhost
    git config gc.auto 0
}
if [ -e .git ] && [ ! -d .git ]; then exit 44; fi
if [ ! -e .git ] || ! at=$(git rev-parse -q --verify 'HEAD^{commit}'); then
    if [ -n "$1" ]; then exit 43; fi
    rm -rf .git
    git init -q --template= .
    settle
    git add -A .
    git update-index -z --add --remove --stdin
    git commit -q --allow-empty --no-verify -m base
    exit 0
fi
base=$at
if [ -n "$1" ]; then
    base=$(git rev-parse -q --verify "$1^{commit}") || exit 41
    git merge-base --is-ancestor "$base" "$at" || exit 42
fi
if [ "$2" = changed ]; then
    git add -A .
    at=$(git commit-tree "$(git write-tree)" -m base)
elif [ "$at" != "$base" ]; then
    at=$(git commit-tree "$at^{tree}" -p "$base" -m base)
fi
format=$(git rev-parse --show-object-format 2>/dev/null || echo sha1)
new=$(mktemp -d .git-XXXXXX)
if [ "$format" = sha1 ]; then git init -q --template= "$new"; else git init -q --template= --object-format="$format" "$new"; fi
mkdir -p "$new/.git/objects/pack" "$new/.git/info"
if [ -f .git/shallow ]; then cp .git/shallow "$new/.git/shallow"; fi
if [ -f .git/info/exclude ]; then cp .git/info/exclude "$new/.git/info/exclude"; fi
packed() { echo "$1" | git pack-objects -q --revs "$new/.git/objects/pack/pack" >/dev/null; }
if ! GIT_NO_LAZY_FETCH=1 packed "$at" 2>/dev/null; then
    at=$(git commit-tree "$at^{tree}" -m base)
    rm -f "$new/.git/shallow"
    packed "$at"
fi
rm -rf .git
mv "$new/.git" .git
rmdir "$new"
settle
git update-ref refs/heads/main "$at"
find . -mindepth 2 -name .git -prune -exec rm -rf {} +
git read-tree HEAD
git status --porcelain >/dev/null
"#;

/// The task's own files, read.
#[derive(Debug, Default)]
pub(crate) struct TaskInputs {
    files: Vec<PutFile>,
    patches: Vec<PutFile>,
}

impl TaskInputs {
    /// Reads them.
    ///
    /// # Errors
    /// A permanent env [`Fault`] when a file is gone or differs from the plan.
    pub(crate) async fn read(spec: &SweSpec, fixtures: &Arc<FixtureReader>) -> Result<Self, Fault> {
        let files = fixtures.read(spec.workspace.files.clone()).await?;
        let patches = spec.apply.iter().map(as_file).collect();
        Ok(Self { files, patches: fixtures.read(patches).await? })
    }
}

/// Wraps content that is not a workspace file, for the fixture reader.
pub(crate) fn as_file(content: &FixtureContent) -> FixtureFile {
    FixtureFile { path: String::new(), mode: 0o644, content: content.clone() }
}

/// Creates the repository. `variables` are those of the task's own commands.
pub(crate) async fn prepare(
    sandbox: &dyn Sandbox,
    spec: &SweSpec,
    ingredients: TaskInputs,
    variables: &BTreeMap<String, String>,
    deadline: Instant,
) -> Result<(), Fault> {
    let own: Vec<u8> =
        ingredients.files.iter().flat_map(|file| file.path.bytes().chain(std::iter::once(0))).collect();
    sandbox.put(ingredients.files).await?;
    for patch in &ingredients.patches {
        let script = Script {
            input: patch.content.to_vec(),
            ..Script::new("git apply --whitespace=nowarn -", deadline)
        };
        script.expect(sandbox, "applying a patch of the task").await?;
    }
    for command in &spec.setup {
        // A task's own text is never part of our script.
        let text = format!("set +e\n{command}");
        let script = Script { variables: Some(variables), ..Script::new(&text, deadline) };
        let output = script.run(sandbox).await.map_err(Fault::from)?;
        if output.code != Some(0) {
            let said = last_lines(if output.stderr.is_empty() { &output.stdout } else { &output.stderr });
            let ended =
                output.code.map_or_else(|| "took too long".to_owned(), |code| format!("ended with {code}"));
            let message = format!("setup command `{command}` {ended}; output: {said}");
            return Err(Fault::permanent(Boundary::Env, "setup-failed", message));
        }
    }
    cut(sandbox, spec, own, deadline).await
}

async fn cut(sandbox: &dyn Sandbox, spec: &SweSpec, own: Vec<u8>, deadline: Instant) -> Result<(), Fault> {
    let commit = spec.base_commit.as_deref().unwrap_or_default();
    let changed = if spec.apply.is_empty() { "" } else { "changed" };
    let script = Script { arguments: &[commit, changed], input: own, ..Script::new(CUT, deadline) };
    let output = script.run(sandbox).await.map_err(Fault::from)?;
    let refuse = |message: String| Err(Fault::permanent(Boundary::Env, "base-commit", message));
    match output.code {
        Some(0) => Ok(()),
        Some(UNKNOWN_COMMIT) => refuse(format!("the repository in the image lacks the commit {commit}")),
        Some(NOT_BEFORE) => refuse(format!(
            "the repository in the image is neither at {commit} nor after it: check the commit, and that the \
             image belongs to the task"
        )),
        Some(NO_COMMIT) => {
            refuse("no repository with a commit in the image's folder: set `workdir` to it".to_owned())
        }
        Some(NO_FOLDER) => refuse(
            "`.git` in the image's folder is a file: the history that it refers to cannot be truncated"
                .to_owned(),
        ),
        code => Err(failed("making the base commit", code, &output)),
    }
}
