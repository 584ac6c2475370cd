#include "bench/suites.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

#include <toml++/toml.h>

#include "model/embedded_files.h"

namespace foretile::bench {

namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

i64 parse_size(std::string_view text) {
  i64 value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 1 << 24)
    throw std::invalid_argument(fmt::format("'{}' is not a size; allowed: 1 to {}", text, 1 << 24));
  return value;
}

std::vector<Shape> layers() {
  for (const EmbeddedFile& file : embedded_data_files()) {
    if (file.name != "models.toml") continue;
    std::vector<Shape> list;
    const toml::table data = toml::parse(file.text);
    for (const toml::node& node : *data["model"].as_array()) {
      const toml::table& model = *node.as_table();
      for (const toml::node& entry : *model["layers"].as_array()) {
        const toml::table& layer = *entry.as_table();
        list.push_back({model["id"].value_or(std::string()) + "." + layer["name"].value_or(std::string()), 0, layer["n"].value_or(i64(0)), layer["k"].value_or(i64(0))});
        if (list.back().n < 1 || list.back().k < 1) throw std::runtime_error("data/models.toml: layer " + list.back().name + " has no sizes");
      }
    }
    list.push_back({"square8k", 0, 8192, 8192});
    return list;
  }
  throw std::runtime_error("data/models.toml is not embedded in this build");
}

}  // namespace

std::vector<i64> parse_sizes(std::string_view text) {
  std::vector<i64> list;
  for (const std::string_view part : split(text, ',')) list.push_back(parse_size(part));
  return list;
}

std::vector<Shape> suite_shapes(std::string_view suite, const std::vector<i64>& ms) {
  std::vector<Shape> list;
  if (suite == "layers") {
    for (const i64 m : ms)
      for (Shape s : layers()) s.m = m, list.push_back(s);
    return list;
  }
  if (suite == "catalogue") {
    // Few rows first, thousands last: a run that is cut has something of every layer.
    constexpr i64 kFew[2][3] = {{1, 16, 64}, {8, 32, 96}};
    const std::vector<Shape> all = layers();
    const auto add = [&](std::size_t layer, i64 m) { list.push_back(all[layer]), list.back().m = m; };
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const i64 m : kFew[i % 2]) add(i, m);
    for (std::size_t i = 0; i < all.size(); ++i) add(i, i64(128) << i % 4);
    for (const i64 m : {2048, 4096})
      for (std::size_t i = 0; i < all.size(); ++i) add(i, m);
    for (const i64 m : {2048, 4096, 8192}) list.push_back({fmt::format("square{}", m), m, m, m});
    return list;
  }
  if (suite == "squares") {
    for (const i64 m : ms) list.push_back({fmt::format("square{}", m), m, m, m});
    return list;
  }
  for (const std::string_view part : split(suite, ',')) {
    const auto sizes = split(part, 'x');
    if (sizes.size() != 3) throw std::invalid_argument(fmt::format("suite is '{}'; allowed: layers, squares, catalogue, or shapes as MxNxK,MxNxK", suite));
    list.push_back({std::string(part), parse_size(sizes[0]), parse_size(sizes[1]), parse_size(sizes[2])});
  }
  return list;
}

std::vector<Shape> gated_layers(const std::vector<i64>& ms) {
  std::vector<Shape> list = suite_shapes("layers", ms);
  std::erase_if(list, [](const Shape& s) { return !s.name.ends_with(".gateup"); });
  return list;
}

}  // namespace foretile::bench
