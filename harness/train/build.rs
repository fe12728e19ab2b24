//! Lets the tests of this crate find the libtorch that they were linked to.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Ok(library_folder) = std::env::var("DEP_CLAWRL_TORCH_LIBTORCH_LIB") else {
        println!("cargo::error=clawrl-torch did not say where libtorch is");
        return;
    };
    println!("cargo::rustc-link-arg=-Wl,-rpath={library_folder}");
}
