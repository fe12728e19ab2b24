//! Turns pages into tasks of a suite.

use clawrl_config::{Node, NodeValue, Problem};
use serde_json::json;

use super::needed::needed;
use super::options::MiniwobOptions;
use super::package::Package;
use super::traits::note;
use crate::draft::{Fixture, FixtureSource, SuiteParts, text, whole};
use crate::findings::Findings;

/// Number of possible episodes.
const EPISODES: i64 = 999_999;

/// A page has 160 by 210 pixels; menus may open beyond it.
const VIEWPORT: [u64; 2] = [500, 320];

/// The common part of the instructions: what pages show besides their task.
const HIDDEN: [&str; 3] = ["#reward-display", "#click-canvas", "#sync-task-cover"];

const INSTRUCTION: &str = "Do what the first text of the page asks for. Reply with one line: `click N`, `double N`, \
    `hover N`, `type N TEXT`, `enter N TEXT` (types and presses Enter), `select N LABEL`, `press KEYS`, `drag N M`, `scroll N down`, \
    `wait SECONDS`, or `submit` to end. N is the number of an element, as in [3], or a point, as in 40,60.";

/// Makes the tasks. `None` if there is a problem; it goes to the findings.
pub(crate) fn make(options: &MiniwobOptions, findings: &mut Findings) -> Option<SuiteParts> {
    let package = Package::read(options, findings)?;
    let families = chosen(&package, &options.families, findings);
    let pages: Vec<String> = families.iter().map(|family| format!("miniwob/{family}.html")).collect();
    let site = needed(&package.files, &pages);
    let mut fixtures: Vec<Fixture> = site
        .iter()
        .filter_map(|path| {
            Some(fixture(format!("fixtures/miniwob/{path}"), package.files.get(path)?.clone()))
        })
        .collect();
    fixtures.extend(package.licence.map(|content| fixture("fixtures/LICENSE".to_owned(), content)));
    let notes: Vec<(String, String)> =
        families.iter().filter_map(|family| Some((family.clone(), note(family)?.to_owned()))).collect();
    let (archive, sha256) = package.archive.unzip();
    let is_solved = |family: &&String| options.solved.contains(*family);
    Some(SuiteParts {
        head: head(options),
        tasks: families.iter().map(|family| task(family, is_solved(&family), options.episodes)).collect(),
        fixtures,
        records: vec![json!({
            "package": "miniwob", "archive": archive, "sha256": sha256, "families": families.len(), "files": site.len(),
            "solved": families.iter().filter(is_solved).count(),
            "notes": notes.iter().map(|(family, note)| json!({ "family": family, "note": note })).collect::<Vec<_>>(),
        })],
        count: Some(families.len() * options.episodes),
        ids: families,
        notes,
    })
}

/// The selected pages; all if none is named.
fn chosen(package: &Package, names: &[String], findings: &mut Findings) -> Vec<String> {
    let known: Vec<&str> = package.families().collect();
    for name in names.iter().filter(|name| !known.contains(&name.as_str())) {
        let near: Vec<&str> =
            known.iter().copied().filter(|one| one.contains(name.as_str())).take(8).collect();
        let help = match near.as_slice() {
            [] => format!(
                "there are {} pages; the first is `{}`",
                known.len(),
                known.first().unwrap_or(&"none")
            ),
            near => format!("there is {}", near.join(", ")),
        };
        findings.adopt(&Problem::new(format!("there is no page `{name}`"), help).into());
    }
    let is_chosen = |family: &&str| names.is_empty() || names.iter().any(|name| name == family);
    known.into_iter().filter(is_chosen).map(str::to_owned).collect()
}

fn fixture(path: String, content: Vec<u8>) -> Fixture {
    Fixture { path, content: FixtureSource::Bytes(content), mode: 0o644 }
}

fn head(options: &MiniwobOptions) -> Vec<(&'static str, Node)> {
    let list = |texts: &[&str]| NodeValue::List(texts.iter().map(|one| text(one)).collect()).into();
    let site = Node::map(vec![("folder", "fixtures/miniwob".into())]);
    let gui = Node::map(vec![
        ("sites", Node::map(vec![("miniwob", site)])),
        ("end_when", "WOB_DONE_GLOBAL".into()),
        ("hidden", list(&HIDDEN)),
        ("viewport", NodeValue::List(VIEWPORT.map(whole).to_vec()).into()),
    ]);
    let entries =
        vec![("max_turns", whole(options.max_turns.into())), ("env", Node::map(vec![("gui", gui)]))];
    vec![("defaults", Node::map(entries))]
}

fn task(family: &str, is_solved: bool, episodes: usize) -> Node {
    let one = |node: Node| Node::from(NodeValue::List(vec![node]));
    let range = NodeValue::List(vec![whole(0), NodeValue::Integer(EPISODES).into()]);
    // The shortest and the longest limit fit into a browser's timer.
    let prepare = "Math.seedrandom('{{ episode }}'); core.EPISODE_MAX_TIME = 1e9; core.startEpisodeReal()";
    let gui = Node::map(vec![
        ("start", format!("/miniwob/{family}.html").as_str().into()),
        ("prepare", one(prepare.into())),
    ]);
    let reward = Node::map(vec![
        ("expression", "WOB_RAW_REWARD_GLOBAL".into()),
        ("lowest", NodeValue::Integer(-1).into()),
        ("highest", whole(1)),
    ]);
    let solver = |name: &str| Node::map(vec![("solver", name.into())]);
    let mut entries = vec![
        ("id", family.into()),
        ("template", Node::map(vec![("episode", Node::map(vec![("range", range.into())]))])),
        ("instances", whole(episodes as u64)),
        ("instruction", text(INSTRUCTION)),
        ("env", Node::map(vec![("gui", gui)])),
        ("checks", one(Node::map(vec![("page_reward", reward)]))),
    ];
    if is_solved {
        entries.push(("oracle", solver("miniwob")));
    }
    entries.push(("mistakes", one(solver("random-click"))));
    Node::map(entries)
}
