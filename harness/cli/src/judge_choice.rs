//! `--judge`: the model that judges answers against rubrics.

use clawrl_core::{PolicySpec, RemoteSpec};
use clawrl_runtime::{PolicyChoice, ServerChoice};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::plan_request::{base_url, key_env};

/// The judge, for commands that run suites.
#[derive(Debug, clap::Args)]
pub(crate) struct JudgeArguments {
    /// Model that judges answers against a suite's `answer_rubric`: openai:MODEL, anthropic:MODEL or remote:FILE, as in
    /// --policy.
    #[arg(long, value_name = "MODEL", value_parser = judge)]
    judge: Option<PolicyChoice>,
    /// URL of the judge's server, as in --base-url.
    #[arg(long, value_name = "URL", value_parser = base_url)]
    judge_base_url: Option<String>,
    /// Environment variable with the judge's key, as in --key-env.
    #[arg(long, value_name = "NAME", value_parser = key_env)]
    judge_key_env: Option<String>,
}

fn judge(text: &str) -> Result<PolicyChoice, String> {
    match PolicyChoice::parse(text) {
        Ok(choice @ (PolicyChoice::Server { .. } | PolicyChoice::Remote { .. })) => Ok(choice),
        Err(why) if ["openai", "anthropic", "remote"].iter().any(|kind| text.starts_with(kind)) => Err(why),
        _ => Err("only a model behind a server judges: write openai:MODEL, anthropic:MODEL or remote:FILE"
            .to_owned()),
    }
}

impl JudgeArguments {
    /// The judge's settings for the plan.
    pub(crate) fn spec(&self) -> Result<Option<Box<RemoteSpec>>, Failure> {
        let server =
            ServerChoice { base_url: self.judge_base_url.clone(), key_env: self.judge_key_env.clone() };
        let Some(choice) = &self.judge else {
            if server == ServerChoice::default() {
                return Ok(None);
            }
            let message = "--judge-base-url and --judge-key-env go with --judge";
            return Err(Failure::with_help(
                Exit::Refused,
                message,
                "write `--judge openai:MODEL`, or leave them out",
            ));
        };
        if matches!(choice, PolicyChoice::Remote { .. }) && server != ServerChoice::default() {
            let message =
                "--judge-base-url and --judge-key-env go with --judge openai:MODEL and anthropic:MODEL";
            let help = "write `base_url:` and `key_env:` into the policy file";
            return Err(Failure::with_help(Exit::Refused, message, help));
        }
        match choice.spec(&server)? {
            PolicySpec::Remote(spec) => Ok(Some(spec)),
            other => Err(Failure::new(Exit::Internal, format!("{other:?} is no model behind a server"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_judge() {
        let check = |text: &str, expected: Result<(), &str>| match (judge(text), expected) {
            (Ok(_), Ok(())) => {}
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (got, expected) => panic!("{text}: {got:?}, not {expected:?}"),
        };
        check("openai:m", Ok(()));
        check("anthropic:m", Ok(()));
        check("remote:judge.yaml", Ok(()));
        check("remote", Err("takes a policy file"));
        check("openai:", Err("takes the name of a model"));
        check("oracle", Err("only a model behind a server"));
        check("torch:dir", Err("only a model behind a server"));
        check("gpt", Err("only a model behind a server"));
    }
}
