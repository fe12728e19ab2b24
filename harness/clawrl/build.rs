//! With the feature `torch`: where the loader and `clawrl doctor` find libtorch.
//!
//! With the environment variable `CLAWRL_PORTABLE` set, as for a wheel, the programs know only the Python environment that they
//! are installed in, and no folder of the machine that built them.

/// The minor versions of Python 3 that PyTorch 2.11 has wheels for.
const PYTHON_MINORS: std::ops::RangeInclusive<u32> = 10..=14;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CLAWRL_PORTABLE");
    let (Ok(folder), Ok(version)) =
        (std::env::var("DEP_CLAWRL_TORCH_LIBTORCH_LIB"), std::env::var("DEP_CLAWRL_TORCH_LIBTORCH_VERSION"))
    else {
        return;
    };
    println!("cargo::rustc-env=CLAWRL_LIBTORCH_VERSION={version}");
    for minor in PYTHON_MINORS {
        println!("cargo::rustc-link-arg=-Wl,-rpath=$ORIGIN/../lib/python3.{minor}/site-packages/torch/lib");
    }
    if std::env::var_os("CLAWRL_PORTABLE").is_none() {
        println!("cargo::rustc-link-arg=-Wl,-rpath={folder}");
        println!("cargo::rustc-env=CLAWRL_LIBTORCH_FOLDER={folder}");
    }
}
