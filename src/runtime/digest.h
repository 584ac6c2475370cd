// SHA-256 (FIPS 180-4): names cache entries by their content and guards them against damage.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace foretile {

class Digest {
 public:
  Digest();
  Digest& add(std::string_view bytes);
  // Adds the length first, so that neighbouring parts cannot run into each other.
  Digest& add_part(std::string_view bytes);
  // 64 hexadecimal digits. Ends the digest.
  std::string hex();

 private:
  void block(const unsigned char* data);
  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, 64> pending_;
  std::size_t pending_bytes_ = 0;
  std::uint64_t total_ = 0;
};

std::string digest_of(std::string_view bytes);

}  // namespace foretile
