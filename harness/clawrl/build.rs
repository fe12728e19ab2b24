//! With the feature `torch`: sets where the loader and `clawrl doctor` find libtorch.
//!
//! If `CLAWRL_PORTABLE` is set, as for a wheel, the programs search only the Python environment in which they are
//! installed, not folders of the build machine.

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
