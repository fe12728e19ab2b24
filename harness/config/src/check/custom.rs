//! Environments that somebody else wrote: what starts them, or where they are.
//!
//! Their tools are known when an episode begins, so the calls of scripts are held against nothing here.

use clawrl_core::{ActionFormat, RewardTotal};
use serde_json::Value;

use super::checker::Checker;
use super::toolcall::json_text;
use crate::bounds;
use crate::file::{HttpEnvFile, Located, OpenenvFile, ProcessEnvFile, Text};
use crate::row::{CustomLinkRow, CustomRow};
use crate::source::Span;

/// What all of them have.
struct Shared<'a> {
    config: Option<Located<Value>>,
    observation_chars: Option<&'a Located<i64>>,
    message_kib: Option<&'a Located<i64>>,
    deterministic: Option<bool>,
}

impl Checker {
    pub(super) fn process_env(&mut self, mut file: ProcessEnvFile, place: Span) -> CustomRow {
        let workspace = self.workspace(file.take_workspace());
        let command = self.env_command(file.command, place);
        let shared = Shared {
            config: file.config,
            observation_chars: file.observation_chars.as_ref(),
            message_kib: file.message_kib.as_ref(),
            deterministic: file.deterministic,
        };
        self.custom(CustomLinkRow::Process { command, workspace: Box::new(workspace) }, shared)
    }

    pub(super) fn http_env(&mut self, file: HttpEnvFile, place: Span) -> CustomRow {
        let base_url = self.given_base_url("http", "http://127.0.0.1:9000", file.base_url, place);
        let shared = Shared {
            config: file.config,
            observation_chars: file.observation_chars.as_ref(),
            message_kib: file.message_kib.as_ref(),
            deterministic: file.deterministic,
        };
        self.custom(CustomLinkRow::Http { base_url }, shared)
    }

    pub(super) fn openenv(&mut self, file: OpenenvFile, place: Span) -> CustomRow {
        let base_url = self.given_base_url("openenv", "http://127.0.0.1:8000", file.base_url, place);
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
        let shared = Shared {
            config: file.config,
            observation_chars: file.observation_chars.as_ref(),
            message_kib: file.message_kib.as_ref(),
            deterministic: file.deterministic,
        };
        self.custom(CustomLinkRow::Openenv { base_url, score }, shared)
    }

    fn custom(&mut self, link: CustomLinkRow, shared: Shared<'_>) -> CustomRow {
        let most = 1..=bounds::MAX_MESSAGE_KIB;
        CustomRow {
            link,
            config: shared.config.map(json_text),
            observation_chars: self.observation_chars(shared.observation_chars),
            message_bytes: 1024 * self.whole("message_kib", shared.message_kib, most, 1024),
            deterministic: shared.deterministic.unwrap_or(false),
        }
    }

    fn env_command(&mut self, command: Option<Located<Vec<Text>>>, place: Span) -> Vec<Text> {
        let help = "name a program and its arguments: `command: [python3, env.py]`";
        let Some(command) = command else {
            self.problem(place, "`process` has no `command`", "nothing to run", help);
            return Vec::new();
        };
        if command.value.first().is_none_or(|program| program.trim().is_empty()) {
            let span = command.value.first().map_or(command.span, |program| program.span);
            self.problem(span, "the command is empty", "nothing to run", help);
        }
        command.value
    }

    fn given_base_url(
        &mut self,
        kind: &str,
        example: &str,
        given: Option<Text>,
        place: Span,
    ) -> Option<Text> {
        if given.is_none() {
            let help = format!("say where the server is: `base_url: {example}`");
            self.problem(place, format!("`{kind}` has no `base_url`"), "which server?", help);
        }
        given
    }

    /// Without a word about it, replies are read so that they can call any tool.
    pub(super) fn format_of_custom(&mut self, given: bool, format: &mut ActionFormat) {
        if !given {
            *format = ActionFormat::Hermes;
        }
    }
}
