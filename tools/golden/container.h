// The file format of the golden dumps. A text header, then records: one line of text, then raw little-endian bytes.
//
//   foretile-golden 1
//   gpu: NVIDIA H200
//   ...
//   <empty line>
//   record wgmma-map type=bf16 operand=A n=16 ... bytes=2048
//   <2048 raw bytes><newline>
//
// Values of keys are integers or words without spaces.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace golden {

struct Record {
  std::string kind;
  std::map<std::string, std::string> fields;
  std::vector<std::uint8_t> data;

  const std::string& word(const std::string& key) const {
    const auto it = fields.find(key);
    if (it == fields.end()) throw std::runtime_error("golden record '" + kind + "' has no field '" + key + "'");
    return it->second;
  }
  long number(const std::string& key) const { return std::strtol(word(key).c_str(), nullptr, 0); }
  template <class T> std::vector<T> as() const {
    if (data.size() % sizeof(T)) throw std::runtime_error("golden record '" + kind + "' is cut off");
    std::vector<T> v(data.size() / sizeof(T));
    std::memcpy(v.data(), data.data(), data.size());
    return v;
  }
};

struct File {
  std::map<std::string, std::string> header;
  std::vector<Record> records;
};

// Throws std::runtime_error on a damaged file.
inline File read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path);
  File file;
  std::string line;
  if (!std::getline(in, line) || line != "foretile-golden 1") throw std::runtime_error(path + " is not a golden dump");
  while (std::getline(in, line) && !line.empty()) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) throw std::runtime_error(path + ": bad header line '" + line + "'");
    file.header[line.substr(0, colon)] = line.substr(colon + 2);
  }
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string word;
    Record r;
    words >> word >> r.kind;
    if (word != "record") throw std::runtime_error(path + ": bad record line '" + line + "'");
    while (words >> word) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) throw std::runtime_error(path + ": bad field '" + word + "'");
      r.fields[word.substr(0, equals)] = word.substr(equals + 1);
    }
    r.data.resize(std::size_t(r.number("bytes")));
    in.read(reinterpret_cast<char*>(r.data.data()), std::streamsize(r.data.size()));
    if (!in || in.get() != '\n') throw std::runtime_error(path + ": record '" + r.kind + "' is cut off");
    file.records.push_back(std::move(r));
  }
  return file;
}

class Writer {
 public:
  Writer(const std::string& path, const std::map<std::string, std::string>& header) : out_(path, std::ios::binary) {
    if (!out_) throw std::runtime_error("cannot write " + path);
    out_ << "foretile-golden 1\n";
    for (const auto& [key, value] : header) out_ << key << ": " << value << "\n";
    out_ << "\n";
  }
  // `fields`: "type=bf16 n=16"
  void record(const std::string& kind, const std::string& fields, const void* data, std::size_t bytes) {
    out_ << "record " << kind << ' ' << fields << " bytes=" << bytes << '\n';
    out_.write(static_cast<const char*>(data), std::streamsize(bytes));
    out_ << '\n';
    if (!out_) throw std::runtime_error("writing a golden dump failed");
  }

 private:
  std::ofstream out_;
};

}  // namespace golden
