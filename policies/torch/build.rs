//! Passes on where libtorch is: the tests of this crate find it there, and so does what links this crate.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Ok(library_folder) = std::env::var("DEP_CLAWRL_TORCH_SHIM_LIBTORCH_LIB") else {
        println!("cargo::error=the shim did not say where libtorch is");
        return;
    };
    println!("cargo::rustc-link-arg=-Wl,-rpath={library_folder}");
    println!("cargo::metadata=libtorch_lib={library_folder}");
}
