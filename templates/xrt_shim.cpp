// The launch shim: XRT's C++ API behind a small C ABI, for npu-runtime to load with dlopen. It is
// compiled once per XRT installation: as C++17, with XRT's include directory and -lxrt_coreutil,
// without -fvisibility=hidden (XRT's exceptions must be the library's). XRT's headers need uuid/uuid.h.
//
// What it keeps, for the whole process: one device, which is opened once; a list of sessions in the
// order of their last use; and, in each session, everything that a launch needs again: the full ELF
// or xclbin, the hardware context, kernels, runs, instruction BOs, and staging BOs that only grow.
// A launch that finds its session makes no object of XRT's.
//
// Functions
//   npu_xrt_abi          the version of this ABI; a caller refuses any other
//   npu_xrt_open         opens the device, unless it is open
//   npu_xrt_device_name  the device's name, as XRT tells it
//   npu_xrt_load         makes a kernel of an artifact; opens its session
//   npu_xrt_unload       frees a kernel, and its session if no other kernel uses it
//   npu_xrt_launch       runs calls, in order, and waits for them: consecutive calls of one artifact
//                        share a runlist, at most 32 at a time
//   npu_xrt_buffer_make  makes memory that both sides see, npu_xrt_buffer_free frees it
//   npu_xrt_counts       what has been done since the device was opened
//   npu_xrt_close        frees all sessions and the device; a later call opens them again
//
// Ownership. A kernel belongs to the caller from npu_xrt_load to npu_xrt_unload, a buffer and its
// mapping from npu_xrt_buffer_make to npu_xrt_buffer_free. Artifacts, instruction streams and names are
// copied by npu_xrt_load. Nothing else that is passed in is kept beyond the call.
//
// Sessions come and go. If there is no hardware context to be had, the session that was used least
// recently is freed, and the context asked for once more; the kernels of a freed session stay valid,
// and their next launch opens a new one. A session whose run did not complete is freed, too.
//
// Errors. A function that can fail returns NPU_XRT_OK or another code, and fills in the error: a
// message for people, NUL-terminated, cut to the size of the caller's buffer. No exception leaves.
//
// Threads. Any thread may call anything at any time: one mutex is held by every function. A process
// that was forked off can't use what its parent opened.
//
// Objects are destroyed in the order run, BOs, kernel, context, device: that is the reverse order of
// the members below. At exit nothing is destroyed, because XRT's own globals may be gone by then.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "xrt/xrt_bo.h"
#include "xrt/xrt_device.h"
#include "xrt/xrt_hw_context.h"
#include "xrt/xrt_kernel.h"

#include "xrt/experimental/xrt_elf.h"
#include "xrt/experimental/xrt_ext.h"
#include "xrt/experimental/xrt_kernel.h"
#include "xrt/experimental/xrt_xclbin.h"

#define NPU_XRT_API extern "C" __attribute__((visibility("default")))

extern "C" {

enum npu_xrt_code : int32_t {
  NPU_XRT_OK = 0,
  NPU_XRT_INVALID = 1, // the call makes no sense; nothing has run
  NPU_XRT_FAILED = 2,  // XRT refused something
  NPU_XRT_STATE = 3,   // a run ended in another state than COMPLETED
  NPU_XRT_CHANGED = 4, // everything ran, and the kernel wrote an argument with NPU_XRT_CHECK
};

enum npu_xrt_flags : uint32_t {
  NPU_XRT_IN = 1,    // the kernel reads the memory
  NPU_XRT_OUT = 2,   // the kernel writes the memory
  NPU_XRT_CHECK = 4, // the kernel is said not to write it: compare afterwards
};

struct npu_xrt_error {
  char *text; // the caller's buffer
  uint64_t size;
  uint32_t state;    // of the run, ert_cmd_state, if the code is NPU_XRT_STATE
  uint32_t argument; // which one was written, if the code is NPU_XRT_CHANGED
  uint64_t offset;   // and its first byte that was
  uint64_t call;     // the first that is not complete; the outputs of those before it are there
};

struct npu_xrt_image {
  const char *key;      // names the artifact's content: kernels with equal keys share a session
  const void *artifact; // a full ELF, or an xclbin
  uint64_t artifact_size;
  const void *insts; // the instruction stream of an xclbin, null for a full ELF
  uint64_t insts_size;
  const char *kernel; // "main:sequence" in a full ELF; the first letters of a name in an xclbin
  uint64_t arguments; // how many buffers its launches will have
};

struct npu_xrt_kernel;
struct npu_xrt_buffer;

struct npu_xrt_argument {
  void *data;             // host memory, which is staged; it is not written without NPU_XRT_OUT
  npu_xrt_buffer *buffer; // or a buffer
  uint64_t size;          // in bytes
  uint32_t flags;
  uint32_t reserved;
};

struct npu_xrt_call {
  npu_xrt_kernel *kernel;
  const npu_xrt_argument *arguments;
  uint64_t count;
};

struct npu_xrt_counted {
  uint64_t sessions; // open now
  uint64_t opened;
  uint64_t evicted;   // freed to make room for others
  uint64_t abandoned; // never freed, because a run in them did not end
  uint64_t kernels;   // loaded, those of new sessions included
  uint64_t submitted; // runs and runlists that XRT was told of
  uint64_t completed; // runs
  uint64_t buffers;   // made, those for copies included
};

} // extern "C"

namespace {

constexpr uint32_t abi_version = 1;
constexpr size_t most_runs = 32;
constexpr int first_buffer = 3; // behind opcode, instructions and their number
constexpr uint64_t transaction = 3;
constexpr int most_arguments = 4096;

struct Failure {
  npu_xrt_code code;
  std::string text;
  uint32_t state = 0;
  uint32_t argument = 0;
  uint64_t offset = 0;
};

[[noreturn]] void refuse(const std::string &text) { throw Failure{NPU_XRT_INVALID, text}; }

struct Artifact {
  std::string key;
  std::vector<char> bytes;
  bool is_elf = false;
};

/// A BO with its mapping. Its number is never used again, unlike an address.
struct Memory {
  xrt::bo bo;
  char *map = nullptr;
  uint64_t size = 0;
  uint64_t number = 0;
};

/// What an argument of a kernel has to be allocated in; a full ELF does not care.
struct Group {
  int id = 0;
  bool matters = false;

  /// The memory bank is in the low half, the context's slot is not.
  uint32_t bank() const { return static_cast<uint32_t>(id) & 0xffffu; }

  bool takes(const Memory &memory) const {
    return !matters || (memory.bo.get_memory_group() & 0xffffu) == bank();
  }
};

/// A run, with what its arguments are bound to.
struct Run {
  std::vector<Memory> staged; // by argument
  std::vector<uint64_t> bound;
  xrt::run run;
};

/// A kernel in a session.
struct Loaded {
  npu_xrt_kernel *owner = nullptr;
  xrt::kernel kernel;
  xrt::bo insts;
  std::vector<Group> groups; // by argument
  std::vector<std::unique_ptr<Run>> runs;
};

struct Session {
  std::shared_ptr<const Artifact> artifact;
  xrt::elf elf;
  xrt::xclbin xclbin;
  xrt::hw_context context;
  std::list<Loaded> kernels;
  xrt::runlist runlist; // empty between launches
};

} // namespace

struct npu_xrt_kernel {
  std::shared_ptr<const Artifact> artifact;
  std::vector<char> insts;
  std::string name;
  Session *session = nullptr; // null if it was freed
  Loaded *loaded = nullptr;
};

struct npu_xrt_buffer {
  Memory memory;
};

namespace {

/// Memory that the calls of one batch use: each piece is copied in and out once.
struct Piece {
  char *host = nullptr; // null if it is a buffer's own
  const char *start = nullptr;
  Memory *memory = nullptr;
  uint64_t size = 0;
  bool filled = false; // with what the host has there
  size_t first_writer = SIZE_MAX;
  size_t checked_by = SIZE_MAX; // a call, and its argument
  uint32_t argument = 0;
  std::vector<char> before; // what a checked buffer held

  bool overlaps(const char *other, uint64_t length) const {
    return start < other + length && other < start + size;
  }
};

const char *name_of(ert_cmd_state state) {
  switch (state) {
  case ERT_CMD_STATE_NEW: return "NEW";
  case ERT_CMD_STATE_QUEUED: return "QUEUED";
  case ERT_CMD_STATE_RUNNING: return "RUNNING";
  case ERT_CMD_STATE_COMPLETED: return "COMPLETED";
  case ERT_CMD_STATE_ERROR: return "ERROR";
  case ERT_CMD_STATE_ABORT: return "ABORT";
  case ERT_CMD_STATE_SUBMITTED: return "SUBMITTED";
  case ERT_CMD_STATE_TIMEOUT: return "TIMEOUT";
  case ERT_CMD_STATE_NORESPONSE: return "NORESPONSE";
  default: return "unknown";
  }
}

bool has_ended(ert_cmd_state state) {
  return state == ERT_CMD_STATE_COMPLETED || state == ERT_CMD_STATE_ERROR || state == ERT_CMD_STATE_ABORT ||
         state >= ERT_CMD_STATE_TIMEOUT;
}

class Shim {
  std::mutex mutex_;
  uint32_t index_ = 0;
  xrt::device device_;
  uint64_t buffers_ = 0;
  Group data_group_; // of the last xclbin: buffers are made for it
  std::vector<std::weak_ptr<const Artifact>> artifacts_;
  std::list<Session> sessions_;  // the most recently used one first
  std::list<Session> abandoned_; // never looked at again
  npu_xrt_counted counted_{};
  // Of a launch; kept so that it allocates nothing.
  std::vector<Piece> pieces_;
  std::vector<Run *> runs_;

  xrt::device &device() {
    if (!device_)
      device_ = xrt::device(index_);
    return device_;
  }

  Memory allocate(uint64_t size, const Group &group) {
    Memory memory;
    memory.size = std::max<uint64_t>(size, 4);
    if (group.matters)
      memory.bo = xrt::bo(device(), memory.size, xrt::bo::flags::host_only, static_cast<xrt::memory_group>(group.id));
    else
      memory.bo = xrt::ext::bo(device(), memory.size);
    memory.map = memory.bo.map<char *>();
    memory.number = ++counted_.buffers;
    return memory;
  }

  // Sessions

  std::list<Session>::iterator find(const Session *session) {
    return std::find_if(sessions_.begin(), sessions_.end(), [&](const Session &s) { return &s == session; });
  }

  /// XRT ends the process if a run is destroyed that has not ended.
  static bool is_busy(const Session &session) noexcept {
    try {
      for (const auto &loaded : session.kernels)
        for (const auto &run : loaded.runs) {
          const auto state = run->run.state();
          if (state != ERT_CMD_STATE_NEW && !has_ended(state))
            return true;
        }
      return false;
    } catch (...) {
      return true;
    }
  }

  void free_session(std::list<Session>::iterator session) noexcept {
    for (auto &loaded : session->kernels) {
      loaded.owner->session = nullptr;
      loaded.owner->loaded = nullptr;
    }
    if (is_busy(*session)) {
      ++counted_.abandoned;
      abandoned_.splice(abandoned_.end(), sessions_, session);
    } else {
      sessions_.erase(session);
    }
  }

  xrt::hw_context make_context(const Session &session) {
    if (session.artifact->is_elf)
      return xrt::hw_context(device(), session.elf);
    const auto uuid = device().register_xclbin(session.xclbin);
    return xrt::hw_context(device_, uuid);
  }

  Session &session_of(const std::shared_ptr<const Artifact> &artifact) {
    for (auto session = sessions_.begin(); session != sessions_.end(); ++session)
      if (session->artifact == artifact) {
        sessions_.splice(sessions_.begin(), sessions_, session);
        return *session;
      }
    std::list<Session> made(1);
    Session &session = made.front();
    session.artifact = artifact;
    const auto &bytes = artifact->bytes;
    if (artifact->is_elf)
      session.elf = xrt::elf(bytes.data(), bytes.size());
    else
      session.xclbin = xrt::xclbin(bytes);
    try {
      session.context = make_context(session);
    } catch (const std::exception &) {
      if (sessions_.empty())
        throw;
      free_session(std::prev(sessions_.end()));
      ++counted_.evicted;
      session.context = make_context(session);
    }
    ++counted_.opened;
    sessions_.splice(sessions_.begin(), made);
    return session;
  }

  // Kernels

  static std::string name_in(const xrt::xclbin &xclbin, const std::string &wanted) {
    // The name itself, or else the only one that starts with it.
    std::string names, beginning;
    bool several = false;
    for (const auto &kernel : xclbin.get_kernels()) {
      auto name = kernel.get_name();
      if (name == wanted || name.substr(0, name.find(':')) == wanted)
        return name;
      if (name.compare(0, wanted.size(), wanted) == 0) {
        several = !beginning.empty();
        beginning = name;
      }
      names += (names.empty() ? "" : ", ") + name;
    }
    if (!beginning.empty() && !several)
      return beginning;
    const std::string which = several ? "several kernels whose names start" : "no kernel whose name starts";
    refuse("the xclbin has " + which + " with `" + wanted + "`; it has: " + names);
  }

  /// Asking for one argument too many is an exception here, and a crash in set_arg.
  static int arguments_of(const xrt::kernel &kernel) {
    int count = 0;
    try {
      while (count < most_arguments) {
        kernel.offset(count);
        ++count;
      }
    } catch (const std::out_of_range &) {
      // That was the last one.
    }
    return count;
  }

  void load_elf(npu_xrt_kernel &owner, Session &session, Loaded &loaded) {
    loaded.kernel = xrt::ext::kernel(session.context, owner.name);
    loaded.groups.resize(static_cast<size_t>(arguments_of(loaded.kernel)));
  }

  void load_xclbin(npu_xrt_kernel &owner, Session &session, Loaded &loaded) {
    loaded.kernel = xrt::kernel(session.context, name_in(session.xclbin, owner.name));
    const int arguments = arguments_of(loaded.kernel);
    if (arguments < first_buffer)
      refuse("the kernel of the xclbin takes no instruction stream");
    for (int i = first_buffer; i < arguments; ++i)
      loaded.groups.push_back(Group{loaded.kernel.group_id(i), true});
    // A buffer may outlive the context, so it is not made for its slot.
    if (!loaded.groups.empty())
      data_group_ = Group{static_cast<int>(loaded.groups.front().bank()), true};
    const auto group = static_cast<xrt::memory_group>(loaded.kernel.group_id(1));
    loaded.insts = xrt::bo(device(), owner.insts.size(), xrt::bo::flags::cacheable, group);
    std::memcpy(loaded.insts.map<void *>(), owner.insts.data(), owner.insts.size());
    loaded.insts.sync(XCL_BO_SYNC_BO_TO_DEVICE);
  }

  /// The kernel in its session, which becomes the most recently used one.
  Loaded &ensure(npu_xrt_kernel &owner) {
    if (owner.loaded) {
      if (owner.session != &sessions_.front())
        sessions_.splice(sessions_.begin(), sessions_, find(owner.session));
      return *owner.loaded;
    }
    Session &session = session_of(owner.artifact);
    std::list<Loaded> made(1);
    Loaded &loaded = made.front();
    loaded.owner = &owner;
    try {
      if (owner.artifact->is_elf)
        load_elf(owner, session, loaded);
      else
        load_xclbin(owner, session, loaded);
    } catch (...) {
      made.clear();
      if (session.kernels.empty())
        sessions_.erase(find(&session));
      throw;
    }
    session.kernels.splice(session.kernels.end(), made);
    ++counted_.kernels;
    owner.session = &session;
    owner.loaded = &loaded;
    return loaded;
  }

  /// A kernel's part of its session, and the session with its last kernel.
  void free_loaded(npu_xrt_kernel &owner) {
    auto session = find(owner.session);
    if (session->kernels.size() == 1)
      return free_session(session);
    session->kernels.remove_if([&](const Loaded &loaded) { return loaded.owner == &owner; });
  }

  Run &run_at(Loaded &loaded, size_t index) {
    if (index == loaded.runs.size()) {
      auto made = std::make_unique<Run>();
      made->staged.resize(loaded.groups.size());
      made->bound.resize(loaded.groups.size());
      made->run = xrt::run(loaded.kernel);
      if (!loaded.owner->insts.empty()) {
        made->run.set_arg(0, transaction);
        made->run.set_arg(1, loaded.insts);
        made->run.set_arg(2, static_cast<uint32_t>(loaded.owner->insts.size() / 4));
      }
      loaded.runs.push_back(std::move(made));
    }
    return *loaded.runs[index];
  }

  // Launches

  static const char *start_of(const npu_xrt_argument &argument) {
    return argument.buffer ? argument.buffer->memory.map : static_cast<const char *>(argument.data);
  }

  static void check_count(const std::string &name, uint64_t count, size_t parameters) {
    if (count > parameters)
      refuse("the kernel `" + name + "` takes " + std::to_string(parameters) + " buffers, and not " +
             std::to_string(count));
  }

  static void check(const npu_xrt_call &call, size_t parameters) {
    const auto &name = call.kernel->name;
    check_count(name, call.count, parameters);
    for (uint64_t i = 0; i < call.count; ++i) {
      const auto &argument = call.arguments[i];
      if (!argument.buffer && !argument.data && argument.size)
        refuse("argument " + std::to_string(i) + " of `" + name + "` has no memory");
      if (argument.buffer && argument.size > argument.buffer->memory.size)
        refuse("argument " + std::to_string(i) + " of `" + name + "` is larger than its buffer");
    }
  }

  /// Whether a call can be in one batch with those before it: they may share memory, but not parts.
  bool joins(const npu_xrt_call &call, const Loaded &loaded) const {
    for (uint64_t i = 0; i < call.count; ++i) {
      const auto &argument = call.arguments[i];
      const char *start = start_of(argument);
      for (const auto &piece : pieces_)
        if (piece.overlaps(start, argument.size) &&
            (piece.start != start || piece.size != argument.size || !loaded.groups[i].takes(*piece.memory)))
          return false;
    }
    return true;
  }

  Piece &piece_of(const npu_xrt_argument &argument, size_t position, Run &run, size_t index, const Group &group) {
    const char *start = start_of(argument);
    if (argument.size)
      for (auto &piece : pieces_)
        if (piece.start == start && piece.size == argument.size && group.takes(*piece.memory)) {
          // Unless an earlier call writes what this one reads.
          if (!piece.filled && piece.first_writer >= position)
            copy_in(argument, piece);
          return piece;
        }
    Piece piece;
    piece.start = start;
    piece.size = argument.size;
    if (argument.buffer && group.takes(argument.buffer->memory)) {
      piece.memory = &argument.buffer->memory;
    } else {
      auto &staged = run.staged[index];
      if (staged.size < argument.size || !staged.map) {
        staged = Memory{};
        staged = allocate(argument.size, group);
      }
      piece.memory = &staged;
      piece.host = argument.buffer ? argument.buffer->memory.map : static_cast<char *>(argument.data);
    }
    copy_in(argument, piece);
    pieces_.push_back(std::move(piece));
    return pieces_.back();
  }

  static void copy_in(const npu_xrt_argument &argument, Piece &piece) {
    if (!(argument.flags & NPU_XRT_IN) || !piece.size)
      return;
    if (piece.host)
      std::memcpy(piece.memory->map, piece.host, piece.size);
    else if (argument.flags & NPU_XRT_CHECK)
      piece.before.assign(piece.memory->map, piece.memory->map + piece.size);
    piece.memory->bo.sync(XCL_BO_SYNC_BO_TO_DEVICE, piece.size, 0);
    piece.filled = true;
  }

  void bind(const npu_xrt_call &call, Loaded &loaded, size_t position) {
    const int first = loaded.owner->insts.empty() ? 0 : first_buffer;
    // Each run of a batch is another one, so that none of a kernel's is in use twice.
    size_t used = 0;
    for (size_t i = 0; i < position; ++i)
      used += used < loaded.runs.size() && runs_[i] == loaded.runs[used].get();
    Run &run = run_at(loaded, used);
    runs_.push_back(&run);
    for (size_t i = 0; i < call.count; ++i) {
      const auto &argument = call.arguments[i];
      Piece &piece = piece_of(argument, position, run, i, loaded.groups[i]);
      if ((argument.flags & NPU_XRT_OUT) && piece.first_writer == SIZE_MAX)
        piece.first_writer = position;
      if ((argument.flags & NPU_XRT_CHECK) && piece.checked_by == SIZE_MAX) {
        piece.checked_by = position;
        piece.argument = static_cast<uint32_t>(i);
      }
      if (run.bound[i] != piece.memory->number) {
        run.bound[i] = 0;
        run.run.set_arg(first + static_cast<int>(i), piece.memory->bo);
        run.bound[i] = piece.memory->number;
      }
    }
  }

  /// Runs what is bound. Fails with the number of runs that are complete.
  void execute(Session &session, size_t &completed) {
    ++counted_.submitted;
    if (runs_.size() == 1) {
      runs_.front()->run.start();
      runs_.front()->run.wait2();
    } else {
      if (!session.runlist)
        session.runlist = xrt::runlist(session.context);
      for (auto *run : runs_)
        session.runlist.add(run->run);
      session.runlist.execute();
      session.runlist.wait();
      // A run that stays in the list can't be started by itself.
      session.runlist.reset();
    }
    completed = runs_.size();
  }

  static Failure ended(const npu_xrt_call &call, ert_cmd_state state, const char *what) {
    std::string text = "a run of the kernel `" + call.kernel->name + "` ended in the state " + name_of(state) + " (" +
                       std::to_string(state) + ") instead of COMPLETED, so its outputs mean nothing: " + what;
    if (state == ERT_CMD_STATE_TIMEOUT)
      text += "; the driver stops what takes longer than its time limit, 2 seconds by default";
    return Failure{NPU_XRT_STATE, std::move(text), static_cast<uint32_t>(state)};
  }

  /// As execute, with XRT's ways of telling how a run ended.
  void run_all(const npu_xrt_call *calls, Session &session, size_t &completed) {
    try {
      execute(session, completed);
    } catch (const xrt::run::command_error &error) {
      throw ended(calls[0], error.get_command_state(), error.what());
    } catch (const xrt::runlist::command_error &error) {
      const auto failed = error.get_run().get_handle();
      auto at = std::find_if(runs_.begin(), runs_.end(), [&](Run *run) { return run->run.get_handle() == failed; });
      completed = at == runs_.end() ? 0 : static_cast<size_t>(at - runs_.begin());
      throw ended(calls[completed], error.get_command_state(), error.what());
    }
  }

  void copy_out(size_t completed) {
    counted_.completed += completed;
    for (auto &piece : pieces_)
      if (piece.first_writer < completed && piece.size) {
        piece.memory->bo.sync(XCL_BO_SYNC_BO_FROM_DEVICE, piece.size, 0);
        if (piece.host)
          std::memcpy(piece.host, piece.memory->map, piece.size);
      }
  }

  void compare(const npu_xrt_call *calls, size_t &completed) {
    for (auto &piece : pieces_) {
      if (piece.checked_by == SIZE_MAX || piece.first_writer != SIZE_MAX || !piece.size)
        continue;
      piece.memory->bo.sync(XCL_BO_SYNC_BO_FROM_DEVICE, piece.size, 0);
      const char *before = piece.host ? piece.host : piece.before.data();
      const char *end = before + piece.size;
      const char *changed = std::mismatch(before, end, piece.memory->map).first;
      if (changed == end)
        continue;
      const auto &name = calls[piece.checked_by].kernel->name;
      completed = piece.checked_by;
      throw Failure{NPU_XRT_CHANGED,
                    "the kernel `" + name + "` wrote its argument " + std::to_string(piece.argument) +
                        ", which is said to be an input",
                    0, piece.argument, static_cast<uint64_t>(changed - before)};
    }
  }

  /// Runs the first calls that can be one batch, and adds their number to `done`: those that are
  /// complete, if it fails.
  void run_batch(const npu_xrt_call *calls, uint64_t count, uint64_t &done) {
    pieces_.clear();
    runs_.clear();
    Loaded &first = ensure(*calls[0].kernel);
    Session &session = *calls[0].kernel->session;
    check(calls[0], first.groups.size());
    // A binding that fails half-way leaves nothing behind that the next launch would not repair.
    bind(calls[0], first, 0);
    const auto most = static_cast<size_t>(std::min<uint64_t>(count, most_runs));
    for (size_t i = 1; i < most && calls[i].kernel->artifact == session.artifact; ++i) {
      Loaded &loaded = ensure(*calls[i].kernel);
      check(calls[i], loaded.groups.size());
      if (!joins(calls[i], loaded))
        break;
      bind(calls[i], loaded, i);
    }
    size_t completed = 0;
    try {
      run_all(calls, session, completed);
      copy_out(completed);
      compare(calls, completed);
    } catch (const Failure &failure) {
      done += completed;
      if (failure.code == NPU_XRT_STATE) {
        copy_out(completed);
        free_session(find(&session));
      }
      throw;
    } catch (...) {
      free_session(find(&session));
      throw;
    }
    done += completed;
  }

  // The boundary

  static void tell(npu_xrt_error *error, const std::string &text) {
    if (!error || !error->text || !error->size)
      return;
    auto length = static_cast<size_t>(std::min<uint64_t>(text.size(), error->size - 1));
    // Not within a character.
    while (length && length < text.size() && (static_cast<unsigned char>(text[length]) & 0xc0u) == 0x80u)
      --length;
    std::memcpy(error->text, text.data(), length);
    error->text[length] = 0;
  }

  template <typename Body> int32_t guarded(npu_xrt_error *error, Body body) noexcept {
    try {
      std::lock_guard<std::mutex> lock(mutex_);
      body();
      return NPU_XRT_OK;
    } catch (const Failure &failure) {
      tell(error, failure.text);
      if (error) {
        error->state = failure.state;
        error->argument = failure.argument;
        error->offset = failure.offset;
      }
      return failure.code;
    } catch (const std::exception &exception) {
      tell(error, exception.what());
    } catch (...) {
      tell(error, "an exception of an unknown type");
    }
    return NPU_XRT_FAILED;
  }

public:
  int32_t open(uint32_t index, npu_xrt_error *error) noexcept {
    return guarded(error, [&] {
      if (device_ && index != index_)
        refuse("device " + std::to_string(index_) + " is open, and a process has one");
      index_ = index;
      device();
    });
  }

  int32_t name(char *text, uint64_t size, npu_xrt_error *error) noexcept {
    return guarded(error, [&] {
      npu_xrt_error into{text, size, 0, 0, 0, 0};
      tell(&into, device().get_info<xrt::info::device::name>());
    });
  }

  int32_t load(const npu_xrt_image &image, npu_xrt_kernel **result, npu_xrt_error *error) noexcept {
    return guarded(error, [&] {
      if (image.insts && (!image.insts_size || image.insts_size % 4))
        refuse("an instruction stream is made of 4-byte words, and this one has " + std::to_string(image.insts_size) +
               " bytes");
      auto made = std::make_unique<npu_xrt_kernel>();
      made->name = image.kernel;
      if (image.insts) {
        const auto *bytes = static_cast<const char *>(image.insts);
        made->insts.assign(bytes, bytes + image.insts_size);
      }
      made->artifact = artifact(image);
      const auto parameters = ensure(*made).groups.size();
      try {
        check_count(made->name, image.arguments, parameters);
      } catch (...) {
        free_loaded(*made);
        throw;
      }
      *result = made.release();
    });
  }

  std::shared_ptr<const Artifact> artifact(const npu_xrt_image &image) {
    auto expired = [](const auto &known) { return known.expired(); };
    artifacts_.erase(std::remove_if(artifacts_.begin(), artifacts_.end(), expired), artifacts_.end());
    for (const auto &known : artifacts_)
      if (auto artifact = known.lock(); artifact && artifact->key == image.key)
        return artifact;
    auto made = std::make_shared<Artifact>();
    made->key = image.key;
    made->is_elf = !image.insts;
    const auto *bytes = static_cast<const char *>(image.artifact);
    made->bytes.assign(bytes, bytes + image.artifact_size);
    artifacts_.push_back(made);
    return made;
  }

  void unload(npu_xrt_kernel *kernel) noexcept {
    guarded(nullptr, [&] {
      std::unique_ptr<npu_xrt_kernel> owned(kernel);
      if (owned && owned->session)
        free_loaded(*owned);
    });
  }

  int32_t launch(const npu_xrt_call *calls, uint64_t count, npu_xrt_error *error) noexcept {
    uint64_t done = 0;
    auto code = guarded(error, [&] {
      while (done < count)
        run_batch(calls + done, count - done, done);
    });
    if (error)
      error->call = done;
    return code;
  }

  int32_t buffer(uint64_t size, npu_xrt_buffer **result, void **data, npu_xrt_error *error) noexcept {
    return guarded(error, [&] {
      auto made = std::make_unique<npu_xrt_buffer>();
      made->memory = allocate(size, data_group_);
      std::memset(made->memory.map, 0, made->memory.size);
      ++buffers_;
      *data = made->memory.map;
      *result = made.release();
    });
  }

  void free_buffer(npu_xrt_buffer *buffer) noexcept {
    guarded(nullptr, [&] {
      if (buffer)
        --buffers_;
      delete buffer;
    });
  }

  void counts(npu_xrt_counted &result) noexcept {
    guarded(nullptr, [&] {
      result = counted_;
      result.sessions = sessions_.size();
    });
  }

  int32_t close(npu_xrt_error *error) noexcept {
    return guarded(error, [&] {
      if (buffers_)
        refuse(std::to_string(buffers_) + " buffers are in use; the device can't be closed");
      while (!sessions_.empty())
        free_session(std::prev(sessions_.end()));
      data_group_ = {};
      counted_ = {};
      device_ = {};
    });
  }
};

/// Never destroyed; see the top.
Shim &shim() {
  static Shim *const only = new Shim;
  return *only;
}

} // namespace

NPU_XRT_API uint32_t npu_xrt_abi() { return abi_version; }

NPU_XRT_API int32_t npu_xrt_open(uint32_t index, npu_xrt_error *error) { return shim().open(index, error); }

NPU_XRT_API int32_t npu_xrt_device_name(char *name, uint64_t size, npu_xrt_error *error) {
  return shim().name(name, size, error);
}

NPU_XRT_API int32_t npu_xrt_load(const npu_xrt_image *image, npu_xrt_kernel **kernel, npu_xrt_error *error) {
  return shim().load(*image, kernel, error);
}

NPU_XRT_API void npu_xrt_unload(npu_xrt_kernel *kernel) { shim().unload(kernel); }

NPU_XRT_API int32_t npu_xrt_launch(const npu_xrt_call *calls, uint64_t count, npu_xrt_error *error) {
  return shim().launch(calls, count, error);
}

NPU_XRT_API int32_t npu_xrt_buffer_make(uint64_t size, npu_xrt_buffer **buffer, void **data, npu_xrt_error *error) {
  return shim().buffer(size, buffer, data, error);
}

NPU_XRT_API void npu_xrt_buffer_free(npu_xrt_buffer *buffer) { shim().free_buffer(buffer); }

NPU_XRT_API void npu_xrt_counts(npu_xrt_counted *counts) { shim().counts(*counts); }

NPU_XRT_API int32_t npu_xrt_close(npu_xrt_error *error) { return shim().close(error); }
