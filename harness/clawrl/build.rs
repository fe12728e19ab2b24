//! With the feature `torch`: where libtorch is, for the loader and for `clawrl doctor`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(library_folder) = std::env::var("DEP_CLAWRL_TORCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath={library_folder}");
        println!("cargo::rustc-env=CLAWRL_LIBTORCH_FOLDER={library_folder}");
    }
}
