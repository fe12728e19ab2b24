//! `clawrl serve` in front of an upstream server.

use std::fs;

use serde_json::{Value, json};

use crate::model_server::{Manner, ModelServer};
use crate::place::Place;
use crate::served::{Served, body_of, client_python};

const KEY: &str = "sk-very-secret-0001";

/// A server in front of an upstream server, whose key never appears in output.
struct Passing(Served);

impl Passing {
    fn start(place: &Place, server: &ModelServer, more: &str) -> Self {
        let file =
            format!("format: 1\nmodel: able\nbase_url: {}\nkey_env: TEAM_KEY\n{more}", server.base_url());
        fs::write(place.path().join("policy.yaml"), file).unwrap();
        Self(Served::start(place, "policy.yaml", |command| {
            command.env("TEAM_KEY", KEY);
        }))
    }

    /// Status and body, as text.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let (status, answer) = self.0.ask(method, path, body);
        assert!(!answer.contains(KEY), "{answer}");
        (status, body_of(&answer).to_owned())
    }

    /// The complete answer to a chat request.
    fn chat(&self, more: &Value) -> (u16, Value) {
        let mut body = json!({"messages": [{"role": "user", "content": "Write river into out.txt."}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, answer) = self.ask("POST", "/v1/chat/completions", &body);
        (status, serde_json::from_str(&answer).unwrap())
    }

    /// The recorded request of this answer.
    fn recorded(&self, answer: &Value) -> Value {
        let number = answer["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap();
        let (status, turn) = self.ask("GET", &format!("/v1/turns/{number}"), &Value::Null);
        assert_eq!(status, 200, "{turn}");
        serde_json::from_str::<Value>(&turn).unwrap()["requests"][0].clone()
    }

    fn end(self, place: &Place) {
        let key = self.0.key.clone();
        let said = self.0.ends();
        assert!(said.err.contains("key, which is told once") && said.err.contains(&key), "{said:?}");
        assert!(!said.err.contains(KEY) && !said.out.contains(KEY), "{said:?}");
        let entries = fs::read_dir(place.results().join("chat")).unwrap().map(|entry| entry.unwrap().path());
        for file in entries.filter(|path| path.is_file()) {
            let bytes = fs::read(file).unwrap();
            assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()));
        }
    }
}

fn keyed() -> Manner {
    Manner { key: KEY.to_owned(), ..Manner::default() }
}

#[test]
fn what_another_server_says_is_passed_on_and_recorded_as_said() {
    let place = Place::new();
    let server = ModelServer::start(keyed());
    let served = Passing::start(&place, &server, "");
    let (status, answer) = served.chat(&json!({"n": 2, "logit_bias": {"3": 1}}));
    assert_eq!(status, 200, "{answer}");
    let said = "echo river > out.txt";
    assert_eq!(answer["choices"][0]["message"]["content"], said);
    assert_eq!(answer["choices"][1]["message"]["content"], said);
    assert_eq!((&answer["model"], &answer["usage"]["completion_tokens"]), (&json!("clawrl"), &json!(16)));
    assert_eq!(server.replies(), 2);
    let request = served.recorded(&answer);
    let recorded = &request["answers"][0];
    assert_eq!((&recorded["text"], &recorded["exact"]), (&json!(said), &json!(false)));
    assert_eq!(recorded["inexact"], "the upstream server returns no token ids");

    let body =
        json!({"stream": true, "messages": [{"role": "user", "content": "Write stone into out.txt."}]});
    let (status, events) = served.ask("POST", "/v1/chat/completions", &body);
    assert_eq!(status, 200);
    assert!(events.contains("\"echo stone\"") && events.contains("\" > out.txt\""), "{events}");
    assert!(events.contains("data: [DONE]"), "{events}");
    assert_eq!(served.ask("GET", "/readyz", &Value::Null).0, 200);
    served.end(&place);
}

mod real_clients {
    use super::*;

    /// OpenAI's SDK and pydantic-ai, where ci/setup.sh has installed them.
    #[test]
    fn first_examples_of_clients_are_completed_by_a_server_of_others() {
        let place = Place::new();
        let server = ModelServer::start(keyed());
        let served = Passing::start(&place, &server, "");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/clients/first_examples.py");
        let base_url = format!("http://{}/v1", served.0.address);
        let output = std::process::Command::new(client_python())
            .args([script, &base_url, &served.0.key])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        served.end(&place);
    }
}

#[test]
fn exact_tokens_of_another_server_are_recorded_as_exact() {
    let place = Place::new();
    let server = ModelServer::start(Manner { tells_tokens: true, ..keyed() });
    let served = Passing::start(&place, &server, "sampling: { temperature: 1 }\nexact_tokens: vllm\n");
    let (status, answer) = served.chat(&json!({}));
    assert_eq!(status, 200, "{answer}");
    let request = served.recorded(&answer);
    assert_eq!(request["prompt_ids"], json!([1, 2, 3]));
    let recorded = &request["answers"][0];
    assert_eq!((&recorded["exact"], &recorded["sampled_ids"]), (&json!(true), &json!([4, 5])));
    assert_eq!((&recorded["logprobs"], &recorded["temperature"]), (&json!([-0.5, -0.5]), &json!(1.0)));
    // The server's log-probabilities are not valid at another temperature.
    let other = json!([{"role": "user", "content": "Write stone into out.txt."}]);
    let (_, answer) = served.chat(&json!({"temperature": 0.5, "messages": other}));
    assert_eq!(served.recorded(&answer)["answers"][0]["exact"], false);
    served.end(&place);
}

#[test]
fn a_key_that_the_other_server_refuses_is_no_fault_of_the_client() {
    let place = Place::new();
    let server = ModelServer::start(Manner { key: "another-key-0002".to_owned(), ..Manner::default() });
    let served = Passing::start(&place, &server, "tries: 1\n");
    let (status, error) = served.chat(&json!({}));
    assert_eq!(status, 503, "{error}");
    let message = error["error"]["message"].as_str().unwrap();
    assert_eq!(message, "the model's server cannot be used; the log of this server says why");
    assert_eq!(served.ask("GET", "/readyz", &Value::Null).0, 503);
    served.end(&place);
}

#[test]
fn what_cannot_be_passed_on_is_refused_before_anything_listens() {
    let place = Place::new();
    let refused = |text: &str, told: &str| {
        fs::write(place.path().join("policy.yaml"), format!("format: 1\nmodel: m\n{text}")).unwrap();
        let said = place.clawrl(&["serve", "policy.yaml"]).ends(2);
        assert!(said.err.contains(told), "{}", said.err);
    };
    refused("dialect: anthropic\n", "`dialect: anthropic`");
    refused("exact_tokens: sglang\nsampling: { temperature: 1 }\n", "`exact_tokens: sglang`");
    refused("key_env: NOT_SET\n", "NOT_SET");
    refused("colour: red\n", "colour");
}

#[test]
fn a_port_that_is_taken_makes_no_key() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = "format: 1\nmodel: m\nbase_url: http://127.0.0.1:1/v1\nkey_env: none\n";
    fs::write(place.path().join("policy.yaml"), file).unwrap();
    let serve =
        |address: &str| place.clawrl(&["serve", "policy.yaml", "--learn", "off", "--listen", address]);
    let said = serve(&address).ends(6);
    assert!(said.err.contains("another server is there"), "{}", said.err);
    let ours = format!("`clawrl chat --base-url http://{address}/v1` talks to it");
    assert!(said.err.contains(&ours), "{}", said.err);
    assert!(!place.results().join("chat").exists(), "nobody would be told its key");
}

#[test]
fn what_cannot_be_served_names_a_command_that_works() {
    let place = Place::new();
    let write = |path: &str, text: &str| {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("a model.gguf", "GGUF");
    write("blob", "GGUF\u{3}");
    write("hub/model-q4.gguf", "GGUF");
    write("model/model.safetensors", "");
    write("model/config.json", "{}");
    write("weights/pytorch_model.bin", "");
    write("notes.txt", "");
    write("results/runs/my-run/checkpoints/000010/model/config.json", "{}");
    write("results/runs/my-run/checkpoints/000050/model/config.json", "{}");
    let check = |named: &str, told: &[&str]| {
        let said = place.clawrl(&["serve", named]).ends(2);
        for told in told {
            assert!(said.err.contains(told), "{named}: {told}\n{}", said.err);
        }
        assert!(!place.results().join("chat").exists(), "{named}: nothing was made");
    };
    let llama = |file: &str, name: &str| {
        let in_front =
            format!("clawrl serve openai:{name} --base-url http://127.0.0.1:8080/v1 --key-env none\n");
        (format!("llama-server -m {file} --jinja --port 8080\n"), in_front)
    };
    for (named, file, name) in [
        ("a model.gguf", "'a model.gguf'", "'a model'"),
        ("blob", "blob", "blob"),
        ("hub", "hub/model-q4.gguf", "model-q4"),
        ("gone.gguf", "gone.gguf", "gone"),
    ] {
        let (start, in_front) = llama(file, name);
        check(named, &["GGUF is the format of llama.cpp", &start, &in_front]);
    }
    check("gone.gguf", &["there is no file of this name"]);
    check("model/model.safetensors", &["holds weights alone", "help: clawrl serve model\n"]);
    check("weights/pytorch_model.bin", &["holds weights alone", "get config.json and the tokenizer's files"]);
    check("weights", &["the folder weights holds no model", "openai:MODEL"]);
    check(
        "Qwen/Qwen3-0.6B",
        &[
            "vllm serve Qwen/Qwen3-0.6B --port 8000\n",
            "clawrl serve openai:Qwen/Qwen3-0.6B --base-url http://127.0.0.1:8000/v1",
        ],
    );
    check(
        "http://127.0.0.1:8080/v1/",
        &["is the address of a server", "openai:MODEL --base-url http://127.0.0.1:8080/v1 "],
    );
    check("notes.txt", &["is a file, and no policy file"]);
    check("nowhere", &["there is no file or folder nowhere"]);
    let newest = "results/runs/my-run/checkpoints/000050/model";
    check("my-run", &["clawrl serve /", newest]);
    check("results/runs/my-run", &["holds no model itself", newest]);
    check("oracle:", &["there is no file or folder"]);
    check("demonstrator:3", &["plays tasks, and answers no chat"]);
    check("openai:", &["takes the name of a model"]);
}

#[test]
fn a_model_of_a_server_needs_no_policy_file() {
    let place = Place::new();
    let server = ModelServer::start(Manner { reads: Some(20_000), ..Manner::default() });
    let served = Served::start(&place, "openai:able", |command| {
        command.args(["--base-url", &server.base_url(), "--key-env", "none"]);
    });
    let body = json!({"messages": [{"role": "user", "content": "Write river into out.txt."}]});
    let (status, answer) = served.ask("POST", "/v1/chat/completions", &body);
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("echo river > out.txt"), "{answer}");
    let said = served.ends();
    let told = format!("answers come from the model `able` at {}\n", server.base_url());
    assert!(said.err.contains(&told), "{}", said.err);
    let refused = place.clawrl(&["serve", "policy.yaml", "--key-env", "none"]).ends(2);
    assert!(refused.err.contains("go with openai:MODEL"), "{}", refused.err);
}

#[test]
fn an_absent_server_is_reported_and_so_is_its_return() {
    let place = Place::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let file = format!("format: 1\nmodel: able\nbase_url: http://{address}/v1\nkey_env: none\ntries: 1\n");
    fs::write(place.path().join("policy.yaml"), file).unwrap();
    let mut served = Served::start(&place, "policy.yaml", |_| {});
    served.hears(&format!(
        "warning: the model's server at http://{address}/v1 does not answer: no connection to"
    ));
    let policy = |served: &Served| -> Value {
        serde_json::from_str(body_of(&served.ask("GET", "/v1/policy", &Value::Null).1)).unwrap()
    };
    assert_eq!(policy(&served)["trouble"], "the model's server cannot be reached; it may be starting");
    assert_eq!(served.ask("GET", "/readyz", &Value::Null).0, 503);
    assert_eq!(served.ask("GET", "/healthz", &Value::Null).0, 200, "chat itself is there");
    let server = ModelServer::start_at(address, Manner::default());
    served.hears("answers now");
    assert_eq!(policy(&served)["trouble"], Value::Null);
    // The server ends, and a request fails.
    drop(server);
    let body = json!({"messages": [{"role": "user", "content": "Write river into out.txt."}]});
    assert_eq!(served.ask("POST", "/v1/chat/completions", &body).0, 503);
    served.hears("does not answer: no connection to");
    let _server = ModelServer::start_at(address, Manner::default());
    served.hears("answers now");
    assert_eq!(served.ask("POST", "/v1/chat/completions", &body).0, 200);
    served.ends();
}

#[test]
fn a_refused_key_and_a_missing_model_are_reported() {
    let place = Place::new();
    let server = ModelServer::start(keyed());
    let serve = |model: &str, key: &str| {
        Served::start(&place, &format!("openai:{model}"), |command| {
            command.args(["--base-url", &server.base_url(), "--key-env", "TEAM_KEY"]).env("TEAM_KEY", key);
        })
    };
    let mut served = serve("able", "sk-another-0002");
    served.hears("does not answer: the server refuses the key");
    assert!(!served.ends().err.contains("sk-another-0002"));
    let mut served = serve("unable", KEY);
    served.hears("does not list the model `unable`, and may refuse it; it lists `able`");
    // A model list does not show that the model is refused.
    let body = json!({"messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(served.ask("POST", "/v1/chat/completions", &body).0, 503);
    served.hears("does not answer:");
    assert!(!served.ends().err.contains("answers now"));
}

#[test]
fn openclaw_is_set_up_if_context_is_large_enough() {
    let place = Place::new();
    let said = |reads| {
        let server = ModelServer::start(Manner { reads, ..Manner::default() });
        let mut served = Served::start(&place, "openai:able", |command| {
            command.args(["--base-url", &server.base_url(), "--key-env", "none"]);
        });
        served.hears("OpenClaw is");
        served.ends().err
    };
    let data = place.results().join("chat");
    let config = data.join("openclaw.json5");
    let commands = format!(
        "OpenClaw is set up by these two commands; start its gateway again, if it runs:\n  \
         openclaw plugins install --link {} --force --accept-capabilities\n  openclaw config patch --file {}\n",
        data.join("openclaw-extension").display(),
        config.display()
    );
    let told = said(Some(16_000));
    assert!(told.contains(&commands), "{told}");
    assert!(fs::read_to_string(&config).unwrap().contains("contextWindow: 16000,"));
    assert!(data.join("openclaw-extension/openclaw.plugin.json").is_file());
    let told = said(Some(8_192));
    assert!(
        told.contains(
            "OpenClaw is not set up: it needs a model that reads 16000 tokens, and this one reads 8192"
        ),
        "{told}"
    );
    assert!(!told.contains("openclaw config patch"), "{told}");
    assert!(!config.exists(), "what OpenClaw refuses does not stay");
    let told = said(None);
    assert!(told.contains(&commands) && told.contains("if it is less than 32768 tokens"), "{told}");
}

#[test]
fn server_without_model_list_answers_with_warning() {
    let place = Place::new();
    let server = ModelServer::start(Manner::default());
    // A base URL without `/v1`.
    let base_url = server.base_url().trim_end_matches("/v1").to_owned();
    let mut served = Served::start(&place, "openai:able", |command| {
        command.args(["--base-url", &base_url, "--key-env", "none", "--data", "kept here"]);
    });
    served.hears("clawrl chat --base-url");
    served.hears("has no list of models: nothing that we know is at");
    let said = served.ends().err;
    assert!(said.contains("the base URL usually ends with `/v1`"), "{said}");
    let folder = place.path().join("kept here");
    assert!(said.contains(&format!(" --data '{}'\n", folder.display())), "{said}");
    let install = format!("openclaw plugins install --link '{}/openclaw-extension'", folder.display());
    assert!(said.contains(&install), "{said}");
}
