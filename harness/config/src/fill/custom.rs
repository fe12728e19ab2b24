//! Environments that somebody else wrote.

use clawrl_core::{CustomLink, CustomSpec, check_base_url};
use minijinja::Value;
use serde_json::Value as Json;

use super::filler::Filler;
use crate::credential::is_secret_path;
use crate::row::{CustomLinkRow, CustomRow};
use crate::value::BadValue;

/// What is appended to an address.
const METHODS: [&str; 5] = ["/reset", "/step", "/grade", "/close", "/ws"];

impl<'s> Filler<'_, '_, 's> {
    pub(super) fn custom(&mut self, row: &'s CustomRow, values: &Value) -> Option<CustomSpec> {
        let config = match &row.config {
            Some(config) => self.json(config, values),
            None => Some(Json::Null),
        };
        let link = match &row.link {
            CustomLinkRow::Process { command, workspace } => {
                let workspace = self.workspace(workspace, values);
                let command: Vec<_> = command.iter().map(|entry| self.text(entry, values)).collect();
                CustomLink::Process {
                    command: command.into_iter().collect::<Option<_>>()?,
                    workspace: Box::new(workspace?),
                }
            }
            CustomLinkRow::Http { base_url } => {
                CustomLink::Http { base_url: self.ruled(base_url.as_ref()?, values, server_address)? }
            }
            CustomLinkRow::Openenv { base_url, score } => CustomLink::Openenv {
                base_url: self.ruled(base_url.as_ref()?, values, server_address)?,
                score: *score,
            },
        };
        Some(CustomSpec {
            link,
            config: config?,
            observation_chars: row.observation_chars,
            message_bytes: row.message_bytes,
            deterministic: row.deterministic,
        })
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
