// The emulated driver: settings, counters, faults, and the functions by which tests reach them.
#include "internal.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

extern char **environ;

namespace xrtd {

Driver &driver() {
  static Driver *const only = new Driver;
  return *only;
}

Driver::Driver() {
  constexpr const char *prefix = "XRT_DOUBLE_";
  const size_t length = std::strlen(prefix);
  for (char **entry = environ; entry && *entry; ++entry) {
    const char *value = std::strchr(*entry, '=');
    if (value && std::strncmp(*entry, prefix, length) == 0)
      settings_[std::string(static_cast<const char *>(*entry) + length, value)] = value + 1;
  }
}

void Driver::set(const std::string &name, const char *value) {
  std::lock_guard<std::mutex> lock(mutex_);
  // What comes after this is the first attempt again.
  attempts_.clear();
  if (value)
    settings_[name] = value;
  else
    settings_.erase(name);
}

std::string Driver::setting(const std::string &name, const std::string &otherwise) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = settings_.find(name);
  return found == settings_.end() ? otherwise : found->second;
}

uint64_t Driver::number(const std::string &name, uint64_t otherwise) const {
  auto value = setting(name);
  return value.empty() ? otherwise : std::strtoull(value.c_str(), nullptr, 0);
}

void Driver::add(const std::string &counter, int64_t n) {
  std::lock_guard<std::mutex> lock(mutex_);
  counters_[counter] += static_cast<uint64_t>(n);
}

uint64_t Driver::count(const std::string &counter) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = counters_.find(counter);
  return found == counters_.end() ? 0 : found->second;
}

bool Driver::is_chosen(const std::string &setting, const std::string &point) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = settings_.find(setting);
  if (found == settings_.end())
    return false;
  const std::string now = std::to_string(++attempts_[setting + " " + point]);
  std::string rest = found->second + ",";
  for (size_t comma; (comma = rest.find(',')) != std::string::npos; rest.erase(0, comma + 1)) {
    const auto item = rest.substr(0, comma);
    if (item == point + "@" + now || item == point + "@*")
      return true;
  }
  return false;
}

void Driver::attempt(const std::string &point) {
  if (is_chosen("FAIL", point))
    throw xrt_core::system_error(EIO, "the emulated driver was told to fail at " + point);
}

void Driver::set_up(const std::string &counter, double milliseconds) {
  add(counter);
  add("set_up");
  if (!is_set("COSTS"))
    return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double, std::milli>(milliseconds);
  if (milliseconds > 2)
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds - 1));
  while (std::chrono::steady_clock::now() < end)
    ;
}

void Driver::misuse(const std::string &what) {
  add("misuse");
  std::fprintf(stderr, "[xrt double] %s\n", what.c_str());
}

} // namespace xrtd

extern "C" __attribute__((visibility("default"))) void xrt_double_set(const char *name, const char *value) {
  xrtd::driver().set(name, value);
}

extern "C" __attribute__((visibility("default"))) uint64_t xrt_double_count(const char *counter) {
  return xrtd::driver().count(counter);
}
