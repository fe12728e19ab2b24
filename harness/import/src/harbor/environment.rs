//! The environment of a task: image, files, setup, variables and limits.

use std::collections::BTreeMap;
use std::path::Path;

use clawrl_config::Span;

use super::healthcheck::healthcheck;
use super::network::{self, Network};
use crate::compose::{self, ComposeConvention};
use crate::dockerfile::StartRules;
use crate::document::{Document, Section};
use crate::draft::{ImageDraft, ImageOrigin, Limits};
use crate::findings::Findings;
use crate::image::{Environment, Recipe, make};
use crate::keep_alive::IN_SETUP;
use crate::options::Import;
use crate::variables::{set, settle};

const CUSTOMS: ComposeConvention<'static> = ComposeConvention {
    service: "main",
    variables: &[
        ("CONTEXT_DIR", "."),
        ("TEST_DIR", "/tests"),
        ("ENV_VERIFIER_LOGS_PATH", "/logs/verifier"),
        ("ENV_AGENT_LOGS_PATH", "/logs/agent"),
    ],
    internal: &[
        "MAIN_IMAGE_NAME",
        "PREBUILT_IMAGE_NAME",
        "HARBOR_CONTAINER_NAME",
        "HOST_VERIFIER_LOGS_PATH",
        "HOST_AGENT_LOGS_PATH",
        "HOST_ARTIFACTS_PATH",
        "CPUS",
        "MEMORY",
    ],
};

/// An environment before it is written into a suite.
#[derive(Debug)]
pub(super) struct EnvironmentParts {
    pub(super) made: Environment,
    pub(super) network: Network,
    /// Setup time in seconds, in addition to the default of all tasks.
    pub(super) setup_seconds: f64,
    pub(super) build_seconds: f64,
    pub(super) limits: Limits,
}

/// The inputs that describe an environment.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) id: &'a str,
    /// The folder `environment` of the task.
    pub(super) folder: &'a Path,
    pub(super) section: &'a Section<'a>,
    pub(super) document: &'a Document,
}

/// Reads the environment. `None` without an image; problems go to the findings.
pub(super) fn environment(place: &Place<'_>, import: &mut Import<'_>) -> Option<EnvironmentParts> {
    let Place { section, document, .. } = *place;
    refuse_windows(section, &mut import.findings);
    let in_containers = import.in_containers();
    let limits = limits(section, &mut import.findings);
    let network = network::baseline(section, in_containers, &mut import.findings);
    let healthcheck = healthcheck(section, &mut import.findings);
    let variables = section.variables("env", &mut import.findings);
    let build_seconds =
        section.number("build_timeout_sec", &mut import.findings).map_or(600.0, |number| number.value);
    let (mut made, image_network) = image(place, build_seconds, import)?;
    set(&mut made.vars, settle(document, variables, &import.options.environment, &mut import.findings));
    let mut setup_seconds = 0.0;
    if !in_containers && !made.setup.is_empty() {
        setup_seconds += build_seconds;
    }
    if let Some(check) = healthcheck {
        made.setup.push(check.command);
        setup_seconds += check.seconds;
    }
    let network = if image_network == Network::None { Network::None } else { network };
    Some(EnvironmentParts { made, network, setup_seconds, build_seconds, limits })
}

/// The image, and the network that the compose file asks for.
fn image(place: &Place<'_>, build_seconds: f64, import: &mut Import<'_>) -> Option<(Environment, Network)> {
    let Place { section, folder, id, .. } = *place;
    let findings = &mut import.findings;
    let prebuilt = section.text("docker_image", findings);
    let workdir = section.text("workdir", findings).map(|workdir| workdir.value);
    if let Some(workdir) = workdir.as_deref().filter(|workdir| !workdir.starts_with('/')) {
        let message = format!("the working folder `{workdir}` is not absolute");
        section.refuse("workdir", findings, message, "write it from the root: `workdir = \"/app\"`");
    }
    let service = compose::read(folder, &CUSTOMS, import)?;
    let dockerfile = service.dockerfile.clone().unwrap_or_else(|| "Dockerfile".to_owned());
    let has_dockerfile = folder.join(&dockerfile).is_file();
    let name = prebuilt.map(|image| (image.value, section.place("docker_image")));
    let name = name.or_else(|| {
        service.image.clone().filter(|_| !has_dockerfile).map(|image| (image, section.place("")))
    });
    let workdir = workdir.or_else(|| service.workdir.clone());
    let mut made = match name {
        Some((name, span)) => {
            if has_dockerfile {
                let note = "environment/Dockerfile is left out: `environment.docker_image` names the image";
                import.findings.note(note);
            }
            named(place, (name, span), workdir, service.user.clone(), import)
        }
        None if has_dockerfile => {
            // Harbor's own compose file sets the container's command.
            let starts = StartRules { what: service.started(true), instead: IN_SETUP };
            let recipe = Recipe {
                id,
                folder,
                dockerfile: &dockerfile,
                workdir: workdir.as_deref(),
                user: service.user.as_deref(),
                // A suite has whole seconds for a build.
                timeout_secs: build_seconds.ceil().max(1.0) as u64,
                hidden: |_| false,
                starts,
            };
            make(&recipe, import)?
        }
        None => {
            let message = "the task has no image: neither a Dockerfile nor `environment.docker_image`";
            let help = "add a Dockerfile to it, or name an existing image: `docker_image = \"debian:12\"`";
            import.findings.refuse_path(folder, message, help);
            return None;
        }
    };
    set(&mut made.vars, service.vars);
    Some((made, if service.no_network { Network::None } else { Network::Unsaid }))
}

/// A named image, or the root file system that replaces it.
fn named(
    place: &Place<'_>,
    (name, span): (String, Span),
    workdir: Option<String>,
    user: Option<String>,
    import: &mut Import<'_>,
) -> Environment {
    if import.in_containers() {
        return Environment::of(ImageDraft { source: ImageOrigin::Name(name), workdir, user });
    }
    if workdir.as_deref().is_none_or(|workdir| workdir == "/") {
        let help = "add `workdir = \"/app\"` to `[environment]`: the workspace of a sandbox is one folder";
        let message = "the task sets no working folder";
        place.section.refuse("docker_image", &mut import.findings, message, help);
    }
    let (path, rootfs) = match import.rootfs.find(&name) {
        Ok(path) => (path.clone(), [(name, path)].into()),
        Err((message, help)) => {
            import.findings.refuse(&place.document.source, span, "not at hand", message, help);
            (String::new(), BTreeMap::new())
        }
    };
    Environment { rootfs, ..Environment::of(ImageDraft { source: ImageOrigin::Rootfs(path), workdir, user }) }
}

/// `os = "windows"`.
pub(super) fn refuse_windows(section: &Section<'_>, findings: &mut Findings) {
    let Some(os) = section.text("os", findings) else { return };
    if !os.value.eq_ignore_ascii_case("linux") {
        let message = format!("`{}` is `{}`; environments here are Linux", section.named("os"), os.value);
        section.refuse("os", findings, message, "run this task by Harbor on a Windows host");
    }
}

fn limits(section: &Section<'_>, findings: &mut Findings) -> Limits {
    let mut limits = Limits::default();
    if let Some(cpus) = section.number("cpus", findings) {
        limits.cpu_percent = (cpus.value * 100.0).ceil() as u64;
        in_range(section, "cpus", limits.cpu_percent, 1, 25_600, findings);
    } else {
        findings.note("no `environment.cpus`: one core");
    }
    let memory = amount(section, "memory_mb", "memory", findings);
    match memory {
        Some(mib) => {
            limits.memory_mib = mib;
            in_range(
                section,
                if section.has("memory_mb") { "memory_mb" } else { "memory" },
                mib,
                16,
                1 << 20,
                findings,
            );
        }
        None => findings.note(format!("no `environment.memory_mb`: {} MiB", limits.memory_mib)),
    }
    if let Some(mib) = amount(section, "storage_mb", "storage", findings) {
        limits.disk_mib = mib;
        in_range(
            section,
            if section.has("storage_mb") { "storage_mb" } else { "storage" },
            mib,
            1,
            1 << 20,
            findings,
        );
    }
    limits
}

fn in_range(section: &Section<'_>, key: &str, value: u64, min: u64, max: u64, findings: &mut Findings) {
    if !(min..=max).contains(&value) {
        let message = format!("`{}` is out of range", section.named(key));
        section.refuse(key, findings, message, "write a realistic size");
    }
}

/// Mebibytes, from a number or from the older text format.
fn amount(section: &Section<'_>, key: &str, older: &str, findings: &mut Findings) -> Option<u64> {
    let number = section.number(key, findings).map(|number| number.value.ceil() as u64);
    let Some(text) = section.text(older, findings) else { return number };
    let Some(mib) = mebibytes(&text.value) else {
        let message = format!("`{}` is `{}`, which is not a size", section.named(older), text.value);
        section.refuse(older, findings, message, format!("write `{key} = 2048`"));
        return number;
    };
    match number {
        Some(number) if number != mib => {
            let message =
                format!("`{}` and `{}` differ: {mib} and {number}", section.named(older), section.named(key));
            section.refuse(older, findings, message, format!("keep `{key}`"));
            Some(number)
        }
        _ => Some(mib),
    }
}

fn mebibytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_uppercase();
    let (digits, factor) = match text.char_indices().next_back()? {
        (at, 'G') => (&text[..at], 1024.0),
        (at, 'M') => (&text[..at], 1.0),
        (at, 'K') => (&text[..at], 1.0 / 1024.0),
        _ => return None,
    };
    let amount: f64 = digits.parse().ok()?;
    (amount.is_finite() && amount >= 0.0).then(|| (amount * factor).floor() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(mebibytes(text), expected, "{text}");
    }

    #[test]
    fn older_sizes_are_parsed() {
        check("2G", Some(2048));
        check("1.5g", Some(1536));
        check("512M", Some(512));
        check("2048K", Some(2));
        check("2", None);
        check("", None);
        check("-1G", None);
    }
}
