//! A test folder with an agent and its model.

use std::fs;

use crate::model_server::{Manner, ModelServer};
use crate::place::{Place, Said};

/// A test folder, an agent, and the server of its model.
pub(super) struct House {
    pub(super) place: Place,
    pub(super) server: Option<ModelServer>,
}

impl House {
    /// Writes an agent file whose program behaves as `manner` says, with additional lines.
    pub(super) fn new(manner: &str, more: &str) -> Self {
        let server = ModelServer::start(Manner::default());
        let place = Place::new();
        let policy = format!(
            "format: 1\nmodel: able\nbase_url: {}\nkey_env: none\nprices: {{ input: 1, output: 10 }}\n",
            server.base_url()
        );
        fs::create_dir(place.path().join("agent")).unwrap();
        let house = Self { place, server: Some(server) };
        house.write("agent/policy.yaml", &policy);
        house.write("agent/agent.py", include_str!("agent.py"));
        house.agent_file("remote:policy.yaml", manner, more);
        house
    }

    pub(super) fn agent_file(&self, model: &str, manner: &str, more: &str) {
        let text = format!(
            "format: 1\ncommand: [python3, agent.py, {manner}]\nmodel: {model}\nenv: [VERB, LOOT]\n{more}"
        );
        self.write("agent/agent.yaml", &text);
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.place.path().join(name), text).unwrap();
    }

    /// Runs the tasks that the model can solve.
    pub(super) fn run(&self, more: &[&str]) -> Said {
        self.run_with(&[], more)
    }

    pub(super) fn run_with(&self, variables: &[(&str, &str)], more: &[&str]) -> Said {
        let write = ["run", "small", "--filter", "write*", "--policy", "agent:agent/agent.yaml"];
        let mut command = self.place.command(&[&write[..], more].concat());
        command.envs(variables.iter().copied());
        Said::of(&command.output().unwrap())
    }
}
