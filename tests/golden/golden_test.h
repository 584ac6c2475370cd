// Shared by the replay tests: where the dumps are, and skipping without them.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "../../tools/golden/container.h"
#include "../../tools/golden/hash.h"
#include "foretile/device/types.h"

namespace golden {

// FORETILE_GOLDEN names another folder.
inline std::string path_of(const std::string& name) {
  if (const char* folder = std::getenv("FORETILE_GOLDEN")) return std::string(folder) + "/" + name;
  return (std::filesystem::path(FORETILE_SOURCE_DIR) / "tests" / "golden" / name).string();
}

inline foretile::DType dtype_of(const std::string& name) {
  using foretile::DType;
  return name == "bf16" ? DType::bf16 : name == "fp16" ? DType::fp16 : name == "tf32" ? DType::tf32 : name == "e4m3" ? DType::e4m3 : name == "e5m2" ? DType::e5m2 : DType::int8;
}
inline Type type_of(const std::string& name) {
  for (int t = 0; t <= int8; ++t)
    if (name == kFormats[t].name) return Type(t);
  throw std::runtime_error("a golden record names the unknown type " + name);
}

inline std::string describe(const Record& r) {
  std::string text = r.kind;
  for (const auto& [key, value] : r.fields) text += " " + key + "=" + value;
  return text;
}

}  // namespace golden

// Reads tests/golden/NAME into `file`, or skips the test: dumps can only be recorded on a Hopper GPU.
#define READ_GOLDEN_OR_SKIP(file, name)                                                                     \
  if (!std::filesystem::exists(golden::path_of(name)))                                                      \
    GTEST_SKIP() << golden::path_of(name) << " is missing; record it with tools/golden/record.sh on a Hopper GPU"; \
  const golden::File file = golden::read(golden::path_of(name));
