//! The Python wheel, built from the programs under test and installed.

use std::path::Path;
use std::process::Command;

mod real_clients {
    use super::*;
    use crate::served::client_python;

    /// Runs a command, which must succeed, and returns its standard output.
    fn run(command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn wheel_installs_programs_that_run_a_suite() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        std::fs::create_dir(path("programs")).unwrap();
        for program in
            [env!("CARGO_BIN_EXE_clawrl"), env!("CARGO_BIN_EXE_clawrl-torch"), "clawrl-sbx", "clawrl-node"]
        {
            // The last two are in the same folder, built by other packages.
            let built = Path::new(env!("CARGO_BIN_EXE_clawrl")).with_file_name(program);
            let packed = path("programs").join(built.file_name().unwrap());
            run(Command::new("strip").arg("-o").arg(packed).arg(built));
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let wheel = run(Command::new(root.join("ci/wheel.sh"))
            .args([path("programs"), path("out")])
            .env("HATCHLING", client_python()));
        run(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(path("venv")));
        run(Command::new(path("venv/bin/python")).args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            wheel.trim(),
        ]));
        let clawrl = |arguments: &[&str]| {
            run(Command::new(path("venv/bin/clawrl")).args(arguments).current_dir(place.path()))
        };
        let version = clawrl(&["--version"]);
        assert!(version.starts_with(concat!("clawrl ", env!("CARGO_PKG_VERSION"), " (commit ")), "{version}");
        clawrl(&["new", "suite", "mine"]);
        let summary = clawrl(&["run", "mine", "--policy", "oracle"]);
        assert!(summary.contains("passed"), "{summary}");
    }
}
