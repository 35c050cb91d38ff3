// Kernels and runs.
#include "internal.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using xrtd::driver;

namespace {

constexpr int first_buffer = 3;
constexpr uint64_t transaction = 3;

/// What happens where the real library indexes beyond a vector.
[[noreturn]] void crash(const char *what) {
  std::fprintf(stderr, "[xrt double] %s: the real library reads beyond its tables here\n", what);
  std::fflush(stderr);
  std::raise(SIGSEGV);
  std::abort();
}

bool has_ended(ert_cmd_state state) { return state == ERT_CMD_STATE_NEW || state >= ERT_CMD_STATE_COMPLETED; }

std::string name_of(ert_cmd_state state) {
  static const char *const names[] = {"",      "ERT_CMD_STATE_NEW",       "ERT_CMD_STATE_QUEUED",
                                      "ERT_CMD_STATE_RUNNING", "ERT_CMD_STATE_COMPLETED", "ERT_CMD_STATE_ERROR",
                                      "ERT_CMD_STATE_ABORT",   "ERT_CMD_STATE_SUBMITTED", "ERT_CMD_STATE_TIMEOUT",
                                      "ERT_CMD_STATE_NORESPONSE"};
  return state < std::size(names) ? names[state] : "unknown";
}

} // namespace

namespace xrt {

// Kernels

kernel_impl::kernel_impl(std::shared_ptr<hw_context_impl> context_, const std::string &full, bool is_elf_)
    : context(std::move(context_)), name(full.substr(0, full.find(':'))), is_elf(is_elf_) {
  driver().attempt("kernel");
  const bool elf_context = static_cast<bool>(context->elf);
  if (elf_context != is_elf)
    throw std::runtime_error(std::string("Invalid API called for xrt::kernel creation, xrt::hw_context passed is not "
                                         "created using ") +
                             (is_elf ? "full ELF" : "XCLBIN"));
  if (is_elf) {
    const auto colon = full.find(':');
    const auto *elf = context->elf.get_handle()->elf;
    size_t matching = 0;
    bool named = false;
    xrtd_kernel_view view;
    for (size_t i = 0; xrtd_elf_kernel(elf, i, &view); ++i) {
      if (name != view.name)
        continue;
      named = true;
      if (colon != std::string::npos && full.substr(colon + 1) != view.instance)
        continue;
      ++matching;
      code = view;
    }
    if (!named)
      throw std::runtime_error("no ELF found with given kernel name in ctx");
    if (!matching)
      throw std::runtime_error("Unable to find group idx for given kernel: " + full);
    if (matching > 1)
      throw std::runtime_error("Multiple sub kernels present for given kernel, cannot choose sub kernel\n");
    for (uint32_t i = 0; i < code.arguments; ++i)
      arguments.push_back({8 * i, 8, 0});
  } else {
    const auto *xclbin = context->xclbin.get_handle()->xclbin;
    size_t index = 0;
    for (; xrtd_xclbin_kernel(xclbin, index) && name != xrtd_xclbin_kernel(xclbin, index);)
      ++index;
    if (!xrtd_xclbin_kernel(xclbin, index))
      throw xrt_core::error("No such kernel '" + name + "'");
    xrtd_argument argument;
    for (size_t i = 0; xrtd_xclbin_argument(xclbin, index, i, &argument); ++i)
      arguments.push_back(argument);
    // Other banks than those that one may guess.
    const auto moved = static_cast<int32_t>(driver().number("BANKS", 0));
    for (auto &each : arguments)
      if (each.bank >= 0)
        each.bank += moved;
  }
  driver().set_up("kernels", 0.04);
  driver().add("kernels_live");
}

kernel_impl::~kernel_impl() { driver().add("kernels_live", -1); }

kernel::kernel(const hw_context &context, const std::string &name)
    : handle(std::make_shared<kernel_impl>(context.get_handle(), name, false)) {}

ext::kernel::kernel(const hw_context &context, const std::string &name)
    : xrt::kernel(std::make_shared<kernel_impl>(context.get_handle(), name, true)) {}

kernel::~kernel() { xrtd::released(handle, "a kernel"); }

int kernel::group_id(int index) const {
  if (handle->is_elf)
    crash("group_id of a kernel of a full ELF");
  const auto bank = handle->arguments.at(static_cast<size_t>(index)).bank;
  return static_cast<int>((static_cast<uint32_t>(bank) & 0xffffu) | handle->context->slot << 16);
}

uint32_t kernel::offset(int index) const { return handle->arguments.at(static_cast<size_t>(index)).offset; }

std::string kernel::get_name() const { return handle->name; }

// Runs

run_impl::run_impl(std::shared_ptr<kernel_impl> kernel_)
    : kernel(std::move(kernel_)), buffers(kernel->arguments.size()), scalars(kernel->arguments.size()),
      bound(kernel->arguments.size()) {
  driver().attempt("run");
  driver().set_up("runs", 0);
  driver().add("runs_live");
}

run_impl::~run_impl() {
  if (!has_ended(state)) {
    std::fprintf(stderr, "[xrt double] xrt::run destructed while command is still in progress\n");
    if (!std::uncaught_exceptions())
      std::abort();
  }
  driver().add("runs_live", -1);
}

size_t run_impl::checked(int index) const {
  driver().attempt("set_arg");
  driver().add("set_args");
  if (index < 0 || static_cast<size_t>(index) >= kernel->arguments.size())
    crash("set_arg beyond the kernel's arguments");
  return static_cast<size_t>(index);
}

void run_impl::submit() {
  if (!has_ended(state))
    throw std::runtime_error("bad command state, can't launch");
  if (kernel->is_elf) {
    size_t needed = 0;
    size_t patched = 0;
    for (size_t i = 0; i < 64; ++i)
      if (kernel->code.patched >> i & 1) {
        ++needed;
        patched += i < bound.size() && bound[i];
      }
    if (needed != patched)
      throw std::runtime_error("ctrlcode requires " + std::to_string(needed) + " patched arguments, but only " +
                               std::to_string(patched) + " are patched");
  }
  driver().attempt("start");
  driver().add("starts");
  state = ERT_CMD_STATE_RUNNING;
}

/// The command runs while somebody waits for it.
void run_impl::complete() {
  if (has_ended(state) || stuck)
    return;
  auto ended = kernel->context->broken ? ERT_CMD_STATE_ABORT : execute();
  static const std::pair<const char *, ert_cmd_state> injected[] = {{"error", ERT_CMD_STATE_ERROR},
                                                                    {"abort", ERT_CMD_STATE_ABORT},
                                                                    {"timeout", ERT_CMD_STATE_TIMEOUT},
                                                                    {"noresponse", ERT_CMD_STATE_NORESPONSE}};
  for (const auto &[name, other] : injected)
    if (driver().is_chosen("STATE", name))
      ended = other;
  state = ended;
  if (ended != ERT_CMD_STATE_COMPLETED)
    kernel->context->broken = true;
}

ert_cmd_state run_impl::execute() {
  driver().add("executed");
  if (driver().is_set("EMPTY"))
    return ERT_CMD_STATE_COMPLETED;
  const size_t first = kernel->is_elf ? 0 : first_buffer;
  std::vector<std::shared_ptr<bo_impl>> held;
  std::vector<xrtd_span> spans;
  bool garbage = false;
  for (size_t i = first; i < buffers.size(); ++i) {
    auto buffer = buffers[i].lock();
    if (bound[i] && !buffer)
      return ERT_CMD_STATE_ERROR; // it has been freed, and is not mapped any more
    if (!buffer) {
      spans.push_back({nullptr, 0});
      continue;
    }
    garbage |= !kernel->is_elf && static_cast<int32_t>(buffer->bank()) != kernel->arguments[i].bank;
    spans.push_back({buffer->copy.data(), buffer->copy.size()});
    held.push_back(std::move(buffer));
  }
  return kernel->is_elf ? execute_elf(spans) : execute_xclbin(spans, garbage);
}

ert_cmd_state run_impl::execute_elf(const std::vector<xrtd_span> &spans) {
  const auto &code = kernel->code;
  return static_cast<ert_cmd_state>(xrtd_execute(code.code, code.code_size, kernel->context->device->generation,
                                                 spans.data(), spans.size(), false));
}

ert_cmd_state run_impl::execute_xclbin(const std::vector<xrtd_span> &spans, bool garbage) {
  auto insts = buffers[1].lock();
  if (!insts || scalars[0] != transaction)
    return ERT_CMD_STATE_ERROR;
  // Instructions are fetched from the device's own heap.
  if (insts->flags != bo::flags::cacheable || static_cast<int32_t>(insts->bank()) != kernel->arguments[1].bank)
    return ERT_CMD_STATE_TIMEOUT;
  const uint64_t words = scalars[2] & 0xffff'ffffu;
  if (words > insts->size / 4)
    return ERT_CMD_STATE_ERROR;
  return static_cast<ert_cmd_state>(xrtd_execute(insts->copy.data(), words * 4, kernel->context->device->generation,
                                                 spans.data(), spans.size(), garbage));
}

class run::command_error_impl {
public:
  ert_cmd_state state;
  std::string what;
};

run::command_error::command_error(ert_cmd_state state, const std::string &what)
    : detail::pimpl<command_error_impl>(std::make_shared<command_error_impl>(command_error_impl{state, what})) {}

run::command_error::command_error(const xrt::run &run, const std::string &what) : command_error(run.state(), what) {}

ert_cmd_state run::command_error::get_command_state() const { return handle->state; }

const char *run::command_error::what() const noexcept { return handle->what.c_str(); }

run::aie_error::aie_error(const xrt::run &run, const std::string &what) : command_error(run, what) {}

run::run(const kernel &kernel) : handle(std::make_shared<run_impl>(kernel.get_handle())) {}

run::~run() { xrtd::released(handle, "a run"); }

void run::start() {
  if (handle->in_list)
    throw xrt_core::error("Run object belongs to a runlist and cannot be explicitly started");
  handle->submit();
}

ert_cmd_state run::wait(const std::chrono::milliseconds &) const {
  if (driver().is_chosen("FAIL", "wait")) {
    handle->stuck = true;
    throw xrt_core::system_error(EIO, "the emulated driver was told to fail at wait");
  }
  handle->complete();
  return handle->state;
}

std::cv_status run::wait2(const std::chrono::milliseconds &timeout) const {
  const auto state = wait(timeout);
  if (state != ERT_CMD_STATE_COMPLETED)
    throw aie_error(*this, "Command failed to complete successfully (" + name_of(state) + ")");
  return std::cv_status::no_timeout;
}

ert_cmd_state run::state() const {
  handle->complete();
  return handle->state;
}

void run::set_arg_at_index(int index, const void *value, size_t bytes) {
  const size_t at = handle->checked(index);
  uint64_t number = 0;
  std::memcpy(&number, value, std::min(bytes, sizeof number));
  handle->scalars[at] = number;
  handle->bound[at] = true;
}

void run::set_arg_at_index(int index, const bo &buffer) {
  const size_t at = handle->checked(index);
  if (!has_ended(handle->state))
    throw std::runtime_error("xrt::run::set_arg called while command is still in progress");
  handle->buffers[at] = buffer.get_handle();
  handle->bound[at] = true;
}

// Runlists

class runlist_impl {
public:
  enum class Is { idle, running };

  xrtd::Parent<hw_context_impl> context;
  std::vector<xrt::run> runs;
  Is is = Is::idle;
  ert_cmd_state state = ERT_CMD_STATE_COMPLETED;
  std::atomic<long> children{0};

  explicit runlist_impl(std::shared_ptr<hw_context_impl> on) : context(std::move(on)) {
    driver().attempt("runlist");
    driver().set_up("runlists", 0);
    driver().add("runlists_live");
  }
  ~runlist_impl() {
    clear();
    driver().add("runlists_live", -1);
  }
  void clear() {
    for (auto &run : runs)
      run.get_handle()->in_list = false;
    runs.clear();
  }
};

class runlist::command_error_impl {
public:
  xrt::run run;
  ert_cmd_state state;
  std::string what;
};

runlist::command_error::command_error(const xrt::run &run, ert_cmd_state state, const std::string &what)
    : detail::pimpl<command_error_impl>(std::make_shared<command_error_impl>(command_error_impl{run, state, what})) {}

xrt::run runlist::command_error::get_run() const { return handle->run; }

ert_cmd_state runlist::command_error::get_command_state() const { return handle->state; }

const char *runlist::command_error::what() const noexcept { return handle->what.c_str(); }

runlist::aie_error::aie_error(const xrt::run &run, ert_cmd_state state, const std::string &what)
    : command_error(run, state, what) {}

runlist::runlist(const hw_context &context)
    : detail::pimpl<runlist_impl>(std::make_shared<runlist_impl>(context.get_handle())) {}

runlist::~runlist() = default;

void runlist::add(const xrt::run &run) { add(xrt::run(run)); }

void runlist::add(xrt::run &&run) {
  if (!handle)
    throw xrt_core::error("cannot add run object to uninitialized runlist");
  if (handle->is != runlist_impl::Is::idle)
    throw xrt_core::error("runlist must be idle before adding run objects, current state: running");
  auto &impl = *run.get_handle();
  if (impl.in_list)
    throw xrt_core::error("Run object already belongs to a runlist");
  if (impl.kernel->context.get() != handle->context.get())
    throw xrt_core::error("Run object belongs to another hardware context than the runlist");
  impl.in_list = true;
  handle->runs.push_back(std::move(run));
}

void runlist::execute() {
  if (handle->is != runlist_impl::Is::idle)
    throw xrt_core::error("runlist must be idle before submitting for execution, current state: running");
  for (auto &run : handle->runs)
    run.get_handle()->submit();
  driver().add("executes");
  if (!handle->runs.empty())
    handle->is = runlist_impl::Is::running;
}

std::cv_status runlist::wait(const std::chrono::milliseconds &) const {
  if (handle->is != runlist_impl::Is::running)
    return std::cv_status::no_timeout;
  if (driver().is_chosen("FAIL", "wait")) {
    for (auto &run : handle->runs)
      run.get_handle()->stuck = true;
    throw xrt_core::system_error(EIO, "the emulated driver was told to fail at wait");
  }
  handle->is = runlist_impl::Is::idle;
  for (size_t i = 0; i < handle->runs.size(); ++i) {
    const auto &run = handle->runs[i];
    run.get_handle()->complete();
    handle->state = run.get_handle()->state;
    if (handle->state == ERT_CMD_STATE_COMPLETED)
      continue;
    for (size_t later = i + 1; later < handle->runs.size(); ++later)
      handle->runs[later].get_handle()->state = ERT_CMD_STATE_ABORT;
    throw aie_error(run, handle->state, "runlist failed execution (" + name_of(handle->state) + ")");
  }
  return std::cv_status::no_timeout;
}

ert_cmd_state runlist::state() const { return handle->state; }

void runlist::reset() {
  if (handle->is == runlist_impl::Is::running)
    throw xrt_core::error("The runlist is submitted for execution and cannot be reset");
  handle->clear();
}

} // namespace xrt
