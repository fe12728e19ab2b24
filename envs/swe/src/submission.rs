//! Turns the agent's tree, or the diff that it submitted, into changes to a fresh repository.
//!
//! U1. git compares the two trees in a fresh sandbox, with the fresh repository's own history: nothing that the agent
//! left in any `.git` is there.
//! U2. A path that counts is written over the fresh repository as the agent had it; all others stay unchanged.
//! U3. A submitted diff is processed in the same way as a tree.
//!
//! Errors: a [`Fault`] of the machine. An invalid submission is [`RejectedSubmission`], which is a score.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{Boundary, Fault, SweSpec, WorkspaceSpec};
use clawrl_sandbox::{Exclusions, FillRequest, SafeDir, Sandbox, TreeBounds, TreeError};

use crate::imports::HAS_MODULES;
use crate::protection::{Change, PathDisposition, Protection};
use crate::repository::{Script, failed, last_lines};
use crate::runner_config::{ConfigParts, parts};

/// The folder beside the repository that receives the agent's tree.
pub(crate) const FOLDER: &str = "/submission";

/// Maximum bytes of the resulting diff, and of a submitted one.
pub(crate) const PATCH_CAP: usize = 8 << 20;

/// Maximum bytes of the list of changed files.
const LIST_CAP: usize = 32 << 20;

/// Exit codes of the scripts.
const DOES_NOT_APPLY: i32 = 51;
const FILE_TOO_LARGE: i32 = 52;

/// Takes the fresh repository byte by byte: from here on, no attribute of it, nor one of the agent's, affects what git
/// reads or writes. Prints its tree, its size and its number of entries, then every path of it.
const BASE: &str = r#"
mkdir -p .git/info
printf '* -text -ident !eol !filter !working-tree-encoding\n' > .git/info/attributes
export GIT_INDEX_FILE=$PWD/.git/clawrl.base
git read-tree HEAD
git add -A .
base=$(git write-tree)
set -- $(du -sk . | cut -f 1) $(find . | wc -l)
echo "$base $1 $2"
git ls-tree -r -t -z --name-only "$base"
"#;

/// `$1` is the folder with the agent's tree, `$2` the fresh repository's. Prints the differences.
const COMPARED: &str = r#"
repository=$PWD
export GIT_INDEX_FILE=$repository/.git/clawrl.submitted
git read-tree "$2"
cd "$1"
find . -type f -size +16384 -print0 | while IFS= read -r -d '' file; do
    cmp -s "$file" "$repository/$file" || exit 52
done
git --git-dir="$repository/.git" --work-tree="$1" add -A --ignore-errors . >/dev/null || [ $? = 1 ]
cd "$repository"
submitted=$(git write-tree)
git diff-tree -r -z --no-renames "$2" "$submitted"
"#;

/// The same for a diff on standard input; `$1` is the fresh repository's tree.
const PATCHED: &str = r#"
export GIT_INDEX_FILE=$PWD/.git/clawrl.submitted
git read-tree "$1"
git apply --cached --whitespace=nowarn - || exit 51
submitted=$(git write-tree)
git diff-tree -r -z --no-renames "$1" "$submitted"
"#;

/// `$1` is the fresh repository's tree, standard input the changes to it. Prints them as a diff.
const COUNTED: &str = r#"
export GIT_INDEX_FILE=$PWD/.git/clawrl.final
git read-tree "$1"
git update-index -z --index-info
git diff --cached --binary --no-color --no-ext-diff --no-textconv --no-renames "$1"
"#;

/// Applies them to the repository.
const ADOPTED: &str = r#"
final=$(GIT_INDEX_FILE=$PWD/.git/clawrl.final git write-tree)
mv .git/clawrl.base .git/index
git read-tree --reset -u "$final"
rm -f .git/clawrl.submitted .git/clawrl.final
"#;

/// Mode of a repository within the repository.
const SUBMODULE: &[u8] = b"160000";
const NO_FILE: &[u8] = b"000000";
const LINK: &[u8] = b"120000";

#[derive(Debug)]
pub(crate) enum SubmittedWork<'a> {
    /// Its workspace.
    Tree(Arc<SafeDir>),
    /// A unified diff against the base commit.
    Patch(&'a str),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Submission {
    /// As a unified diff; lossy if not UTF-8.
    pub(crate) patch: String,
    /// Changed files that count.
    pub(crate) kept: usize,
    /// Changed files that are left out without a flag.
    pub(crate) left_out: usize,
    /// Changed files that the task protects.
    pub(crate) tampered: Vec<String>,
    /// Entries of the agent's tree that could not be copied.
    pub(crate) not_copied: u64,
}

/// Why there is nothing to test, for a report; the flag is for the grade.
#[derive(Debug)]
pub(crate) struct RejectedSubmission {
    pub(crate) flag: &'static str,
    pub(crate) message: String,
}

/// The fresh repository, before changes are applied.
#[derive(Debug)]
pub(crate) struct BaseTree {
    pub(crate) tree: String,
    bytes: u64,
    entries: u64,
    /// Paths of its files and folders.
    pub(crate) paths: HashSet<Vec<u8>>,
}

impl BaseTree {
    /// Records the fresh repository.
    ///
    /// # Errors
    /// A [`Fault`]
    pub(crate) async fn of(fresh: &dyn Sandbox, deadline: Instant) -> Result<Self, Fault> {
        let script = Script { output_cap: LIST_CAP, ..Script::new(BASE, deadline) };
        let output = script.expect(fresh, "reading the repository").await?;
        Self::parse(&output).ok_or_else(unknown_output)
    }

    fn parse(output: &[u8]) -> Option<Self> {
        let line = memchr::memchr(b'\n', output)?;
        let mut words = std::str::from_utf8(&output[..line]).ok()?.split(' ');
        Some(Self {
            tree: words.next()?.to_owned(),
            bytes: words.next()?.parse::<u64>().ok()? << 10,
            entries: words.next()?.parse().ok()?,
            paths: output[line + 1..].split(|&byte| byte == 0).map(<[u8]>::to_vec).collect(),
        })
    }
}

fn unknown_output() -> Fault {
    Fault::permanent(Boundary::Grader, "git-output", "unexpected output of git's list of changes")
}

/// Applies the agent's work to the fresh repository.
///
/// # Errors
/// The inner error says what is wrong with the submission.
pub(crate) async fn adopt(
    left: SubmittedWork<'_>,
    fresh: &dyn Sandbox,
    base: &BaseTree,
    spec: &SweSpec,
    protection: &Protection<'_>,
    deadline: Instant,
) -> Result<Result<Submission, RejectedSubmission>, Fault> {
    let mut submission = Submission::default();
    let arguments: [&str; 2];
    let script = match left {
        SubmittedWork::Tree(tree) => {
            match bring(tree, fresh, base, &spec.workspace).await? {
                Ok(not_copied) => submission.not_copied = not_copied,
                Err(refused) => return Ok(Err(refused)),
            }
            arguments = [FOLDER, &base.tree];
            Script { arguments: &arguments, ..Script::new(COMPARED, deadline) }
        }
        SubmittedWork::Patch(patch) if patch.len() > PATCH_CAP => {
            let message = format!("the patch has {} bytes, at most {PATCH_CAP} are read", patch.len());
            return Ok(Err(RejectedSubmission { flag: "too-large", message }));
        }
        SubmittedWork::Patch(patch) if patch.trim().is_empty() => {
            let message = "the patch is empty".to_owned();
            return Ok(Err(RejectedSubmission { flag: "patch-rejected", message }));
        }
        SubmittedWork::Patch(patch) => {
            arguments = [&base.tree, ""];
            let input = patch.as_bytes().to_vec();
            Script { arguments: &arguments, input, ..Script::new(PATCHED, deadline) }
        }
    };
    let compared = match run(script, fresh, LIST_CAP, "comparing the submission").await? {
        Ok(compared) => compared,
        Err(refused) => return Ok(Err(refused)),
    };
    if compared.len() >= LIST_CAP {
        let message = "more files were changed than are read".to_owned();
        return Ok(Err(RejectedSubmission { flag: "too-large", message }));
    }
    let changes = listed(&compared).ok_or_else(unknown_output)?;
    let installed = installed(&changes, fresh, spec, protection, deadline).await?;
    let mut counted = counted(&changes, protection, &installed);
    keep_runner_config(&mut counted, fresh, spec, deadline).await?;
    submission.kept = counted.iter().filter(|(_, disposition)| *disposition == PathDisposition::Kept).count();
    submission.left_out =
        counted.iter().filter(|(_, disposition)| *disposition == PathDisposition::Excluded).count();
    let tampered = counted.iter().filter(|(_, disposition)| *disposition == PathDisposition::Tampered);
    submission.tampered =
        tampered.map(|(change, _)| String::from_utf8_lossy(change.path).into_owned()).collect();
    let arguments = [base.tree.as_str()];
    let input = index_info(&counted);
    let script = Script { arguments: &arguments, input, ..Script::new(COUNTED, deadline) };
    let patch = match run(script, fresh, PATCH_CAP + 1, "counting the submission").await? {
        Ok(patch) => patch,
        Err(refused) => return Ok(Err(refused)),
    };
    if patch.len() > PATCH_CAP {
        let message = format!("the submission is a diff of more than {PATCH_CAP} bytes");
        return Ok(Err(RejectedSubmission { flag: "too-large", message }));
    }
    let script = Script::new(ADOPTED, deadline);
    if let Err(refused) = run(script, fresh, 64 << 10, "applying the submission to the repository").await? {
        return Ok(Err(refused));
    }
    submission.patch = String::from_utf8_lossy(&patch).into_owned();
    Ok(Ok(submission))
}

/// Exit codes of programs that were killed for lack of memory, or of space under a mapped file.
const KILLED: i32 = 128 + 9;
const BUS_ERROR: i32 = 128 + 7;

/// Messages of programs for the same.
const NO_ROOM: &[&str] = &["No space left on device", "unable to write file", "Bus error", "Killed"];

/// Runs a script on a submission. There is space for the repository, so a lack of space is the submission's fault.
async fn run(
    script: Script<'_>,
    fresh: &dyn Sandbox,
    output_cap: usize,
    what: &str,
) -> Result<Result<Vec<u8>, RejectedSubmission>, Fault> {
    let output = Script { output_cap, ..script }.run(fresh).await.map_err(Fault::from)?;
    let said = |words: &&str| memchr::memmem::find(&output.stderr, words.as_bytes()).is_some();
    let refused = |flag, message: String| Ok(Err(RejectedSubmission { flag, message }));
    match output.code {
        Some(0) => Ok(Ok(output.stdout)),
        Some(DOES_NOT_APPLY) => {
            refused("patch-rejected", format!("the patch does not apply: {}", last_lines(&output.stderr)))
        }
        Some(FILE_TOO_LARGE) => {
            refused("too-large", format!("the submission changes a file of more than {PATCH_CAP} bytes"))
        }
        Some(KILLED | BUS_ERROR) => {
            refused("too-large", "the submission needs more memory than the task has".to_owned())
        }
        Some(_) if NO_ROOM.iter().any(said) => {
            refused("too-large", "the submission has no room beside the repository".to_owned())
        }
        code => Err(failed(what, code, &output)),
    }
}

/// Copies the agent's tree beside the fresh repository, without anything named `.git` (U1).
async fn bring(
    tree: Arc<SafeDir>,
    fresh: &dyn Sandbox,
    base: &BaseTree,
    spec: &WorkspaceSpec,
) -> Result<Result<u64, RejectedSubmission>, Fault> {
    // Content that was already there is not the agent's doing.
    let usual = TreeBounds::default();
    let bounds = TreeBounds {
        bytes: base.bytes + (u64::from(spec.limits.disk_mib) << 20),
        entries: base.entries + usual.entries,
        ..usual
    };
    let exclude = Exclusions::new([".git"]);
    // The repository's owner must be able to read it, and the agent is.
    let copied = fresh.fill(FillRequest { tree, folder: Some(FOLDER.to_owned()), exclude, bounds }).await?;
    match copied {
        Ok(report) => Ok(Ok(report.skipped.count())),
        Err(error) if error.is_infrastructure() => Err(copy_fault(&error)),
        Err(error) => {
            let message = format!("the repository that the agent left cannot be copied: {error}");
            Ok(Err(RejectedSubmission { flag: error.flag().unwrap_or("copy-incomplete"), message }))
        }
    }
}

fn copy_fault(error: &TreeError) -> Fault {
    let fault = Fault::transient(Boundary::Grader, "workspace-copy-failed", error.to_string());
    if error.is_lasting() { Fault::permanent(Boundary::Grader, &fault.code, fault.message) } else { fault }
}

/// Those of the new modules that Python finds without the submission. Run where nothing of the submission is on its
/// path.
async fn installed(
    changes: &[ChangedPath<'_>],
    fresh: &dyn Sandbox,
    spec: &SweSpec,
    protection: &Protection<'_>,
    deadline: Instant,
) -> Result<HashSet<String>, Fault> {
    let names: BTreeSet<&str> =
        changes.iter().flat_map(|change| protection.new_module(change.path, change.kind())).collect();
    if names.is_empty() {
        return Ok(HashSet::new());
    }
    let activate = spec.activate.as_deref().unwrap_or_default();
    // Only a missing program prints nothing: then nothing is imported either.
    let text = format!(
        "set +e\nrepository=$PWD\nexec 3>&1 >&2\n{activate}\ncd \"$repository\"\n\
         python=$(command -v python3 || command -v python) || exit 0\nexec \"$python\" -B -c \"$@\" >&3"
    );
    let arguments: Vec<&str> = std::iter::once(HAS_MODULES).chain(protection.roots()).collect();
    let input = names.into_iter().collect::<Vec<_>>().join("\n").into_bytes();
    let script = Script {
        arguments: &arguments,
        input,
        variables: Some(&spec.workspace.env),
        output_cap: LIST_CAP,
        ..Script::new(&text, deadline)
    };
    let output = script.expect(fresh, "listing Python's modules").await?;
    Ok(String::from_utf8_lossy(&output).split_whitespace().map(str::to_owned).collect())
}

/// Prints the content of the objects on standard input.
const SHOWN: &str = "git cat-file --batch";

/// Restores files that configure a runner among other things, if the runner's part of them changed.
async fn keep_runner_config(
    counted: &mut [(ChangedPath<'_>, PathDisposition)],
    fresh: &dyn Sandbox,
    spec: &SweSpec,
    deadline: Instant,
) -> Result<(), Fault> {
    let mut read: Vec<(&mut PathDisposition, ChangedPath<'_>, ConfigParts)> = Vec::new();
    for (change, disposition) in
        counted.iter_mut().filter(|(_, disposition)| *disposition == PathDisposition::Kept)
    {
        if let Some(parts) = parts(spec.tests.parser, change.path) {
            read.push((disposition, *change, parts));
        }
    }
    if read.is_empty() {
        return Ok(());
    }
    let mut input = Vec::new();
    for (_, change, _) in &read {
        for object in [change.old_object, change.object] {
            input.extend_from_slice(object);
            input.push(b'\n');
        }
    }
    let script = Script { input, output_cap: LIST_CAP, ..Script::new(SHOWN, deadline) };
    let output = script.expect(fresh, "reading the runner's configuration").await?;
    let mut rest = output.as_slice();
    for (disposition, change, parts) in read {
        let (before, after) = (content(&mut rest), content(&mut rest));
        // A link does not show its target's content, and truncated content is unknown.
        let unknown = change.new_mode == LINK || before.is_none() || after.is_none();
        if unknown || parts.differ(before.unwrap_or_default(), after.unwrap_or_default()) {
            *disposition = PathDisposition::Tampered;
        }
    }
    Ok(())
}

/// One object: `NAME blob SIZE`, then the content; `NAME missing` if there is no file.
fn content<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(b'\n', rest)?;
    let (head, after) = (&rest[..end], &rest[end + 1..]);
    let size: Option<usize> = match head.strip_suffix(b" missing") {
        Some(_) => None,
        None => Some(std::str::from_utf8(head).ok()?.rsplit(' ').next()?.parse().ok()?),
    };
    let size = size.unwrap_or_default();
    let content = after.get(..size)?;
    *rest = if head.ends_with(b" missing") { after } else { after.get(size + 1..)? };
    Some(content)
}

/// A changed path in git's listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChangedPath<'a> {
    old_mode: &'a [u8],
    new_mode: &'a [u8],
    old_object: &'a [u8],
    object: &'a [u8],
    path: &'a [u8],
}

impl ChangedPath<'_> {
    fn kind(&self) -> Change {
        match (self.old_mode, self.new_mode) {
            (NO_FILE, LINK) => Change::AddedLink,
            (NO_FILE, _) => Change::Added,
            _ => Change::ChangedOrDeleted,
        }
    }
}

/// `:OLD NEW OBJECT OBJECT STATUS\0PATH\0` for each.
fn listed(output: &[u8]) -> Option<Vec<ChangedPath<'_>>> {
    let mut parts = output.split(|&byte| byte == 0);
    let mut changes = Vec::new();
    while let Some(head) = parts.next().filter(|head| !head.is_empty()) {
        let mut fields = head.strip_prefix(b":")?.split(|&byte| byte == b' ');
        let (old_mode, new_mode) = (fields.next()?, fields.next()?);
        let (old_object, object) = (fields.next()?, fields.next()?);
        let path = parts.next().filter(|path| !path.is_empty())?;
        changes.push(ChangedPath { old_mode, new_mode, old_object, object, path });
    }
    Some(changes)
}

/// How each is treated. A change that blocks an unchanged path, such as a link in place of its folder, is treated like
/// that path.
fn counted<'a>(
    changes: &[ChangedPath<'a>],
    protection: &Protection<'_>,
    installed: &HashSet<String>,
) -> Vec<(ChangedPath<'a>, PathDisposition)> {
    let disposition = |change: &ChangedPath<'a>| {
        // A nested repository is not part of the submission, nor is anything in its place.
        if change.old_mode == SUBMODULE || change.new_mode == SUBMODULE {
            return PathDisposition::Excluded;
        }
        protection.disposition(change.path, change.kind(), installed)
    };
    let mut counted: Vec<_> = changes.iter().map(|change| (*change, disposition(change))).collect();
    let mut restored: HashMap<&[u8], PathDisposition> = HashMap::new();
    let mut above_restored: HashMap<&[u8], PathDisposition> = HashMap::new();
    for (change, disposition) in &counted {
        if *disposition != PathDisposition::Kept && change.old_mode != NO_FILE {
            restored.insert(change.path, *disposition);
            above_restored.extend(folders_above(change.path).map(|folder| (folder, *disposition)));
        }
    }
    for (change, disposition) in &mut counted {
        if *disposition == PathDisposition::Kept {
            let in_the_way = above_restored
                .get(change.path)
                .or_else(|| folders_above(change.path).find_map(|folder| restored.get(folder)));
            *disposition = in_the_way.copied().unwrap_or(PathDisposition::Kept);
        }
    }
    counted
}

fn folders_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    memchr::memchr_iter(b'/', path).map(|at| &path[..at])
}

/// The changes that count, for `git update-index --index-info -z`.
fn index_info(counted: &[(ChangedPath<'_>, PathDisposition)]) -> Vec<u8> {
    let mut input = Vec::new();
    // Deletions first, to make room for additions: a folder in place of a file, or the other way round.
    let kept = || {
        counted
            .iter()
            .filter(|(_, disposition)| *disposition == PathDisposition::Kept)
            .map(|(change, _)| change)
    };
    let gone = kept().filter(|change| change.new_mode == NO_FILE);
    let there = kept().filter(|change| change.new_mode != NO_FILE);
    for change in gone.chain(there) {
        for part in [change.new_mode, b" ", change.object, b"\t", change.path, b"\0"] {
            input.extend_from_slice(part);
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use clawrl_core::LogParser;

    use super::*;
    use crate::protection::TestDeclaration;
    use crate::resolution::ExpectedTests;

    /// Changes by letter: `A` added, `M` changed, `D` deleted, `S` a submodule that became a file, `L` added as a link.
    fn check(changes: &[(char, &str)], expected: &[PathDisposition]) {
        let modes = |letter| match letter {
            'A' => ("000000", "100644"),
            'L' => ("000000", "120000"),
            'D' => ("100644", "000000"),
            'S' => ("160000", "100644"),
            _ => ("100644", "100755"),
        };
        let mut output = Vec::new();
        for (letter, path) in changes {
            let (old, new) = modes(*letter);
            output.extend(format!(":{old} {new} 1111 2222 {letter}\0{path}\0").bytes());
        }
        let changes = listed(&output).unwrap();
        let (base, tests) = (HashSet::new(), ExpectedTests::default());
        let deciding =
            TestDeclaration { parser: LogParser::Unittest, run: "", patterns: &[], expected: &tests };
        let protection = Protection::new(deciding, ["tests/test_new.py".to_owned()], &base).unwrap();
        let counted = counted(&changes, &protection, &HashSet::new());
        let dispositions: Vec<PathDisposition> =
            counted.iter().map(|(_, disposition)| *disposition).collect();
        assert_eq!(dispositions, expected, "{changes:?}");
        let kept = counted.iter().filter(|(_, disposition)| *disposition == PathDisposition::Kept).count();
        let lines = index_info(&counted).iter().filter(|&&byte| byte == 0).count();
        assert_eq!(lines, kept, "{changes:?}");
    }

    #[test]
    fn u2_paths_decide_what_counts() {
        use PathDisposition::{Excluded, Kept, Tampered};
        check(&[], &[]);
        check(&[('M', "a.py"), ('D', "b.py"), ('A', "c d/é.py")], &[Kept, Kept, Kept]);
        check(&[('M', "tests/test_a.py"), ('A', "tests/test_mine.py")], &[Tampered, Excluded]);
        check(&[('S', "vendored"), ('A', "vendored/x.c")], &[Excluded, Excluded]);
        // A link, or a file, in place of a folder with tests.
        check(&[('L', "tests"), ('D', "tests/test_a.py")], &[Tampered, Tampered]);
        check(&[('L', "tests")], &[Tampered]);
        check(&[('A', "other")], &[Kept]);
    }

    #[test]
    fn object_contents_parse_in_sequence() {
        let mut rest = b"aa blob 3\nx\ny\n0000 missing\nbb blob 0\n\n".as_slice();
        assert_eq!([(); 3].map(|()| content(&mut rest)), [Some(b"x\ny".as_slice()), Some(b""), Some(b"")]);
        assert!(rest.is_empty());
        for cut in ["aa blob 3\nx", "aa", "aa blob x\n", "aa blob 99999999999999999999\n"] {
            assert_eq!(content(&mut cut.as_bytes()), None, "{cut}");
        }
    }

    #[test]
    fn a_list_that_git_did_not_write_is_refused() {
        for output in ["x\0y\0", ":1 2 3\0y\0", ":1 2 3 4 A\0"] {
            assert_eq!(listed(output.as_bytes()), None, "{output:?}");
        }
        assert_eq!(listed(b""), Some(Vec::new()));
        assert!(BaseTree::parse(b"").is_none() && BaseTree::parse(b"aaaa 1\n").is_none());
        let base = BaseTree::parse(b"aaaa 2 3\nsrc\0src/a\0").unwrap();
        assert_eq!((base.tree.as_str(), base.bytes, base.entries), ("aaaa", 2048, 3));
        assert!(base.paths.contains(b"src/a".as_slice()));
    }
}
