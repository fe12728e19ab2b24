//! The model to serve: a folder, or a model behind another server.
//!
//! I1. Other inputs are recognised and refused with the command that serves them.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clawrl_core::{PolicySpec, RemoteSpec};
use clawrl_runtime::{PolicyChoice, ServerChoice, quoted};

use super::error::ServeError;

/// The first bytes of a model file of llama.cpp.
const GGUF: &[u8; 4] = b"GGUF";

/// Default ports of llama.cpp and vLLM.
const LLAMA_PORT: u16 = 8080;
const VLLM_PORT: u16 = 8000;

/// Endings of files that contain only weights.
const WEIGHTS: [&str; 5] = ["safetensors", "bin", "pt", "pth", "ckpt"];

/// Prefixes of policies as in `clawrl run --policy`.
const CHOICES: [&str; 9] =
    ["openai", "anthropic", "remote", "torch", "agent", "cassette", "random", "replay", "demonstrator"];

/// The model that answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// The folder of a model or of an adapter, which this process runs.
    Folder(PathBuf),
    /// A model behind a server.
    Server(Box<RemoteSpec>),
}

impl Source {
    /// Resolves `named`. `server` overrides address and key of a model behind a server; `results` is searched for runs.
    ///
    /// # Errors
    /// `named` cannot be served, a policy file cannot be read, or an option does not apply.
    pub(super) fn of(named: &Path, server: &ServerChoice, results: &Path) -> Result<Self, ServeError> {
        if !named.exists()
            && let Some(text) = named.to_str()
            && text.split_once(':').is_some_and(|(name, _)| CHOICES.contains(&name))
        {
            let choice = PolicyChoice::parse(text).map_err(ServeError::refused)?;
            return Self::chosen(text, &choice, server);
        }
        if *server != ServerChoice::default() {
            return Err(not_of_a_server());
        }
        if is_policy_file(named) {
            return Ok(Self::Server(Box::new(clawrl_config::load_policy(named)?)));
        }
        let runs = results.join("runs");
        if named.is_dir() { Self::folder(named) } else { Err(not_served(named, &runs)) }
    }

    /// Resolves a policy in the syntax of `clawrl run --policy`.
    fn chosen(text: &str, choice: &PolicyChoice, server: &ServerChoice) -> Result<Self, ServeError> {
        match choice {
            PolicyChoice::Torch { .. } if *server != ServerChoice::default() => Err(not_of_a_server()),
            PolicyChoice::Torch { folder, .. } if folder.is_dir() => Self::folder(folder),
            PolicyChoice::Torch { folder, .. } => {
                Err(refused(format!("there is no folder {}", folder.display()), EXAMPLES.to_owned()))
            }
            _ => match choice.spec(server)? {
                PolicySpec::Remote(settings) => Ok(Self::Server(settings)),
                _ => {
                    let message = format!("`{text}` plays tasks, and answers no chat");
                    Err(refused(message, EXAMPLES.to_owned()))
                }
            },
        }
    }

    fn folder(folder: &Path) -> Result<Self, ServeError> {
        let has = |name: &str| folder.join(name).is_file();
        if has("config.json") || has("adapter_config.json") {
            return Ok(Self::Folder(folder.to_owned()));
        }
        let shown = folder.display();
        if let Some(model) = newest_model(folder) {
            let message = format!("{shown} holds no model itself");
            return Err(refused(message, format!("its newest one: clawrl serve {}", quoted(&model))));
        }
        if let Some(file) = gguf_in(folder) {
            return Err(gguf(&file));
        }
        let message =
            format!("the folder {shown} holds no model: there is no config.json and no adapter_config.json");
        Err(refused(message, EXAMPLES.to_owned()))
    }
}

/// Error for server options without a model behind a server.
fn not_of_a_server() -> ServeError {
    let help = "write `base_url:` and `key_env:` into a policy file, or name the model: `clawrl serve openai:MODEL --base-url URL`";
    ServeError::refused("--base-url and --key-env go with openai:MODEL").with_help(help)
}

const EXAMPLES: &str = "name the folder of a model, such as results/runs/RUN/checkpoints/000050/model; a policy file, such as policy.yaml; or a model \
                        behind a server: openai:MODEL --base-url http://127.0.0.1:8080/v1 --key-env none";

/// Whether the path names a policy file rather than a folder.
fn is_policy_file(path: &Path) -> bool {
    let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    is_yaml && !path.is_dir()
}

/// Error for a path that is neither a folder nor a policy file.
fn not_served(named: &Path, runs: &Path) -> ServeError {
    let shown = named.display();
    let text = named.to_str().unwrap_or_default();
    if ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme)) {
        let message =
            format!("{shown} is the address of a server, and which of its models is to answer is not said");
        let base_url = text.trim_end_matches('/');
        let has_path = base_url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        let base_url = format!("{base_url}{}", if has_path { "" } else { "/v1" });
        let help = format!(
            "clawrl serve openai:MODEL --base-url {} --key-env none\n`--key-env NAME` names the variable of a key",
            quoted(Path::new(&base_url))
        );
        return refused(message, help);
    }
    let extension = named.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
    if extension == "gguf" || begins_as_gguf(named) {
        return gguf(named);
    }
    if WEIGHTS.contains(&extension.as_str()) && named.is_file() {
        return weights(named);
    }
    if named.is_file() {
        let message = format!("{shown} is a file, and no policy file, which ends with .yaml");
        return refused(message, EXAMPLES.to_owned());
    }
    if let Some(model) = newest_model(&runs.join(named)) {
        let message = format!("there is no folder {shown}");
        return refused(
            message,
            format!("the newest model of the run {shown}: clawrl serve {}", quoted(&model)),
        );
    }
    if is_name_of_hub(text) {
        let message = format!("there is no folder {shown}, and a model of Hugging Face is not downloaded");
        let help = format!(
            "serve it with vLLM, and put clawrl in front of it:\n  vllm serve {text} --port {VLLM_PORT}\n  {}",
            in_front(text, VLLM_PORT)
        );
        return refused(message, help);
    }
    refused(format!("there is no file or folder {shown}"), EXAMPLES.to_owned())
}

/// Error for a model of llama.cpp, with the commands that serve it.
fn gguf(file: &Path) -> ServeError {
    let shown = file.display();
    let missing = if file.is_file() { "" } else { "there is no file of this name; " };
    let message = format!(
        "{shown} is not served: {missing}GGUF is the format of llama.cpp, and clawrl does not run it itself"
    );
    let name = file.file_stem().and_then(OsStr::to_str).unwrap_or("MODEL");
    let help = format!(
        "serve it with llama.cpp, and put clawrl in front of it:\n  llama-server -m {} --jinja --port {LLAMA_PORT}\n  {}",
        quoted(file),
        in_front(name, LLAMA_PORT)
    );
    refused(message, help)
}

/// Error for weights without the rest of their model.
fn weights(file: &Path) -> ServeError {
    let message = format!(
        "{} holds weights alone; a model is served by its folder, with config.json and tokenizer",
        file.display()
    );
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let help = if folder.join("config.json").is_file() || folder.join("adapter_config.json").is_file() {
        format!("clawrl serve {}", quoted(folder))
    } else {
        format!(
            "get config.json and the tokenizer's files of the same model into {}, then: clawrl serve {}",
            folder.display(),
            quoted(folder)
        )
    };
    refused(message, help)
}

/// The command that puts `clawrl serve` in front of a local server.
fn in_front(model: &str, port: u16) -> String {
    let model = quoted(Path::new(model));
    format!("clawrl serve openai:{model} --base-url http://127.0.0.1:{port}/v1 --key-env none")
}

/// Whether a text has the form `OWNER/NAME` of Hugging Face models.
fn is_name_of_hub(text: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    text.split_once('/')
        .is_some_and(|(owner, name)| is_word(owner) && is_word(name) && !Path::new(owner).exists())
}

fn begins_as_gguf(file: &Path) -> bool {
    let mut first = [0; 4];
    file.is_file()
        && fs::File::open(file).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && first == *GGUF
}

/// The only model of llama.cpp in a folder, or the first by name.
fn gguf_in(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "gguf")).min()
}

/// The newest model of a run, or the one of a checkpoint.
fn newest_model(folder: &Path) -> Option<PathBuf> {
    let model = folder.join("model");
    if model.join("config.json").is_file() || model.join("adapter_config.json").is_file() {
        return Some(model);
    }
    let checkpoints = fs::read_dir(folder.join("checkpoints")).ok()?.filter_map(Result::ok);
    // Their numbers have leading zeros.
    checkpoints.map(|entry| entry.path().join("model")).filter(|model| model.is_dir()).max()
}

fn refused(message: String, help: String) -> ServeError {
    ServeError::refused(message).with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_files_are_known_by_their_names() {
        let check = |path: &str, expected| assert_eq!(is_policy_file(Path::new(path)), expected, "{path}");
        check("policy.yaml", true);
        check("a/policy.yml", true);
        check("model", false);
        check("model.safetensors", false);
    }

    #[test]
    fn names_of_hugging_face_are_an_owner_and_a_model() {
        let check = |text: &str, expected| assert_eq!(is_name_of_hub(text), expected, "{text}");
        check("Qwen/Qwen3-0.6B", true);
        check("meta-llama/Llama-3.1_8b", true);
        check("Qwen3-0.6B", false);
        check("/srv/model", false);
        check("./model", false);
        check("a/b/c", false);
        check("../up", false);
    }
}
