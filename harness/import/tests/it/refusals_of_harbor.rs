//! Messages for Harbor folders that cannot be imported, one snapshot each.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use clawrl_config::load_suite;
use clawrl_import::ImportSandbox::{self, Bubblewrap, Container};

use crate::place::{Format, Place};

/// Breaks a copy of the example `copy` at `task`, and checks the message.
fn check(name: &str, sandbox: ImportSandbox, damage: impl FnOnce(&Place)) {
    let place = Place::new();
    place.copy("harbor/copy", "task");
    damage(&place);
    snapshot(name, &place, sandbox);
}

fn snapshot(name: &str, place: &Place, sandbox: ImportSandbox) {
    let text = place.refusal(Format::Harbor, "task", sandbox);
    assert!(text.contains("task"), "{name} names no file: {text}");
    insta::with_settings!({ snapshot_path => "refusals", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(format!("harbor-{name}"), text);
    });
}

/// Adds lines to the end of `task.toml`, in its table `environment`.
fn add(lines: &'static str) -> impl FnOnce(&Place) {
    move |place| {
        let path = place.path("task/task.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text + lines).unwrap();
    }
}

fn swap(old: &'static str, new: &'static str) -> impl FnOnce(&Place) {
    move |place| place.replace("task/task.toml", old, new)
}

fn dockerfile(text: &'static str) -> impl FnOnce(&Place) {
    move |place| place.write("task/environment/Dockerfile", text)
}

#[test]
fn missing_parts_are_refused() {
    check("no-task-toml", Container, |place| place.remove("task/task.toml"));
    check("no-instruction", Container, |place| place.remove("task/instruction.md"));
    check("empty-instruction", Container, |place| place.write("task/instruction.md", "\n"));
    check("no-tests", Container, |place| place.remove("task/tests"));
    check("no-test-script", Container, |place| place.remove("task/tests/test.sh"));
    check("no-image", Container, |place| place.remove("task/environment"));
    check("no-solve-script", Container, |place| place.remove("task/solution/solve.sh"));
    check("empty-folder", Container, |place| {
        place.remove("task");
        place.write("task/README.md", "nothing here\n");
    });
}

#[test]
fn wrong_values_are_refused() {
    check("not-toml", Container, swap("cpus = 1", "cpus = = 1"));
    check("not-text", Container, |place| fs::write(place.path("task/task.toml"), [0xff]).unwrap());
    check("unknown-schema", Container, swap("\"1.4\"", "\"2.0\""));
    check("schema-of-wrong-kind", Container, swap("\"1.4\"", "1.4"));
    check("timeout-of-wrong-kind", Container, swap("timeout_sec = 120.0", "timeout_sec = \"2m\""));
    check("timeout-out-of-range", Container, swap("timeout_sec = 120.0", "timeout_sec = 1e9"));
    check("memory-out-of-range", Container, swap("memory_mb = 256", "memory_mb = 1"));
    check("memory-given-twice", Container, add("memory = \"1G\"\n"));
    check("memory-without-unit", Container, add("memory = \"much\"\n"));
    check("unknown-network-mode", Container, swap("\"no-network\"", "\"some\""));
    check("unset-variable", Container, add("\n[environment.env]\nPLACE = \"${CLAWRL_NOT_SET}\"\n"));
    check("secret-variable", Container, add("\n[environment.env]\nTOKEN = \"${API_KEY}\"\n"));
    check("shared-and-own-environment", Container, |place| {
        place.replace("task/task.toml", "timeout_sec = 60.0", "environment_mode = \"shared\"");
        add("\n[verifier.environment]\ncpus = 1\n")(place);
    });
    check("several-problems", Container, |place| {
        place.remove("task/tests");
        add("gpus = 1\nos = \"windows\"\n")(place);
    });
}

#[test]
fn settings_without_counterpart_are_refused() {
    check("steps-table", Container, add("\n[[steps]]\nname = \"one\"\n"));
    check("steps-folder", Container, |place| place.write("task/steps/one/instruction.md", "x\n"));
    check("trajectory", Container, |place| place.write("task/trajectory.json", "{}\n"));
    check("harborignore", Container, |place| place.write("task/tests/.harborignore", "*.log\n"));
    check("windows", Container, add("os = \"windows\"\n"));
    check("windows-scripts", Container, |place| {
        place.remove("task/tests/test.sh");
        place.write("task/tests/test.bat", "exit\n");
    });
    check("gpus", Container, add("gpus = 1\ngpu_types = [\"H100\"]\n"));
    check("tpu", Container, add("tpu = { type = \"v6e\", topology = \"2x2\" }\n"));
    check("mcp-server", Container, add("\n[[environment.mcp_servers]]\nname = \"x\"\nurl = \"http://x\"\n"));
    check("allowlist", Container, swap("\"no-network\"", "\"allowlist\"\nallowed_hosts = [\"example.org\"]"));
    check("networks-differ", Container, swap("[verifier]", "network_mode = \"public\"\n\n[verifier]"));
    check("collect-beside-shared", Container, add("\n[[verifier.collect]]\ncommand = \"ls\"\n"));
    check("collect-elsewhere", Container, |place| {
        place.replace("task/task.toml", "timeout_sec = 60.0", "environment_mode = \"separate\"");
        add("\n[[verifier.collect]]\ncommand = \"ls\"\nservice = \"database\"\n")(place);
    });
    check("artifact-upwards", Container, |place| {
        place.replace("task/task.toml", "schema_version", "artifacts = [\"/app/../etc\"]\nschema_version");
        place.replace("task/task.toml", "timeout_sec = 60.0", "environment_mode = \"separate\"");
    });
    check("compose-of-two-services", Container, |place| {
        let text = "services:\n  main:\n    build: .\n  database:\n    image: postgres\n";
        place.write("task/environment/docker-compose.yaml", text);
    });
    check("compose-with-more", Container, |place| {
        let text = "services:\n  main:\n    build:\n      context: ..\n    privileged: true\n    environment:\n      A: ${B}\n    volumes:\n      - /etc:/host\n";
        place.write("task/environment/docker-compose.yaml", text);
    });
}

/// Harbor would run them with the container; we do not.
#[test]
fn started_programs_are_refused() {
    check(
        "container-entrypoint",
        Container,
        dockerfile(
            "FROM debian:12\nWORKDIR /app\nENTRYPOINT [\"/usr/sbin/nginx\", \"-g\", \"daemon off;\"]\nCMD [\"bash\"]\n",
        ),
    );
    check("separate-entrypoint", Container, |place| {
        place.replace("task/task.toml", "timeout_sec = 60.0", "environment_mode = \"separate\"");
        place.write(
            "task/tests/Dockerfile",
            "FROM debian:12\nCOPY . /tests\nENTRYPOINT /start-database --quiet\n",
        );
    });
    check("compose-programs", Container, |place| {
        let text = "services:\n  main:\n    build: .\n    entrypoint: [/entrypoint.sh]\n    command: bash -c 'redis-server & sleep infinity'\n";
        place.write("task/environment/docker-compose.yaml", text);
    });
}

#[test]
fn invalid_patterns_are_refused() {
    for sandbox in [Container, Bubblewrap] {
        check("ignored-by-no-pattern", sandbox, |place| {
            place.write("task/environment/.dockerignore", "[z-a]\n");
            place.write("task/environment/Dockerfile.dockerignore", "*.log\n[b-a]\n");
        });
    }
}

#[test]
fn settings_without_sandbox_support_are_refused() {
    check("sandbox-network", Bubblewrap, swap("\"no-network\"", "\"public\""));
    check("sandbox-users", Bubblewrap, swap("timeout_sec = 120.0", "user = \"root\""));
    check("sandbox-without-rootfs", Bubblewrap, swap("cpus = 1", "docker_image = \"ubuntu:24.04\""));
    check("sandbox-other-image", Bubblewrap, dockerfile("FROM python:3.13\nWORKDIR /app\n"));
    check(
        "sandbox-package",
        Bubblewrap,
        dockerfile("FROM debian:12\nWORKDIR /app\nRUN apt-get update && \\\n  apt-get install -y tmux\n"),
    );
    check("sandbox-root", Bubblewrap, dockerfile("FROM debian:12\nWORKDIR /app\nRUN useradd me\n"));
    check(
        "sandbox-outside",
        Bubblewrap,
        dockerfile(
            "FROM debian:12\nWORKDIR /app\nCOPY --chmod=600 notes.txt /etc/\nWORKDIR /\nRUN true\nWORKDIR /app\n",
        ),
    );
    check("sandbox-no-workdir", Bubblewrap, dockerfile("FROM debian:12\n"));
    check(
        "sandbox-stages",
        Bubblewrap,
        dockerfile("FROM debian:12 AS a\nFROM debian:12\nWORKDIR /app\nCOPY --from=a /x /app/\n"),
    );
    check(
        "sandbox-copy-order",
        Bubblewrap,
        dockerfile("FROM debian:12\nWORKDIR /app\nRUN ls\nCOPY notes.txt .\n"),
    );
    check(
        "sandbox-copy-of-nothing",
        Bubblewrap,
        dockerfile(
            "FROM debian:12\nWORKDIR /app\nCOPY moon.txt .\nADD https://example.org/x .\nADD a.tar.gz .\n",
        ),
    );
    check(
        "sandbox-instructions",
        Bubblewrap,
        dockerfile(
            "FROM debian:12\nWORKDIR /app\nENTRYPOINT [\"x\"]\nSHELL [\"bash\"]\nENV PATH=/x:$PATH\nRUNN x\nRUN --mount=type=cache x\n",
        ),
    );
    check(
        "container-buildkit",
        Container,
        dockerfile(
            "FROM debian:12\nCOPY --chmod=755 notes.txt .\nRUN --mount=type=cache,target=/x ls\nRUN <<EOF\nls\nEOF\n",
        ),
    );
    check("dockerfile-without-from", Container, dockerfile("# nothing\n"));
    check("dockerfile-without-end", Container, dockerfile("FROM debian:12\nRUN <<EOF\nls\n"));
}

#[test]
fn unreadable_files_are_refused() {
    check("link-outside", Container, |place| {
        place.write("secret", "x");
        symlink("../../secret", place.path("task/tests/link")).unwrap();
    });
    check("link-to-solution", Container, |place| {
        symlink("../solution", place.path("task/environment/link")).unwrap()
    });
    check("link-in-solution", Container, |place| symlink("moon", place.path("task/solution/link")).unwrap());
    check("pipe", Container, |place| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let path = place.path("task/tests/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    });
    check("huge-file", Container, |place| {
        // Sparse: it takes no disk space.
        File::create(place.path("task/environment/huge")).unwrap().set_len(300 << 20).unwrap();
    });
    check("name-without-text", Container, |place| {
        let name = std::ffi::OsStr::from_bytes(b"a\xff");
        File::create(place.path("task/tests").join(name)).unwrap();
    });
    check("large-solution", Container, |place| place.write("task/solution/data", &"x".repeat(2 << 20)));
}

/// Repositories have links to files, to folders and to missing targets. They stay links, in containers and in sandboxes.
#[test]
fn links_inside_stay_links() {
    for sandbox in [Container, Bubblewrap] {
        let place = Place::new();
        place.copy("harbor/copy", "task");
        symlink("test.sh", place.path("task/tests/again.sh")).unwrap();
        place.write("task/environment/notes/deep/file.txt", "deep\n");
        place.write("task/environment/notes/plain.txt", "plain\n");
        let links = [
            ("to-file", "plain.txt"),
            ("to-folder", "deep"),
            ("to-nothing", "moon"),
            ("round", "round"),
            ("deep/up", ".."),
        ];
        for (link, target) in links {
            symlink(target, place.path("task/environment/notes").join(link)).unwrap();
        }
        place.write(
            "task/environment/Dockerfile",
            "FROM debian:12\nWORKDIR /app\nCOPY notes /app/notes\nCOPY notes/to-file /app/named.txt\n",
        );
        let options = place.options(&["task"], sandbox);
        let imported = Format::Harbor.import(&options);
        let imported = imported.unwrap_or_else(|error| panic!("{}", crate::place::rendered(&error)));
        let leads = |path: &str| fs::read_link(place.path("suite/fixtures/task").join(path)).ok();
        assert_eq!(leads("tests/again.sh"), Some("test.sh".into()));
        let environment = if sandbox == Container { "environment" } else { "files" };
        for (link, target) in links {
            assert_eq!(leads(&format!("{environment}/notes/{link}")), Some(target.into()), "{link}");
        }
        if sandbox == Bubblewrap {
            // A named link counts as its target, as in Docker.
            let named = place.path("suite/fixtures/task/files/named.txt");
            assert_eq!(fs::read_to_string(&named).unwrap(), "plain\n");
            assert!(!named.is_symlink());
        }
        load_suite(&imported.suite).unwrap_or_else(|error| panic!("{}", crate::place::rendered(&error)));
    }
}
