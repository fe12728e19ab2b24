//! Custom environments: a program to start, or the address of a server.
//!
//! They list their tools when an episode begins, so calls in scripts are not checked here.

use clawrl_core::{CustomLink, CustomSpec, InProcessSpec, RewardTotal, check_base_url};
use serde_json::Value;

use super::builder::TaskBuilder;
use crate::bounds;
use crate::credential::is_secret_path;
use crate::file::{HttpEnvFile, InProcessFile, Located, OpenenvFile, ProcessEnvFile, Text};
use crate::source::Span;
use crate::value::BadValue;

/// Paths that are appended to an address.
const METHODS: [&str; 5] = ["/reset", "/step", "/grade", "/close", "/ws"];

/// Settings that all of them have.
struct Shared<'s> {
    config: Option<&'s Located<Value>>,
    observation_chars: Option<&'s Located<i64>>,
    message_kib: Option<&'s Located<i64>>,
    deterministic: Option<bool>,
}

macro_rules! shared {
    ($file:ident) => {
        Shared {
            config: $file.config.as_ref(),
            observation_chars: $file.observation_chars.as_ref(),
            message_kib: $file.message_kib.as_ref(),
            deterministic: $file.deterministic,
        }
    };
}

impl<'s> TaskBuilder<'_, '_, 's> {
    pub(super) fn process_env(&mut self, file: &'s ProcessEnvFile, place: Span) -> CustomSpec {
        let workspace = Box::new(self.workspace(file.workspace()));
        let command = self.env_command(file.command.as_ref(), place);
        self.custom(CustomLink::Process { command, workspace }, shared!(file))
    }

    pub(super) fn http_env(&mut self, file: &'s HttpEnvFile, place: Span) -> CustomSpec {
        let base_url = self.given_base_url("http", "http://127.0.0.1:9000", file.base_url.as_ref(), place);
        self.custom(CustomLink::Http { base_url }, shared!(file))
    }

    pub(super) fn openenv(&mut self, file: &'s OpenenvFile, place: Span) -> CustomSpec {
        let base_url = self.given_base_url("openenv", "http://127.0.0.1:8000", file.base_url.as_ref(), place);
        if let Some(config) = &file.config
            && !config.value.is_object()
        {
            self.problem(
                config.span,
                "`config` of an OpenEnv server is a map of arguments",
                "not a map",
                "write `config: { name: value }`; the server's reset takes them by name",
            );
        }
        let score = file.score.as_deref().map_or(RewardTotal::default(), |&score| score.into());
        self.custom(CustomLink::Openenv { base_url, score }, shared!(file))
    }

    pub(super) fn in_process(&mut self, file: &'s InProcessFile, place: Span) -> InProcessSpec {
        let environment = file.environment.as_ref().and_then(|name| self.text(name)).unwrap_or_default();
        if file.environment.is_none() {
            self.problem(
                place,
                "`in_process` has no `environment`",
                "no environment named",
                "name a type that the program registers: `environment: Reverse`",
            );
        }
        // A text is a template whose value is a map.
        if let Some(row) = &file.row
            && !(row.value.is_object() || row.value.is_string())
        {
            self.problem(row.span, "`row` is not a map", "not a map", "write `row: { name: value }`");
        }
        let row = file.row.as_ref().and_then(|row| self.json(row));
        InProcessSpec { environment, row: row.unwrap_or_else(|| Value::Object(serde_json::Map::new())) }
    }

    fn custom(&mut self, link: CustomLink, shared: Shared<'s>) -> CustomSpec {
        let bounds = 1..=bounds::MAX_MESSAGE_KIB;
        CustomSpec {
            link,
            config: shared.config.and_then(|config| self.json(config)).unwrap_or_default(),
            observation_chars: self.observation_chars(shared.observation_chars),
            message_bytes: 1024 * self.whole("message_kib", shared.message_kib, bounds, 1024),
            deterministic: shared.deterministic.unwrap_or(false),
        }
    }

    fn env_command(&mut self, command: Option<&'s Located<Vec<Text>>>, place: Span) -> Vec<String> {
        let help = "name a program and its arguments: `command: [python3, env.py]`";
        let Some(command) = command else {
            self.problem(place, "`process` has no `command`", "nothing to run", help);
            return Vec::new();
        };
        self.names_a_program(command, help);
        self.texts(&command.value)
    }

    fn given_base_url(&mut self, kind: &str, example: &str, given: Option<&'s Text>, place: Span) -> String {
        let Some(given) = given else {
            let help = format!("say where the server is: `base_url: {example}`");
            self.problem(place, format!("`{kind}` has no `base_url`"), "which server?", help);
            return String::new();
        };
        self.ruled(given, server_address).unwrap_or_default()
    }
}

fn server_address(text: &str) -> Result<(), BadValue> {
    let bad = |message: String| BadValue {
        message,
        help: "write scheme, host and port and nothing secret, such as `http://127.0.0.1:9000`".to_owned(),
    };
    let base = check_base_url(text).map_err(|error| bad(error.message))?;
    if is_secret_path(&base) {
        return Err(bad("the path of the base URL looks like a secret".to_owned()));
    }
    match METHODS.iter().find_map(|method| base.strip_suffix(method)) {
        None => Ok(()),
        Some(shorter) => Err(BadValue {
            message: "the base URL names one method of the server".to_owned(),
            help: format!("leave it off: `{shorter}`; the methods are appended"),
        }),
    }
}
