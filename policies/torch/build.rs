//! Passes on where libtorch is, and its version: the tests of this crate load it from there, and so does what links this crate.

/// The version that this crate is written for; `src/runtime.rs` refuses another one.
const LIBTORCH_VERSION: &str = "2.11.0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Ok(library_folder) = std::env::var("DEP_CLAWRL_TORCH_SHIM_LIBTORCH_LIB") else {
        println!("cargo::error=the shim did not say where libtorch is");
        return;
    };
    println!("cargo::rustc-link-arg=-Wl,-rpath={library_folder}");
    println!("cargo::metadata=libtorch_lib={library_folder}");
    println!("cargo::metadata=libtorch_version={LIBTORCH_VERSION}");
    println!("cargo::rustc-env=CLAWRL_LIBTORCH_VERSION={LIBTORCH_VERSION}");
}
