// Programs that use XRT wrongly, one a name: what the double does with them is what the real library does.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "xrt/experimental/xrt_elf.h"
#include "xrt/experimental/xrt_ext.h"
#include "xrt/experimental/xrt_kernel.h"
#include "xrt/experimental/xrt_xclbin.h"
#include "xrt/xrt_bo.h"
#include "xrt/xrt_device.h"
#include "xrt/xrt_hw_context.h"
#include "xrt/xrt_kernel.h"

extern "C" uint64_t xrt_double_count(const char *);

namespace {

std::vector<char> content(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

constexpr size_t bytes = 1024;

/// A buffer of 256 equal numbers, which the device sees unless `synced` is false.
void fill(xrt::bo &bo, int value, bool synced = true) {
  auto *numbers = bo.map<int *>();
  for (size_t i = 0; i < bytes / 4; ++i)
    numbers[i] = value;
  if (synced)
    bo.sync(XCL_BO_SYNC_BO_TO_DEVICE);
}

/// An addition of an xclbin, set up by hand.
struct Addition {
  xrt::device device{0};
  xrt::xclbin xclbin;
  xrt::hw_context context;
  xrt::kernel kernel;
  std::vector<char> stream;
  xrt::bo insts, x, y, z;

  explicit Addition(const std::string &path, int group_shift = 0, bool heap = true)
      : xclbin(path + "/k.xclbin"), stream(content(path + "/k.bin")) {
    auto uuid = device.register_xclbin(xclbin);
    context = xrt::hw_context(device, uuid);
    kernel = xrt::kernel(context, xclbin.get_kernels()[0].get_name());
    insts = xrt::bo(device, stream.size(), heap ? xrt::bo::flags::cacheable : xrt::bo::flags::host_only,
                    static_cast<xrt::memory_group>(kernel.group_id(1)));
    std::memcpy(insts.map<char *>(), stream.data(), stream.size());
    auto make = [&](int i) {
      auto group = static_cast<xrt::memory_group>(kernel.group_id(i) + group_shift);
      return xrt::bo(device, bytes, xrt::bo::flags::host_only, group);
    };
    x = make(3);
    y = make(4);
    z = make(5);
  }

  ert_cmd_state run(uint64_t opcode = 3, size_t words = 0) {
    auto run = kernel(opcode, insts, static_cast<uint32_t>(words ? words : stream.size() / 4), x, y, z);
    auto state = run.wait();
    z.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    return state;
  }

  void tell(ert_cmd_state state) { std::printf("state %d, z %d\n", state, z.map<int *>()[7]); }
};

void right(const std::string &path, bool insts = true, bool data = true, int group_shift = 0) {
  Addition addition(path, group_shift);
  if (insts)
    addition.insts.sync(XCL_BO_SYNC_BO_TO_DEVICE);
  fill(addition.x, 1);
  fill(addition.y, 2, data);
  addition.tell(addition.run());
}

template <typename Body> void caught(Body body) {
  try {
    body();
    std::printf("nothing was thrown\n");
  } catch (const xrt::runlist::command_error &error) {
    std::printf("runlist error: state %d\n", error.get_command_state());
  } catch (const xrt::run::command_error &error) {
    std::printf("run error: state %d: %s\n", error.get_command_state(), error.what());
  } catch (const std::system_error &error) {
    std::printf("system error %d: %s\n", error.code().value(), error.what());
  } catch (const std::exception &error) {
    std::printf("exception: %s\n", error.what());
  }
}

void elf_kernel(const std::string &path, const std::string &what) {
  xrt::device device{0};
  xrt::elf elf(path + "/k.elf");
  xrt::hw_context context(device, elf);
  xrt::kernel kernel = xrt::ext::kernel(context, "main:sequence");
  xrt::bo bo = xrt::ext::bo{device, bytes};
  if (what == "group-of-elf")
    std::printf("%d\n", kernel.group_id(0));
  xrt::run run(kernel);
  for (int i = 0; i < 3; ++i)
    run.set_arg(i, bo);
  if (what == "two-lists") {
    xrt::runlist first(context), second(context);
    first.add(run);
    caught([&] { second.add(run); });
    caught([&] { run.start(); });
    first.reset();
    second.add(run);
    second.execute();
    caught([&] { second.add(run); });
    caught([&] { second.reset(); });
    second.wait();
  } else if (what == "unfinished") {
    run.start();
    return;
  } else if (what == "beyond") {
    run.set_arg(3 + 7, bo);
  } else if (what == "plain-kernel") {
    caught([&] { xrt::kernel other(context, "main"); });
  } else if (what == "freed") {
    bo = {};
    run.start();
    caught([&] { run.wait2(); });
  } else if (what == "half") {
    xrt::run half(kernel);
    half.set_arg(0, bo);
    caught([&] { half.start(); });
  } else if (what == "context-first") {
    auto *released = new xrt::hw_context(std::move(context));
    delete released;
    std::printf("misuse %d\n", static_cast<int>(xrt_double_count("misuse")));
  }
}

} // namespace

int main(int, char **arguments) {
  const std::string what = arguments[1], path = arguments[2];
  if (what == "right") {
    right(path);
  } else if (what == "wrong-group") {
    right(path, true, true, 1);
  } else if (what == "unsynced-input") {
    right(path, true, false);
  } else if (what == "unsynced-instructions") {
    right(path, false);
  } else if (what == "unsynced-output") {
    Addition addition(path);
    addition.insts.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    fill(addition.x, 1);
    fill(addition.y, 2);
    auto run = addition.kernel(3, addition.insts, static_cast<uint32_t>(addition.stream.size() / 4), addition.x,
                               addition.y, addition.z);
    addition.tell(run.wait());
  } else if (what == "host-instructions") {
    Addition addition(path, 0, false);
    addition.insts.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    addition.tell(addition.run());
  } else if (what == "bytes-for-words") {
    Addition addition(path);
    addition.insts.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    addition.tell(addition.run(3, addition.stream.size()));
  } else if (what == "opcode") {
    Addition addition(path);
    addition.insts.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    addition.tell(addition.run(0));
  } else if (what == "second-device") {
    xrt::device first{0};
    caught([] { xrt::device second{0}; });
    first = {};
    caught([] { xrt::device second{0}; });
  } else if (what == "contexts") {
    Addition addition(path);
    std::vector<xrt::hw_context> contexts;
    caught([&] {
      for (;;)
        contexts.emplace_back(addition.device, addition.xclbin.get_uuid());
    });
    std::printf("%zu\n", contexts.size() + 1);
  } else if (what == "elf-on-npu1") {
    caught([&] {
      xrt::device device{0};
      xrt::hw_context context(device, xrt::elf(path + "/k.elf"));
    });
  } else if (what == "unregistered") {
    caught([&] {
      xrt::device device{0};
      xrt::hw_context context(device, xrt::xclbin(path + "/k.xclbin").get_uuid());
    });
  } else {
    elf_kernel(path, what);
  }
}
