/* Calls a cpu kernel of three ranked arguments as a C program would. */
#include <dlfcn.h>
#include <stdint.h>

struct scratch {
  void *base;
  uint64_t capacity, needed;
};

static void (*kernel)(const uint64_t *slots, const uint32_t *grid, uint64_t first, uint64_t end, struct scratch *);

int open_kernel(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return -1;
  *(void **)&kernel = dlsym(library, "npu_cpu_run_v1");
  return kernel ? 0 : -1;
}

void run_kernel(const void *a, const void *b, void *c) {
  uint64_t slots[] = {(uint64_t)a, (uint64_t)b, (uint64_t)c};
  uint32_t grid[] = {1, 1, 1};
  struct scratch scratch = {0};
  kernel(slots, grid, 0, 1, &scratch);
}
