//! Plans of valid suites.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use clawrl_config::{
    BrowserPlace, HostCapacity, PlanOptions, Resource, Suite, describe_plan, load_policy, load_suite,
    resolve_plan,
};
use clawrl_core::{
    ActionFormat, Check, EnvSpec, FixtureContent, ImageSource, PolicySpec, RunId, RunPlan, Split, TaskSpec,
    TestNames, TestScore,
};
use proptest::prelude::*;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::diagnostics::rendered;

pub(crate) fn host() -> HostCapacity {
    HostCapacity {
        cpus: 2,
        memory_available_mib: 12_000,
        ptys_free: 4_000,
        pids_free: 30_000,
        open_files: 65_536,
        browsers: BrowserPlace::Here,
    }
}

pub(crate) fn options() -> PlanOptions {
    PlanOptions::new(RunId::new("test").expect("a good name"), PolicySpec::Noop, host())
}

pub(crate) fn load(path: &str) -> Suite {
    match load_suite(Path::new(path)) {
        Ok(suite) => suite,
        Err(error) => panic!("{}", rendered(&error)),
    }
}

fn everything() -> [Suite; 1] {
    [load("tests/it/good/everything")]
}

pub(crate) fn plan(suites: &[Suite], options: &PlanOptions) -> RunPlan {
    match resolve_plan(suites, options) {
        Ok(plan) => plan,
        Err(error) => panic!("{}", rendered(&error)),
    }
}

/// Removes the folder of this checkout and the effect of its umask.
pub(crate) fn portable(text: &str) -> String {
    let root = std::fs::canonicalize(".").expect("the folder of the crate");
    let root = root.to_str().expect("a UTF-8 path");
    text.replace(root, "ROOT")
        .replace("\"mode\": 436", "\"mode\": 420")
        .replace("\"mode\": 509", "\"mode\": 493")
}

pub(crate) fn pretty(task: &TaskSpec) -> String {
    portable(&serde_json::to_string_pretty(task).expect("JSON"))
}

#[test]
fn every_key_of_the_format_arrives_in_the_plan() {
    let suites = everything();
    assert!(suites[0].warnings().is_empty());
    let plan = plan(&suites, &options());
    insta::assert_snapshot!("everything_drawn_0", pretty(&plan.tasks[0]));
    insta::assert_snapshot!("everything_every_one_0", pretty(&plan.tasks[5]));
}

#[test]
fn images_and_verifiers_arrive_in_the_plan() {
    let suites = [load("tests/it/good/images")];
    assert_eq!(suites[0].warnings().len(), 2, "one for each network that is open");
    let plan = plan(&suites, &options());
    let told = |id: &str| {
        let task = plan.tasks.iter().find(|task| task.id.0 == format!("images/{id}")).expect("a task");
        let EnvSpec::Terminal(terminal) = &task.env else { panic!("not a terminal") };
        let told = (
            &terminal.sandbox,
            &terminal.network,
            &terminal.image,
            &task.verifier,
            task.checks.len(),
            task.timeouts.grade,
        );
        portable(&serde_json::to_string_pretty(&told).expect("JSON"))
    };
    insta::assert_snapshot!("images_unpacked", told("unpacked"));
    insta::assert_snapshot!("images_named", told("named#1"));
    insta::assert_snapshot!("images_built", told("built"));
    let both = told("both");
    assert!(both.contains("/tests/test.sh") && both.contains("\"reward_key\": \"accuracy\""), "{both}");
}

/// A plan that was stored before images existed has no image fields, and is still read.
#[test]
fn plans_without_images_stay_as_they_were() {
    let plan = plan(&everything(), &options());
    let text = serde_json::to_string(&plan.tasks[0]).expect("JSON");
    assert!(!text.contains("\"image\"") && !text.contains("\"verifier\""), "{text}");
    let again: TaskSpec = serde_json::from_str(&text).expect("a task");
    assert_eq!(again, *plan.tasks[0]);
}

#[test]
fn a_judge_is_in_the_plan_where_one_is_asked() {
    let judge = load_policy(Path::new("tests/it/policy/good/minimal.yaml")).expect("a good policy file");
    let named = PlanOptions { judge: Some(Box::new(judge.clone())), ..options() };
    let rubrics = plan(&[load("tests/it/good/rubric")], &named);
    assert_eq!(rubrics.judge.as_deref(), Some(&judge.judging()));
    let check = &rubrics.tasks[0].checks[0];
    let rubric = |text: &str, votes| Check::Rubric { rubric: text.to_owned(), votes };
    assert_eq!((&check.check, check.weight), (&rubric("It greets Ann.", 5), 2.0));
    assert_eq!(rubrics.tasks[0].checks[1].check, rubric("It is short.", 3));
    assert_eq!(plan(&[load("tests/it/good/minimal")], &named).judge, None);
}

/// Semantics lock: the defaults of a task. Change them only on purpose.
#[test]
fn defaults_are_locked() {
    let suite = load("tests/it/good/minimal");
    assert_eq!(suite.families()[0].group_size, 8);
    insta::assert_snapshot!("minimal_hello", pretty(&plan(&[suite], &options()).tasks[0]));
}

#[test]
fn ids_name_suite_family_and_instance() {
    let plan = plan(&everything(), &options());
    let ids: Vec<&str> = plan.tasks.iter().map(|task| task.id.0.as_str()).collect();
    assert_eq!(ids[..3], ["everything/drawn#0", "everything/drawn#1", "everything/drawn#2"]);
    assert_eq!(ids[5..11].len(), 6, "every combination of two sides and three numbers");
    assert_eq!(ids[5..7], ["everything/every-one#0", "everything/every-one#1"]);
    assert_eq!(ids.last(), Some(&"everything/plain"));
    assert_eq!(ids.len(), 5 + 6 + 90 + 1);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

#[test]
fn a_plan_survives_json() {
    let options = PlanOptions { group_size: 2, repeats: 2, max_faults: Some(3), ..options() };
    let plan = plan(&everything(), &options);
    let json = serde_json::to_string(&plan).expect("JSON");
    assert_eq!(serde_json::from_str::<RunPlan>(&json).expect("a plan"), plan);
}

/// I3 of the plan: suite, task, repeat, member; groups adjacent, with one environment seed.
#[test]
fn slots_are_in_order_and_groups_adjacent() {
    let suites = [load("tests/it/good/minimal"), load("tests/it/good/everything")];
    let options = PlanOptions { group_size: 3, repeats: 2, ..options() };
    let plan = plan(&suites, &options);
    assert_eq!(plan.slots.len(), plan.tasks.len() * 6);
    let mut policy_seeds = BTreeSet::new();
    let mut env_seeds = BTreeSet::new();
    for (at, slot) in plan.slots.iter().enumerate() {
        assert_eq!(slot.id.0 as usize, at);
        assert_eq!(slot.group.0 as usize, at / 3);
        assert_eq!(slot.member as usize, at % 3);
        assert_eq!(slot.task.0 as usize, at / 6);
        assert_eq!(slot.suite, u32::from(slot.task.0 > 0));
        assert_eq!(slot.env_seed, plan.slots[at - at % 3].env_seed);
        env_seeds.insert(slot.env_seed);
        policy_seeds.insert(slot.policy_seed);
    }
    assert_eq!(env_seeds.len(), plan.slots.len() / 3);
    assert_eq!(policy_seeds.len(), plan.slots.len());
}

/// I2 of the plan: a task and its seeds do not depend on the other tasks of a run.
#[test]
fn tasks_do_not_depend_on_what_else_is_selected() {
    let suites = [load("tests/it/good/everything"), load("tests/it/good/minimal")];
    let all = plan(&suites, &PlanOptions { seed: 7, ..options() });
    let by_id: BTreeMap<_, _> = all
        .slots
        .iter()
        .map(|slot| {
            (all.task_of(slot).id.clone(), (all.task_of(slot).clone(), slot.env_seed, slot.policy_seed))
        })
        .collect();
    let selections = [
        PlanOptions { filter: vec!["drawn#3".to_owned(), "minimal/*".to_owned()], seed: 7, ..options() },
        PlanOptions { limit: Some(3), seed: 7, ..options() },
        PlanOptions { split: Split::HeldOut, seed: 7, ..options() },
    ];
    for options in selections {
        let some = plan(&suites, &options);
        assert!(some.tasks.len() < all.tasks.len());
        for slot in &some.slots {
            let task = some.task_of(slot);
            assert_eq!(by_id[&task.id], (task.clone(), slot.env_seed, slot.policy_seed));
        }
    }
}

#[test]
fn filters_limits_and_splits_select() {
    let suites = everything();
    let ids = |options: PlanOptions| {
        let plan = plan(&suites, &options);
        plan.tasks.iter().map(|task| task.id.0.replace("everything/", "")).collect::<Vec<_>>().join(" ")
    };
    let filter = |patterns: &[&str]| PlanOptions {
        filter: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
        ..options()
    };
    assert_eq!(ids(filter(&["plain"])), "plain");
    assert_eq!(ids(filter(&["everything/pl*", "every-one#5"])), "every-one#5 plain");
    assert_eq!(ids(filter(&["drawn"])), "drawn#0 drawn#1 drawn#2 drawn#3 drawn#4");
    assert_eq!(
        ids(PlanOptions { limit: Some(6), ..options() }),
        "drawn#0 drawn#1 every-one#0 every-one#1 all-of-many#0 plain"
    );
    let train = plan(&suites, &PlanOptions { split: Split::Train, ..options() });
    let held_out = plan(&suites, &PlanOptions { split: Split::HeldOut, ..options() });
    assert_eq!(train.tasks.len() + held_out.tasks.len(), 102);
    assert!(train.tasks.iter().all(|task| Split::Train.contains(&task.family, &task.instruction)));
}

/// The same instruction, and another page each time.
#[test]
fn tasks_with_pages_are_split_by_what_prepares_these() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("suite.yaml");
    let text = "format: 1\nsuite: pages\ntasks:\n  - id: one\n    template: { episode: { range: [1, 60] } }\n    \
                instruction: click\n    env: { gui: { sites: { a: { files: { index.html: a } } }, prepare: [\"begin({{ \
                episode }})\"] } }\n    checks: [{ page_url: a }]\n";
    std::fs::write(&path, text).expect("a file");
    let suites = [load_suite(&path).unwrap_or_else(|error| panic!("{}", rendered(&error)))];
    let of = |split| plan(&suites, &PlanOptions { split, ..options() }).tasks;
    let (train, held_out) = (of(Split::Train), of(Split::HeldOut));
    assert_eq!(train.len() + held_out.len(), 60);
    assert!((4..30).contains(&held_out.len()), "{}", held_out.len());
    assert!(held_out.iter().all(|task| Split::HeldOut.contains(&task.family, &task.asked())));
}

#[test]
fn instances_are_distinct_and_follow_the_seed() {
    let suites = everything();
    let drawn = |seed| {
        let options = PlanOptions { seed, filter: vec!["drawn".to_owned()], ..options() };
        let plan = plan(&suites, &options);
        plan.tasks.iter().map(|task| task.instruction.clone()).collect::<Vec<_>>()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    assert_eq!(drawn(1).iter().collect::<BTreeSet<_>>().len(), 5);
}

#[test]
fn settings_fall_back_key_by_key() {
    let plan = plan(&everything(), &options());
    let (drawn, plain) = (&plan.tasks[0], plan.tasks.last().expect("tasks"));
    assert_eq!((drawn.max_turns, plain.max_turns), (8, 12));
    assert_eq!((drawn.reward.scale, drawn.reward.offset), (2.0, 0.0));
    assert_eq!(drawn.timeouts.step, Duration::from_secs(20));
    assert_eq!(drawn.timeouts.attempt, Duration::from_secs(150));
    let (EnvSpec::Terminal(drawn), EnvSpec::Terminal(plain)) = (&drawn.env, &plain.env) else {
        panic!("terminals");
    };
    assert_eq!((drawn.limits.memory_mib, plain.limits.memory_mib), (128, 64));
    assert_eq!((drawn.size, plain.size), ((120, 30), (100, 24)));
    assert_eq!(plain.env["GREETING"], "hello");
    assert!(!drawn.env.contains_key("GREETING"), "a task's own map replaces that of the defaults");
}

#[test]
fn default_limits_shrink_to_a_short_attempt() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("suite.yaml");
    let text = std::fs::read_to_string("tests/it/good/minimal/suite.yaml").expect("a suite");
    std::fs::write(&path, format!("{text}    attempt_timeout_secs: 20\n")).expect("a file");
    let suite = load(path.to_str().expect("a UTF-8 path"));
    let timeouts = plan(&[suite], &options()).tasks[0].timeouts;
    let twenty = Duration::from_secs(20);
    assert_eq!([timeouts.setup, timeouts.step, timeouts.policy, timeouts.attempt], [twenty; 4]);
    assert_eq!(timeouts.grade, Duration::from_secs(60));
}

#[test]
fn concurrency_follows_the_host() {
    let suites = everything();
    let attempts = |options: PlanOptions| plan(&suites, &options).limits.concurrency;
    assert_eq!(attempts(options()), 64, "32 for each of two cores");
    assert_eq!(attempts(PlanOptions { limit: Some(3), ..options() }), 3, "no more than slots");
    assert_eq!(attempts(PlanOptions { concurrency: Some(100), ..options() }), 100);
    assert_eq!(attempts(PlanOptions { concurrency: Some(100), limit: Some(3), ..options() }), 3);
    let small = HostCapacity { open_files: 256, ..host() };
    assert_eq!(attempts(PlanOptions { host: small, ..options() }), 32);
    let prewarm = plan(&suites, &PlanOptions { prewarm: 500, ..options() }).limits.prewarm;
    assert_eq!(prewarm, 64, "no more ready than can run");
}

#[test]
fn plans_are_described_for_people_and_scripts() {
    let suites = [load("tests/it/good/everything"), load("tests/it/good/minimal")];
    let options = PlanOptions {
        group_size: 2,
        repeats: 2,
        filter: vec!["drawn".to_owned(), "plain".to_owned(), "hello".to_owned()],
        max_retries: 1,
        max_faults: Some(10),
        weights: [("minimal".to_owned(), 3)].into(),
        concurrency: Some(16),
        prewarm: 8,
        ..options()
    };
    let made = plan(&suites, &options);
    let summary = describe_plan(&made, &suites, &options);
    insta::assert_snapshot!("summary_text", portable(&summary.to_string()));
    let json = serde_json::to_string_pretty(&summary).expect("JSON");
    insta::assert_snapshot!("summary_json", portable(&json));
    assert_eq!(made.suites[1].weight, 3);

    let options = PlanOptions { filter: vec!["all-of-many".to_owned()], ..super::plans::options() };
    let summary = describe_plan(&plan(&suites[..1], &options), &suites[..1], &options);
    assert!(summary.concurrency.reason.starts_with("what the CPU cores of this host comfortably hold"));
}

#[test]
fn impossible_wishes_are_explained() {
    let suites = everything();
    let mut text = String::new();
    let mut refused = |what: &str, options: PlanOptions| {
        let error = resolve_plan(&suites, &options).expect_err(what);
        assert!(error.problems().iter().all(|problem| !problem.help_text().is_empty()));
        write!(text, "# {what}\n{}\n", rendered(&error)).expect("writing to a string");
    };
    refused(
        "zeros",
        PlanOptions {
            group_size: 0,
            repeats: 0,
            limit: Some(0),
            concurrency: Some(0),
            max_faults: Some(0),
            ..options()
        },
    );
    refused("filter without a match", PlanOptions { filter: vec!["drwan".to_owned()], ..options() });
    refused(
        "weights",
        PlanOptions {
            weights: [("everythin".to_owned(), 2), ("everything".to_owned(), 0)].into(),
            ..options()
        },
    );
    refused("oracle without one", PlanOptions { policy: PolicySpec::Oracle, ..options() });
    refused(
        "demonstrator without mistakes",
        PlanOptions {
            policy: PolicySpec::Demonstrator { oracle_percent: 35 },
            filter: vec!["plain".to_owned()],
            ..options()
        },
    );
    refused(
        "demonstrator above 100",
        PlanOptions { policy: PolicySpec::Demonstrator { oracle_percent: 101 }, ..options() },
    );
    refused(
        "random without actions",
        PlanOptions { policy: PolicySpec::Random { actions: vec![] }, ..options() },
    );
    let crowd = PlanOptions { concurrency: Some(5_000), repeats: 100, ..options() };
    refused("too many terminals", crowd.clone());
    refused(
        "too many files",
        PlanOptions { host: HostCapacity { open_files: 1_024, ..host() }, ..crowd.clone() },
    );
    refused(
        "too many processes",
        PlanOptions { host: HostCapacity { pids_free: 800, ..host() }, ..crowd.clone() },
    );
    refused(
        "too little memory",
        PlanOptions { host: HostCapacity { memory_available_mib: 1_000, ..host() }, ..crowd },
    );
    refused(
        "less memory than one task",
        PlanOptions { host: HostCapacity { memory_available_mib: 100, ..host() }, ..options() },
    );
    refused("no terminal left", PlanOptions { host: HostCapacity { ptys_free: 0, ..host() }, ..options() });
    refused("too many slots", PlanOptions { repeats: 1_000_000, ..options() });
    insta::assert_snapshot!("impossible_wishes", text);
}

#[test]
fn a_hundred_thousand_slots_are_laid_out_quickly() {
    let suites = everything();
    let started = Instant::now();
    let plan = plan(&suites, &PlanOptions { repeats: 1_000, ..options() });
    assert_eq!(plan.slots.len(), 102_000);
    // A bound for a busy machine and a debug build; it takes about a tenth of it.
    assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// I1 and I2 of the plan for any seed: a plan is repeatable, and its tasks keep the rules of the suite.
    #[test]
    fn plans_are_functions_of_their_seed(seed: u64) {
        let suites = everything();
        let options = PlanOptions { seed, filter: vec!["drawn".to_owned()], ..options() };
        let first = plan(&suites, &options);
        prop_assert_eq!(&first, &plan(&suites, &options));
        for task in &first.tasks {
            let (word, other) = task.instruction["Write ".len()..].split_once(" (not ").expect("two words");
            let (other, _) = other.split_once(") into ").expect("a file");
            prop_assert_ne!(word, other);
        }
    }
}

/// A repository by reference, patches by text, and what a run may settle besides.
#[test]
fn software_engineering_tasks_are_planned() {
    let suites = [load("tests/it/good/swe")];
    let planned = plan(&suites, &options());
    let spec = |task: &TaskSpec| match &task.env {
        EnvSpec::Swe(spec) => spec.as_ref().clone(),
        other => panic!("{other:?}"),
    };
    let mended = &planned.tasks[0];
    let FixtureContent::Host { path, .. } = &spec(mended).workspace.files[0].content else {
        panic!("inline")
    };
    assert!(path.ends_with("fixtures/repo/calc.py"));
    assert!(matches!(spec(mended).tests.pass_to_pass, TestNames::Host { .. }));
    assert_eq!(spec(mended).tests.score, TestScore::Fraction);
    let oracle = mended.oracle.as_ref().expect("an oracle");
    assert_eq!(oracle.calls().len(), 1);
    assert!(oracle.calls()[0].name == "submit" && oracle.calls()[0].arguments["patch"].is_string());
    assert_eq!(mended.mistakes[0].calls()[0].name, "bash");
    assert_eq!(mended.timeouts.grade.as_secs(), 900);
    let drawn = &planned.tasks[1];
    assert_eq!(spec(drawn).tests.files[0].path, "tests/test_one.py");
    assert_eq!(spec(drawn).activate.as_deref(), Some("export WORD=one"));
    let imaged = planned.tasks.last().expect("tasks");
    assert_eq!(imaged.timeouts.grade.as_secs(), 2_100);
    assert_eq!(spec(imaged).apply.len(), 1);
    // Options of a run: an image for tasks without one, and the policy's action format.
    let mut remote = load_policy(Path::new("tests/it/policy/good/minimal.yaml")).expect("a good policy file");
    remote.action_format = Some(ActionFormat::Fenced);
    let given = PlanOptions {
        image: Some(ImageSource::Name("base:1".to_owned())),
        policy: PolicySpec::Remote(Box::new(remote)),
        ..options()
    };
    let placed = plan(&suites, &given);
    let image = |task: &TaskSpec| spec(task).workspace.image.map(|image| image.source);
    assert_eq!(image(&placed.tasks[0]), Some(ImageSource::Name("base:1".to_owned())));
    assert_eq!(image(placed.tasks.last().expect("tasks")), Some(ImageSource::Name("x:1".to_owned())));
    assert!(placed.tasks.iter().all(|task| task.action_format == ActionFormat::Fenced));
    assert!(planned.tasks.iter().all(|task| task.action_format == ActionFormat::Hermes));
}

/// Sites, routes, scripts and checks of pages, with templates filled everywhere.
#[test]
fn browsers_elsewhere_take_little_of_the_host() {
    let suites = [load("tests/it/good/gui")];
    let bare = HostCapacity { memory_available_mib: 300, ptys_free: 0, pids_free: 0, ..host() };
    let here = PlanOptions { host: bare, repeats: 100, ..options() };
    resolve_plan(&suites, &here).expect_err("a browser has processes");
    let elsewhere = HostCapacity { browsers: BrowserPlace::Elsewhere, ..bare };
    let elsewhere = PlanOptions { host: elsewhere, ..here };
    let made = plan(&suites, &elsewhere);
    assert_eq!(made.limits.concurrency, 8, "nobody knows how many there are");
    let summary = describe_plan(&made, &suites, &elsewhere);
    let room: Vec<Resource> = summary.concurrency.room.iter().map(|bound| bound.resource).collect();
    assert_eq!(room, [Resource::Cpus, Resource::Memory, Resource::OpenFiles]);
    assert_eq!(summary.limits.keys().copied().collect::<Vec<_>>(), ["max_turns"]);
    let many = plan(&suites, &PlanOptions { concurrency: Some(100), ..elsewhere });
    assert_eq!(many.limits.concurrency, 100);
}

#[test]
fn gui_tasks_are_planned() {
    let planned = plan(&[load("tests/it/good/gui")], &options());
    let [first, ada, bo] = planned.tasks.as_slice() else { panic!("three tasks") };
    assert!(!format!("{bo:?}").contains("Ada") && !format!("{bo:?}").contains("{{"), "{bo:?}");
    let EnvSpec::Gui(spec) = &first.env else { panic!("a browser") };
    assert_eq!(spec.start, "http://shop.localhost/");
    let folder = spec.sites[0].folder.as_ref().expect("a folder");
    assert!(folder.path.is_absolute() && folder.path.ends_with("good/gui/fixtures/site"));
    // As `clawrl_gui::folder_hash` has it.
    let hashed = Sha256::digest(b"index.html\x0025\0<h1>From the folder</h1>\n");
    assert_eq!(folder.sha256, hashed.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let own = folder.path.parent().and_then(Path::parent).expect("the suite's folder");
    let shown = |task: &TaskSpec| {
        let text = serde_json::to_string_pretty(&json!({
            "env": task.env, "checks": task.checks, "oracle": task.oracle, "mistakes": task.mistakes,
        }));
        text.expect("JSON").replace(own.to_str().expect("a UTF-8 path"), "SUITE")
    };
    insta::assert_snapshot!("gui_defaults", shown(first));
    insta::assert_snapshot!("gui_everything", shown(ada));
}
