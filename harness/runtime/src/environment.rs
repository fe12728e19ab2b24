//! The environment variables that `clawrl` reads: the only list.
//!
//! I1. No other module of this crate, `serve`, `chat`, `view` and `cli` reads a variable, and no other crate reads one that is
//! not listed here. Variables named by users are read by [`named`] and [`all`]. Programs in sandboxes see none of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clawrl_config::GpuRole;
use clawrl_core::RemoteDialect;

/// A variable that changes what `clawrl` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// Folder of results.
    Results,
    /// Log filter of the libraries' messages.
    Log,
    /// Turns colours off.
    NoColor,
    /// Type of the terminal.
    Term,
    /// Width of help texts.
    Columns,
    /// Folders of programs.
    Path,
    /// Folder of temporary files.
    Temporary,
    /// Addresses of container engines.
    DockerHost,
    /// Whether TCP connections to container engines use TLS.
    DockerTls,
    /// Folder of certificates for these connections.
    DockerCertificates,
    /// Docker's configuration folder, the default folder of these certificates.
    DockerConfig,
    /// WebDriver endpoints of browsers.
    WebDriver,
    /// Host name under which these browsers reach this machine.
    WebDriverHost,
    /// Maximum disk space of images that were pulled or built.
    ImageBudget,
    /// The cache folder.
    CacheHome,
    /// The user's home folder.
    Home,
    /// The default key of a remote policy.
    Key(RemoteDialect),
    /// The key of a chat server.
    ChatKey,
    /// A file of certificates.
    CertificateFile,
    /// Folders of certificates.
    CertificateFolders,
    /// Folders that the loader searches first.
    LibraryPath,
    /// Spin time of libtorch's threads.
    SpinCount,
    /// Number of GPUs of a role of a training.
    Gpus(GpuRole),
}

/// Help text about variables named by users.
pub const NAMED: &str = "ClawRL also reads variables that you name: in --key-env, --redact-env, `key_env:` of a policy file or \
                         `from_env:` of a suite. `clawrl import` reads those that tasks name as ${NAME}.";

impl Variable {
    /// All variables, in the order of the help text.
    pub const ALL: [Self; 27] = [
        Self::Results,
        Self::Log,
        Self::Key(RemoteDialect::Openai),
        Self::Key(RemoteDialect::Anthropic),
        Self::ChatKey,
        Self::CertificateFile,
        Self::CertificateFolders,
        Self::DockerHost,
        Self::DockerTls,
        Self::DockerCertificates,
        Self::DockerConfig,
        Self::ImageBudget,
        Self::CacheHome,
        Self::Home,
        Self::WebDriver,
        Self::WebDriverHost,
        Self::Path,
        Self::Temporary,
        Self::LibraryPath,
        Self::SpinCount,
        Self::Gpus(GpuRole::Total),
        Self::Gpus(GpuRole::Learner),
        Self::Gpus(GpuRole::Engine),
        Self::Gpus(GpuRole::Judge),
        Self::NoColor,
        Self::Term,
        Self::Columns,
    ];

    /// The variable's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Results => "CLAWRL_RESULTS",
            Self::Log => "CLAWRL_LOG",
            Self::NoColor => "NO_COLOR",
            Self::Term => "TERM",
            Self::Columns => "COLUMNS",
            Self::Path => "PATH",
            Self::Temporary => "TMPDIR",
            Self::DockerHost => "DOCKER_HOST",
            Self::DockerTls => "DOCKER_TLS_VERIFY",
            Self::DockerCertificates => "DOCKER_CERT_PATH",
            Self::DockerConfig => "DOCKER_CONFIG",
            Self::WebDriver => "CLAWRL_WEBDRIVER",
            Self::WebDriverHost => "CLAWRL_WEBDRIVER_HOST",
            Self::ImageBudget => "CLAWRL_IMAGE_BUDGET_GIB",
            Self::CacheHome => "XDG_CACHE_HOME",
            Self::Home => "HOME",
            Self::Key(dialect) => dialect.usual_key_env(),
            Self::ChatKey => "CLAWRL_KEY",
            Self::CertificateFile => "SSL_CERT_FILE",
            Self::CertificateFolders => "SSL_CERT_DIR",
            Self::LibraryPath => "LD_LIBRARY_PATH",
            Self::SpinCount => "GOMP_SPINCOUNT",
            Self::Gpus(role) => role.variable(),
        }
    }

    /// The effect of the variable, for the help text.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Results => {
                "Results folder, which contains `runs/`; --results overrides it. Default: results."
            }
            Self::Log => {
                "Log level on standard error: error, warn, info, debug or trace, or by library, such as \
                 clawrl_scheduler=debug. Default: warn."
            }
            Self::NoColor => "If not empty, disables colours.",
            Self::Term => "If `dumb` or unset, disables the progress bar.",
            Self::Columns => "Width of help texts if there is no terminal.",
            Self::WebDriver => {
                "URLs of WebDriver servers, such as Selenium Grid, that run the browsers of GUI tasks: http://HOST:PORT or \
                 https://, separated by commas or white space. Default: local browsers, each in a sandbox."
            }
            Self::WebDriverHost => {
                "With CLAWRL_WEBDRIVER: name or address under which the browsers reach this machine, if it differs from the \
                 one that connects to the server. Any host that can reach it can connect."
            }
            Self::Path => {
                "Search path for bwrap, for chromedriver and Chromium or Chrome (GUI tasks), and for Python (`clawrl import`). \
                 Sandboxes have their own PATH."
            }
            Self::Temporary => "Folder for temporary files of runs; cleanup also searches it. Default: /tmp.",
            Self::DockerHost => {
                "Addresses of container engines: unix://PATH or tcp://HOST:PORT, separated by commas. Default: \
                 unix:///var/run/docker.sock."
            }
            Self::DockerTls => {
                "If not empty, connects to tcp:// engines by TLS, with the certificates in DOCKER_CERT_PATH. Otherwise only \
                 local engines are used."
            }
            Self::DockerCertificates => {
                "With DOCKER_TLS_VERIFY: folder with `ca.pem`, `cert.pem` and `key.pem`. Default: DOCKER_CONFIG."
            }
            Self::DockerConfig => {
                "Folder with the certificates of container engines. Default: $HOME/.docker."
            }
            Self::ImageBudget => {
                "Maximum disk space for container images that `clawrl` pulled or built, in GiB. Beyond it, the least recently \
                 used are removed. Default: unlimited."
            }
            Self::CacheHome => {
                "Cache folder, which contains `clawrl/images.json`, the list of pulled and built images. Default: $HOME/.cache."
            }
            Self::Home => "Home folder, for the defaults of XDG_CACHE_HOME and DOCKER_CONFIG.",
            Self::Key(RemoteDialect::Openai) => {
                "API key of `--policy openai:MODEL`, and of policy files that name no other variable. Never recorded."
            }
            Self::Key(RemoteDialect::Anthropic) => {
                "API key of `--policy anthropic:MODEL`, and of policy files with `dialect: anthropic` that name no \
                 other variable. Never recorded."
            }
            Self::ChatKey => {
                "API key of the server for `clawrl chat`; --key-file overrides it. Default: for a local server, the key that \
                 `clawrl serve` created."
            }
            Self::CertificateFile => {
                "File with trusted root certificates for https:// servers, instead of the system's."
            }
            Self::CertificateFolders => "Folders with trusted root certificates, separated by colons.",
            Self::LibraryPath => "Folders that are searched for libtorch first.",
            Self::SpinCount => {
                "Number of times that libtorch threads poll for work before they sleep. Default: 10000."
            }
            Self::Gpus(GpuRole::Total) => {
                "With `device: cuda` or `auto`: GPUs of a training, unless its file sets `devices: { total: N }`. \
                 Default: all."
            }
            Self::Gpus(GpuRole::Learner) => {
                "GPUs of the learner, unless the file sets `devices: { learner: N }`. Default: 1."
            }
            Self::Gpus(GpuRole::Engine) => {
                "GPUs of the sampler, unless the file sets `devices: { engine: N }`. Default: 0, the CPU."
            }
            Self::Gpus(GpuRole::Judge) => {
                "GPUs of a judge, unless the file sets `devices: { judge: N }`. Must be 0, since judges run behind servers."
            }
        }
    }

    /// The value as a path of any bytes; `None` if it is not set or empty.
    pub fn path(self) -> Option<PathBuf> {
        std::env::var_os(self.name()).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The value; `None` if it is not set, empty, or not Unicode.
    pub fn value(self) -> Option<String> {
        std::env::var(self.name()).ok().filter(|value| !value.is_empty())
    }
}

/// All variables that are set and Unicode, because imported tasks name some of them.
pub fn all() -> BTreeMap<String, String> {
    let text = |value: OsString| value.into_string().ok();
    std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

/// The value of a variable named by the user; `None` if it is not set, empty, or not Unicode.
pub fn named(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Every Rust file below this folder.
    fn rust_files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries
            .flat_map(|path| match path.is_dir() {
                true => rust_files(&path),
                false if path.extension().is_some_and(|extension| extension == "rs") => vec![path],
                false => Vec::new(),
            })
            .collect()
    }

    #[test]
    fn i1_what_is_read_is_listed() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a folder");
        let (mut seen, names) = (0, Variable::ALL.map(Variable::name));
        for area in ["harness", "envs", "policies"] {
            for folder in fs::read_dir(workspace.join(area)).expect("an area") {
                let sources = folder.expect("a crate").path().join("src");
                for path in if sources.is_dir() { rust_files(&sources) } else { Vec::new() } {
                    let source = fs::read_to_string(&path).expect("text");
                    for (at, call) in source.match_indices("env::var") {
                        let own = path.ends_with("harness/runtime/src/environment.rs");
                        let name = source[at + call.len()..].split('"').nth(1).unwrap_or_default();
                        let place = path.strip_prefix(&workspace).expect("a file of the workspace");
                        let ours = place.components().any(|part| {
                            ["cli", "runtime", "serve", "chat", "view"]
                                .iter()
                                .any(|name| part.as_os_str() == *name)
                        });
                        assert!(own || (!ours && names.contains(&name)), "{}: {name}", path.display());
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 3, "{seen} calls");
    }

    #[test]
    fn every_variable_is_explained() {
        let line = |variable: &Variable| format!("| {} | {} |\n", variable.name(), variable.meaning());
        let lines: String = Variable::ALL.iter().map(line).collect();
        insta::assert_snapshot!(format!("| variable | meaning |\n| --- | --- |\n{lines}\n{NAMED}\n"));
    }
}
