//! Errors at the start of a conversation.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use super::foreign::{Foreign, json_answer, said, stream};
use super::house::{self, House, KEY, write_key};
use super::person::Person;
use crate::model_server::{Manner, ModelServer};
use crate::place::Place;
use crate::served::Served;

/// Expects this exit code and these messages.
fn refused(command: Command, code: i32, told: &[&str]) {
    let said = house::said(command, "hi\n").ends(code);
    assert_eq!(said.out, "");
    for told in told {
        assert!(said.err.contains(told), "{told}\n{}", said.err);
    }
}

#[test]
fn a_server_tells_how_to_talk_to_it_and_its_key_is_found() {
    let place = Place::new();
    let model = ModelServer::start(Manner::default());
    let file = format!("format: 1\nmodel: able\nbase_url: {}\n", model.base_url());
    fs::write(place.path().join("policy.yaml"), file).unwrap();
    let served = Served::start(&place, "policy.yaml", |command| {
        command.env("OPENAI_API_KEY", "none");
    });
    let base_url = format!("http://{}/v1", served.address);
    let command = place.command(&["chat", "--base-url", &base_url, "--message", "Write river into out.txt."]);
    assert_eq!(house::said(command, "").ends(0).out, "echo river > out.txt\n");
    let told = format!("talk to it in a terminal: clawrl chat --base-url {base_url}\n");
    let said = served.ends();
    assert!(said.err.contains(&told), "{}", said.err);
}

#[test]
fn a_server_that_is_not_there_is_told_how_to_start() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let command = place.command(&["chat", "--base-url", &base_url]);
    refused(command, 6, &["no server at", "start one with `clawrl serve FOLDER`"]);
}

#[test]
fn keys_come_from_a_file_the_environment_or_the_folder_of_the_server() {
    let house = House::new();
    let file = house.place.path().join("mine");
    let write = |text: &str, mode| {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    };
    let with = |key: &str, arguments: &[&str]| {
        let mut command = house.command(&[&["--message", "hi"], arguments].concat());
        command.env("CLAWRL_KEY", key);
        command
    };
    house::said(with("", &[]), "").ends(0);
    refused(with("wrong-key-000", &[]), 2, &["refuses the key", "--key-file"]);
    write(KEY, 0o600);
    house::said(with("wrong-key-000", &["--key-file", "mine"]), "").ends(0);
    write_key(&house.place, "wrong-key-000");
    house::said(with(KEY, &[]), "").ends(0);
    refused(with("", &[]), 2, &["refuses the key"]);
    write(&format!("me {KEY}\n"), 0o644);
    refused(with("", &["--key-file", "mine"]), 2, &["can be read by others"]);
    refused(with("", &["--key-file", "none"]), 2, &["there is no file none"]);
    write("one two three\n", 0o600);
    refused(with("", &["--key-file", "mine"]), 2, &["no key in its first line"]);
    refused(with("two words", &[]), 2, &["CLAWRL_KEY has no key"]);
    refused(with("", &["--data", "elsewhere"]), 2, &["wants a key, and none was sent", "elsewhere/keys"]);
}

#[test]
fn arguments_that_make_no_sense() {
    let place = Place::new();
    let refused = |arguments: &[&str], told: &str| {
        refused(place.command(&[&["chat"], arguments].concat()), 2, &[told]);
    };
    refused(&["--base-url", "localhost:1"], "does not start with `http://`");
    refused(&["--base-url", "http://a:b@localhost:1"], "a user name or a password");
    refused(&["--message", " "], "`--message` is empty");
    refused(&["--model", ""], "`--model` is empty");
    refused(&["--session", "a\nb"], "`--session` is no name");
    refused(&["--session", ""], "`--session` is no name");
}

#[test]
fn a_server_without_a_list_of_models_is_asked_for_the_one_that_is_named() {
    let finish = "data: {\"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n";
    let server = Foreign::start(&[("/v1/chat/completions", stream(&(said("hi") + finish)))]);
    let place = Place::new();
    let command =
        |more: &[&str]| place.command(&[&["chat", "--base-url", &server.base_url()], more].concat());
    refused(command(&[]), 2, &["there is no list of models", "--model NAME"]);
    assert_eq!(house::said(command(&["--model", "m"]), "one\n").ends(0).out, "hi\n");
    let empty = Foreign::start(&[("/v1/models", json_answer("200 OK", "", &json!({"data": []})))]);
    refused(place.command(&["chat", "--base-url", &empty.base_url()]), 2, &["the server lists no model"]);
}

#[test]
fn trouble_of_the_model_is_told_at_the_start() {
    let place = Place::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/v1", free.local_addr().unwrap());
    drop(free);
    let mut served = Served::start(&place, "openai:able", |command| {
        command.args(["--base-url", &nowhere, "--key-env", "none"]);
    });
    served.hears("does not answer");
    let base_url = format!("http://{}/v1", served.address);
    let mut person = Person::start(&place.command(&["chat", "--base-url", &base_url]));
    person.sees("the model's server cannot be reached; it may be starting\r\n> ");
    person.types("\u{4}");
    assert_eq!(person.ended(), 0);
    served.ends();
}
