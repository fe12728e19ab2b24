//! Plans of trainings: memory, devices and number formats, checked before the start.

use std::fs;

use super::ground::{LUCKY, REPRODUCIBLE, figures, ground, trained, weights};

/// Configuration of a model that exceeds every machine.
const GIANT: &str = r#"{
  "vocab_size": 151936, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 8000,
  "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
  "tie_word_embeddings": false
}"#;

#[test]
fn a_train_file_is_planned_with_its_memory() {
    let place = ground(REPRODUCIBLE);
    let said = place.clawrl(&["plan", "train.yaml"]).ends(0);
    assert_eq!(said.err, "");
    insta::assert_snapshot!(said.out);
    assert!(!place.results().join("runs").exists(), "nothing runs");

    let json = place.clawrl(&["plan", "train.yaml", "--json"]).ends(0).json();
    assert_eq!((&json["train"]["name"], &json["concurrency"]), (&"signs".into(), &4.into()));
    let parts: Vec<&str> =
        json["memory"]["rows"].as_array().unwrap().iter().filter_map(|row| row["part"].as_str()).collect();
    assert!(parts.contains(&"moments, fp32") && parts.contains(&"keys and values"), "{parts:?}");

    for (option, value) in [("--seed", "3"), ("--policy", "noop"), ("--filter", "x"), ("--judge", "openai:m")]
    {
        let said = place.clawrl(&["plan", "train.yaml", option, value]).ends(2);
        assert!(said.err.contains(&format!("{option} does not go with a train file")), "{}", said.err);
    }
}

#[test]
fn a_training_without_room_is_refused_before_it_begins() {
    let place = ground(&LUCKY.replace("preset: tiny", "path: giant"));
    fs::create_dir(place.path().join("giant")).unwrap();
    fs::write(place.path().join("giant/config.json"), GIANT).unwrap();
    for command in ["plan", "train"] {
        let said = place.clawrl(&[command, "train.yaml"]).ends(2);
        assert_eq!(said.out, "");
        for part in
            ["of the processor's memory, and", "moments, fp32", "together", "would take", "a smaller model"]
        {
            assert!(said.err.contains(part), "no `{part}`: {}", said.err);
        }
        assert!(!place.results().join("runs").exists(), "what is refused leaves nothing");
    }
    fs::remove_file(place.path().join("giant/config.json")).unwrap();
    fs::write(place.path().join("giant/config.json"), "{}").unwrap();
    let said = place.clawrl(&["plan", "train.yaml"]).ends(2);
    assert!(said.err.contains("has no readable shape"), "{}", said.err);
}

#[test]
fn gpus_are_refused_in_words() {
    let place = ground(&format!("{LUCKY}\nengine: {{ device: cuda }}\n"));
    // Also on a machine that has one.
    let mut hidden = place.command(&["train", "train.yaml"]);
    let said = hidden.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    assert_eq!(said.status.code(), Some(6));
    let err = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        err.contains("`device: cuda` needs an NVIDIA GPU: ") && err.contains("write `device: cpu`"),
        "{err}"
    );
    assert!(!place.results().join("runs").exists(), "what is refused leaves nothing");

    let place = ground(&format!("{LUCKY}\nengine: {{ device: auto }}\n"));
    for (variable, value, part) in [
        ("NUM_GPUS", "many", "NUM_GPUS is no number of GPUs: many"),
        ("NUM_GPUS", "4096", "4096 GPUs are asked for (`total`, NUM_GPUS), and this machine has"),
        ("PRM_GPUS", "1", "1 GPUs are asked for a judge"),
    ] {
        let said = place.command(&["train", "train.yaml"]).env(variable, value).output().unwrap();
        assert_eq!(said.status.code(), Some(2), "{variable}={value}");
        let err = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(err.contains(part), "{err}");
    }
}

/// In bf16, with recomputation, sharing the device: two trainings are equal, and stored in fp32.
#[test]
fn another_type_and_turns_repeat_themselves() {
    let engine = "engine: { dtype: bf16, activations: recompute, turns: true }";
    let place = ground(&format!("{REPRODUCIBLE}{engine}\n"));
    let (one, two) = (trained(&place, "one"), trained(&place, "two"));
    assert_eq!(figures(&one), figures(&two));
    let kept = weights(&place, "one", 4);
    assert!(kept == weights(&place, "two", 4), "other bits");
    // Some numbers are not representable in bf16, whose lower halves are 0.
    let numbers = kept.len() - kept.len() % 4;
    let header = 8 + u64::from_le_bytes(kept[..8].try_into().unwrap()) as usize;
    assert!(kept[header..numbers].chunks_exact(4).any(|number| number[..2] != [0, 0]));
}
