//! Trainings of an adapter instead of the whole model.

use std::collections::BTreeMap;
use std::fs;

use clawrl_core::SlotId;

use super::ground::{
    REPRODUCIBLE, Sampled, assert_alike, checkpoint, ground, killed, sampled, trained, weights,
};
use crate::place::Place;

/// The train file with an adapter.
fn adapting() -> String {
    let learned = "minibatches: 1\n  lora: { rank: 4 }\n  loss: { kl: { coefficient: 0.05 } }\n";
    REPRODUCIBLE
        .replace("minibatches: 1\n", learned)
        .replace("every_updates: 2 }", "every_updates: 1, keep_weights: 9 }")
}

fn model(place: &Place, name: &str, version: u64) -> String {
    checkpoint(place, name, version).join("model").display().to_string()
}

/// Greedy replies of a policy to the held-out tasks: tokens and log-probabilities as bits.
fn answers(place: &Place, folder: &str, name: &str) -> BTreeMap<SlotId, Vec<Sampled>> {
    let policy = format!("torch:{folder}");
    place
        .clawrl(&["run", "signs", "--split", "held-out", "--policy", &policy, "--name", name, "--seed", "4"]);
    sampled(place, name)
}

fn ids(answers: &BTreeMap<SlotId, Vec<Sampled>>) -> Vec<&Vec<u32>> {
    answers.values().flatten().map(|(ids, _)| ids).collect()
}

#[test]
fn an_adapter_is_learned_kept_served_and_merged() {
    let place = ground(&adapting());
    let said = trained(&place, "whole");
    assert_eq!(said.json()["updates"], 4);
    let files = |version: u64| {
        let has = |name: &str| checkpoint(&place, "whole", version).join("model").join(name).exists();
        ["model.safetensors", "adapter_model.safetensors", "adapter_config.json", "tokenizer.json"].map(has)
    };
    assert_eq!(files(0), [true, false, false, true], "the warm start is of the whole model");
    assert_eq!(files(4), [false, true, true, true]);
    let config =
        fs::read_to_string(checkpoint(&place, "whole", 4).join("model/adapter_config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!((&config["r"], &config["lora_alpha"]), (&4.into(), &8.0.into()));
    assert_ne!(weights(&place, "whole", 4), weights(&place, "whole", 1), "it learned");

    // Versions are compared by the merged model.
    let said = place.clawrl(&["policy", "diff", "whole", "0", "4", "--json"]).ends(0).json();
    let parts = said["parameters"].as_array().unwrap();
    let of = |name: &str| parts.iter().find(|part| part[0] == name).unwrap()[1].as_f64().unwrap();
    assert!(of("self_attn.q_proj") > 0.0 && of("mlp.down_proj") > 0.0, "{said}");
    assert_eq!((of("embed_tokens"), of("norm")), (0.0, 0.0), "the model's own stay as they are");

    // The adapter acts the same with its model and merged into it.
    let adapter = model(&place, "whole", 4);
    place.clawrl(&["policy", "merge", &adapter, "--out", "merged"]).ends(0);
    assert!(place.path().join("merged/model.safetensors").exists());
    let served = answers(&place, &adapter, "served");
    assert_eq!(ids(&served), ids(&answers(&place, "merged", "merged-run")));
    assert_ne!(served, answers(&place, &model(&place, "whole", 0), "plain"), "the adapter says something");
    // A training continues from an adapter as from the merged model.
    let onward = REPRODUCIBLE.replace("{ preset: tiny }", &format!("{{ path: {adapter} }}"));
    let cut = onward.find("warm_start:").unwrap()..onward.find("rl:").unwrap();
    fs::write(place.path().join("train.yaml"), onward.replace(&onward[cut], "")).unwrap();
    trained(&place, "onward");
    let merged = fs::read(place.path().join("merged/model.safetensors")).unwrap();
    assert!(weights(&place, "onward", 0) == merged);
}

#[test]
fn killed_while_it_learns_an_adapter_it_ends_with_the_same_bits() {
    let place = ground(&adapting());
    trained(&place, "undisturbed");
    killed(&place, "killed", &["held-out, greedy, after 0 updates", "update    3/4"]);
    place.clawrl(&["train", "--resume", "killed"]).ends(0);
    assert_alike(&place, "killed", "undisturbed");
}

/// Rollback to a version with an adapter and to one without; training continues from there.
#[test]
fn an_adapter_goes_back_and_learns_on() {
    let place = ground(&adapting());
    for to in [1, 0] {
        let name = format!("back-to-{to}");
        killed(&place, &name, &["update    3/4"]);
        let back =
            place.clawrl(&["policy", "rollback", &name, "--to", &to.to_string(), "--json"]).ends(0).json();
        let back = back["version"].as_u64().unwrap();
        assert!(weights(&place, &name, back) == weights(&place, &name, to));
        place.clawrl(&["train", "--resume", &name]).ends(0);
        let listed = place.clawrl(&["policy", "versions", &name, "--json"]).ends(0).json();
        let last = listed.as_array().unwrap().last().unwrap()["version"].as_u64().unwrap();
        assert!(last > back, "{listed}");
        assert!(checkpoint(&place, &name, last).join("model/adapter_model.safetensors").exists());
        assert!(weights(&place, &name, last) != weights(&place, &name, back));
    }
}

/// A version that is evaluated before use runs with its model in a separate sampler.
#[test]
fn an_adapter_passes_a_gate() {
    let gate = "minibatches: 1\n  gate: { held_out: { every_updates: 2, max_drop_points: 100 } }\n";
    let place = ground(&adapting().replace("minibatches: 1\n", gate));
    trained(&place, "gated");
    let listed = place.clawrl(&["policy", "versions", "gated", "--json"]).ends(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 5, "{listed}");
}

#[test]
fn what_is_no_adapter_is_not_merged() {
    let place = ground(&adapting());
    place.clawrl(&["policy", "init", "--preset", "tiny", "--out", "fresh", "signs"]).ends(0);
    let said = place.clawrl(&["policy", "merge", "fresh", "--out", "merged"]).ends(2);
    assert!(said.err.contains("fresh is no adapter"), "{}", said.err);
    fs::create_dir(place.path().join("lost")).unwrap();
    let config = r#"{"peft_type":"LORA","base_model_name_or_path":"gone","r":1,"lora_alpha":1,"target_modules":["q_proj"]}"#;
    fs::write(place.path().join("lost/adapter_config.json"), config).unwrap();
    let said = place.clawrl(&["policy", "merge", "lost", "--out", "merged"]).ends(2);
    assert!(said.err.contains("the model that it is for is not here: `gone`"), "{}", said.err);
    let said = place.clawrl(&["policy", "merge", "lost", "--out", "fresh"]).ends(2);
    assert!(said.err.contains("fresh is not empty"), "{}", said.err);
}
