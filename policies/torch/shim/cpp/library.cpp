// Which libtorch the process runs on, and its CUDA half, which comes in only when it is asked for.
#include "shim.h"

#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <link.h>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

uint64_t clawrl_libtorch_version() noexcept { return aoti_torch_abi_version(); }

char *clawrl_libtorch_path() noexcept {
  // Not loaded anew: this only takes one more reference, given back below.
  void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    return nullptr;
  }
  link_map *entry = nullptr;
  char *path = dlinfo(library, RTLD_DI_LINKMAP, &entry) == 0 ? strdup(entry->l_name) : nullptr;
  dlclose(library);
  return path;
}

char *clawrl_load_library(const char *path) noexcept {
  if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) != nullptr) {
    return nullptr;
  }
  const char *error = dlerror();
  return strdup(error != nullptr ? error : "the loader gives no reason");
}

void clawrl_free_text(char *text) noexcept { free(text); }
