#include "cli/layers.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <stdexcept>

#include "model/embedded_files.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

template <class T> T need(const toml::table& table, std::string_view key, const std::string& where) {
  const auto value = table[key].value<T>();
  if (!value) throw std::runtime_error(fmt::format("models.toml: {} lacks \"{}\" or it has the wrong type", where, key));
  return *value;
}

i64 positive(i64 value, const std::string& where, std::string_view key) {
  if (value <= 0) throw std::runtime_error(fmt::format("models.toml: {}: \"{}\" is {}, must be positive", where, key, value));
  return value;
}

}  // namespace

ModelFile parse_models(std::string_view text) {
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& e) {
    throw std::runtime_error(fmt::format("models.toml, line {}: {}", e.source().begin.line, e.description()));
  }
  ModelFile file;
  if (const i64 version = need<std::int64_t>(root, "version", "the file"); version != 1) throw std::runtime_error(fmt::format("models.toml: version is {}, this program reads version 1", version));
  const auto* tokens = root["tokens"].as_array();
  if (!tokens) throw std::runtime_error("models.toml: \"tokens\" must be a list of numbers");
  for (const auto& token : *tokens) file.tokens.push_back(positive(token.value_or(std::int64_t(0)), "the file", "tokens"));
  const auto* models = root["model"].as_array();
  if (!models) throw std::runtime_error("models.toml: no [[model]]");
  for (const auto& node : *models) {
    const auto& table = *node.as_table();
    Model model;
    model.name = need<std::string>(table, "name", "a model");
    model.id = need<std::string>(table, "id", model.name);
    const std::string dtype = need<std::string>(table, "dtype", model.name);
    const auto type = dtype_from(dtype);
    if (!type) throw std::runtime_error(fmt::format("models.toml: {}: dtype \"{}\" is not known", model.name, dtype));
    model.dtype = *type;
    const auto* layers = table["layers"].as_array();
    if (!layers || layers->empty()) throw std::runtime_error(fmt::format("models.toml: {} has no layers", model.name));
    for (const auto& entry : *layers) {
      if (!entry.is_table()) throw std::runtime_error(fmt::format("models.toml: {}: a layer must be a table", model.name));
      const auto& row = *entry.as_table();
      Layer layer;
      layer.name = need<std::string>(row, "name", model.name);
      layer.n = positive(need<std::int64_t>(row, "n", model.name), model.name, "n");
      layer.k = positive(need<std::int64_t>(row, "k", model.name), model.name, "k");
      model.layers.push_back(layer);
    }
    file.models.push_back(std::move(model));
  }
  return file;
}

ModelFile load_models() {
  for (const EmbeddedFile& file : embedded_data_files())
    if (file.name == "models.toml") return parse_models(file.text);
  throw std::runtime_error("this build carries no models.toml");
}

}  // namespace foretile::cli
