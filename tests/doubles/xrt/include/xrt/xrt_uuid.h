// Emulated XRT. A uuid, by libuuid, whose development files a program needs, too.
#ifndef XRT_DOUBLE_UUID_H
#define XRT_DOUBLE_UUID_H

#include <uuid/uuid.h>
typedef uuid_t xuid_t;

#include <string>

namespace xrt {

class uuid {
  xuid_t m_uuid;

public:
  uuid() { uuid_clear(m_uuid); }
  uuid(const xuid_t val) { uuid_copy(m_uuid, val); }
  explicit uuid(const std::string &uuid_str) {
    if (uuid_str.empty()) {
      uuid_clear(m_uuid);
      return;
    }
    uuid_parse(uuid_str.c_str(), m_uuid);
  }
  uuid(const uuid &rhs) { uuid_copy(m_uuid, rhs.m_uuid); }
  uuid(uuid &&) = default;
  uuid &operator=(uuid &&) = default;
  uuid &operator=(const uuid &rhs) {
    uuid source(rhs);
    std::swap(*this, source);
    return *this;
  }

  const xuid_t &get() const { return m_uuid; }
  std::string to_string() const {
    char str[40] = {0};
    uuid_unparse_lower(m_uuid, str);
    return str;
  }
  operator bool() const { return uuid_is_null(m_uuid) == false; }
  bool operator==(const xuid_t &xuid) const { return uuid_compare(m_uuid, xuid) == 0; }
  bool operator!=(const xuid_t &xuid) const { return uuid_compare(m_uuid, xuid) != 0; }
  bool operator==(const uuid &rhs) const { return uuid_compare(m_uuid, rhs.m_uuid) == 0; }
  bool operator!=(const uuid &rhs) const { return uuid_compare(m_uuid, rhs.m_uuid) != 0; }
  bool operator<(const uuid &rhs) const { return uuid_compare(m_uuid, rhs.m_uuid) < 0; }
};

} // namespace xrt

#endif
