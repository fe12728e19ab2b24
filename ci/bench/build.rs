//! With the feature `torch`: the loader's path to libtorch.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(library_folder) = std::env::var("DEP_CLAWRL_TORCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath={library_folder}");
    }
}
