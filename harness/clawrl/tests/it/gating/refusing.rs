//! Bad input is refused or inconclusive and never passes.

use std::fs;

use super::ground::{Ground, STEADY};
use crate::model_server::{Manner, ModelServer};
use crate::place::SMALL;

#[test]
fn a_baseline_that_is_none_is_refused() {
    let ground = Ground::accepted("oracle");
    let path = ground.baseline("steady");
    let good = fs::read_to_string(&path).unwrap();
    let check = |content: Option<&str>, expected: &str, help: &str| {
        match content {
            Some(content) => fs::write(&path, content).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let said = ground.judge("steady", &[]).ends(2);
        assert!(said.err.contains(expected) && said.err.contains(help), "{expected}:\n{}", said.err);
        assert!(said.out.is_empty(), "{}", said.out);
    };
    let runs = || fs::read_dir(ground.place.results().join("runs")).unwrap().count();
    let before = runs();
    check(Some(&good[..good.len() / 2]), "is damaged", "take it back from version control");
    check(Some(""), "is damaged", "only `clawrl ci accept` writes one");
    let better = good.replacen("\"passed\":true", "\"passed\":false", 1);
    check(Some(&better), "its hash does not match its outcomes", "version control");
    check(
        Some(&good.replace("\"format\": 1", "\"format\": 9")),
        "has format 9, newer than 1",
        "update clawrl",
    );
    check(
        Some(&good.replace("\"gate\": \"steady\"", "\"gate\": \"other\"")),
        "belongs to the gate `other`",
        "of this gate",
    );
    check(None, "there is no baseline at", "`clawrl ci accept gates/steady.yaml`");
    assert_eq!(runs(), before, "nothing ran");
    fs::write(&path, good).unwrap();
    ground.judge("steady", &[]).ends(0);
}

#[test]
fn a_baseline_of_another_plan_is_refused_with_what_differs() {
    let ground = Ground::accepted("oracle");
    let check = |gate: &str, suite: &str, expected: &str| {
        ground.gate("steady", "oracle", gate);
        ground.place.suite("small", suite);
        let said = ground.judge("steady", &[]).ends(2);
        // Output is wrapped at the terminal's width.
        let told = said.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            told.contains("was recorded under other conditions") && told.contains(expected),
            "{expected}:\n{told}"
        );
    };
    check(STEADY, &SMALL.replace("Copy in.txt", "Copy the file in.txt"), "the suite `small` has changed");
    check(&format!("{STEADY}seed: 3\n"), SMALL, "the seed was 0 and is 3");
    let fewer = SMALL.replace("[river, stone, cloud, maple]", "[river, stone, cloud]");
    check(STEADY, &fewer, "3 tasks are gone: `small/copy#3`, `small/note#3`, `small/write#3`");
    let more = SMALL.replace("[river, stone, cloud, maple]", "[river, stone, cloud, maple, birch]");
    check(STEADY, &more, "3 tasks are new: `small/copy#4`, `small/note#4`, `small/write#4`");
    ground.place.suite("small", SMALL);
    ground.gate("steady", "oracle", STEADY);
    ground.judge("steady", &[]).ends(0);
}

/// Evaluates records of every kind of invalid run.
#[test]
fn a_run_that_is_none_is_inconclusive() {
    let ground = Ground::accepted("oracle");
    let place = &ground.place;
    let check = |run: &str, expected: &[&str]| {
        let said = ground.judge("steady", &["--run", run]).ends(11);
        assert!(said.out.starts_with("gate steady: inconclusive\n"), "{}", said.out);
        for expected in expected {
            assert!(said.out.contains(expected), "{expected}:\n{}", said.out);
        }
    };
    place.clawrl(&["run", "small", "--name", "zero", "--quiet"]).ends(0);
    let journal = place.run("zero").dir().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let first = text.split_inclusive('\n').next().unwrap();
    fs::write(&journal, first).unwrap();
    check("zero", &["was cut short, and 12 attempts are unfinished", "no attempt of the candidate finished"]);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&journal, lines[..lines.len() / 2].concat()).unwrap();
    check("zero", &["was cut short", "attempts of the candidate are unfinished"]);
    // The server answers the first probe and dies at the first request.
    let dying = |name: &str| {
        let server = ModelServer::start(Manner { dies_after: Some(0), ..Manner::default() });
        let url = server.base_url();
        let file = format!("format: 1\nmodel: able\nbase_url: {url}\nkey_env: none\ntries: 1\n");
        fs::write(place.path().join(format!("{name}.yaml")), file).unwrap();
        server
    };
    let _server = dying("first");
    place.clawrl(&["run", "small", "--name", "broken", "--policy", "remote:first.yaml", "--quiet"]).ends(4);
    check(
        "broken",
        &["all 12 attempts of the candidate ended in faults", "without a graded attempt: small/copy#0"],
    );
    let _server = dying("second");
    let said = ground.judge("steady", &["--policy", "remote:second.yaml"]).ends(11);
    assert!(said.out.contains("all 12 attempts of the candidate ended in faults"), "{}", said.out);
}

#[test]
fn a_run_of_another_plan_is_refused() {
    let ground = Ground::accepted("oracle");
    let place = &ground.place;
    place.clawrl(&["run", "small", "--name", "part", "--quiet", "--limit", "5"]).ends(0);
    let said = ground.judge("steady", &["--run", "part"]).ends(2);
    assert!(said.err.contains("7 tasks are gone"), "{}", said.err);
    assert!(ground.judge("steady", &["--run", "nowhere"]).ends(8).err.contains("run nowhere not found"));
}

#[test]
fn gate_files_that_are_none_are_refused_together() {
    let ground = Ground::accepted("oracle");
    ground.gate("bad", "oracle", "metrics: [{ metric: pass_rate, min_effect: 10 }]\n");
    ground.gate("worse", "orcale", STEADY);
    let said = ground.place.clawrl(&["ci", "gates/bad.yaml", "gates/none.yaml"]).ends(2);
    assert!(
        said.err.contains("cannot be worse by 10") && said.err.contains("there is no gate file at"),
        "{}",
        said.err
    );
    assert!(ground.place.clawrl(&["ci"]).ends(2).err.contains("no gate is named"));
    let said = ground.place.clawrl(&["ci", "gates/steady.yaml", "gates/steady.yaml"]).ends(2);
    assert!(said.err.contains("the gate `steady` is named twice"), "{}", said.err);
    let said = ground.place.clawrl(&["ci", "accept", "gates/worse.yaml"]).ends(2);
    assert!(said.err.contains("there is no policy `orcale`"), "{}", said.err);
}
