#include "model/described_kernel_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>

#include "model/expression.h"
#include "model/read_file.h"
#include "model/text.h"

namespace foretile {

namespace {

// What an access's expressions may use, in the order in which values_at gives them.
const std::vector<std::string> kNames = {"tx", "ty", "thread", "lane", "warp", "i", "step", "k0", "block_m", "block_n", "M", "N", "K"};
std::array<i64, 13> values_at(const AccessPoint& p, int tile_k) {
  return {p.tx, p.ty, p.thread, p.thread % int(kWarpLanes), p.thread / int(kWarpLanes), p.repetition, p.step, p.step * tile_k, p.block_m, p.block_n, p.problem.m, p.problem.n, p.problem.k};
}

class Reader {
 public:
  Reader(std::string_view file, std::string_view text, const std::map<std::string, std::string>& set) : file_(file) {
    try {
      root_ = toml::parse(text);
    } catch (const toml::parse_error& e) {
      bad(fmt::format("line {}: {}", e.source().begin.line, e.description()));
    }
    only(root_, "the file", {"name", "let", "kernel", "step", "epilogue", "vary", "fuse"});
    if (const toml::node* let = root_.get("let")) {
      if (!let->is_table()) bad("let must be a table of names");
      for (const auto& [key, value] : *let->as_table()) {
        const std::string name(key.str());
        if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) bad(fmt::format("let.{}: the name has a meaning already", name));
        let_[name] = formula(value, "let." + name);
      }
    }
    for (const auto& [name, value] : set) {
      if (!let_.count(name)) bad(fmt::format("'{}' cannot be set; [let] has {}", name, let_.empty() ? "nothing" : names_of(let_)));
      let_[name] = value;
    }
  }

  KernelFile read() {
    KernelFile f;
    DescribedKernel& k = f.kernel;
    k.name = root_["name"].value_or(std::string(file_));
    const toml::table& t = table("kernel");
    only(t, "kernel", {"input", "output", "tile", "threads", "registers", "shared_bytes", "multiplier", "multiply_adds", "independent_sums", "other_instructions", "stages", "copy", "barriers", "raster_group"});
    k.input = type(t, "kernel", "input", DType::fp32);
    k.output = type(t, "kernel", "output", k.input);
    const auto tile = numbers(t, "tile", 3);
    k.tile_m = tile[0], k.tile_n = tile[1], k.tile_k = tile[2];
    const auto threads = numbers(t, "threads", 2);
    k.threads_x = threads[0], k.threads_y = threads.size() > 1 ? threads[1] : 1;
    k.registers = int(number(t, "registers", std::nullopt, 1, 255));
    k.shared_bytes = int(number(t, "shared_bytes", 0, 0, 1 << 20));
    k.multiplier = one_of<Multiplier>(t, "multiplier", {{"fp32", Multiplier::fp32}, {"half", Multiplier::half}, {"half2", Multiplier::half2}, {"mma", Multiplier::mma}, {"wgmma", Multiplier::wgmma}});
    k.copy = one_of<Copy>(t, "copy", {{"registers", Copy::registers}, {"async", Copy::async}, {"bulk", Copy::bulk}});
    k.multiply_adds = double(number(t, "multiply_adds", 0, 0, 1 << 20));
    k.independent_sums = int(number(t, "independent_sums", 0, 0, 1 << 16));
    k.other_instructions = double(number(t, "other_instructions", 0, 0, 1 << 20));
    k.stages = int(number(t, "stages", 1, 1, 64));
    k.barriers = double(number(t, "barriers", k.shared_bytes > 0 ? 2 : 0, 0, 1000));
    k.raster_group = int(number(t, "raster_group", 1, 1, 1 << 20));
    k.step = accesses("step", k, k.input);
    k.epilogue = accesses("epilogue", k, k.output);
    if (const toml::table* fuse = root_["fuse"].as_table()) {
      only(*fuse, "fuse", {"name", "registers", "instructions"});
      f.fuse.name = (*fuse)["name"].value_or(f.fuse.name);
      f.fuse.registers = int(number(*fuse, "registers", f.fuse.registers, 0, 255));
      f.fuse.instructions = double(number(*fuse, "instructions", i64(f.fuse.instructions), 0, 10000));
    }
    if (const toml::table* vary = root_["vary"].as_table())
      for (const auto& [key, value] : *vary) {
        const std::string name(key.str());
        if (!let_.count(name)) bad(fmt::format("vary.{}: [let] has no such name; it has {}", name, names_of(let_)));
        const toml::array* list = value.as_array();
        std::vector<i64> values;
        if (list)
          for (const auto& v : *list)
            if (v.is_integer()) values.push_back(*v.value<i64>());
        if (!list || values.empty() || values.size() != list->size()) bad(fmt::format("vary.{} must be a list of whole numbers", name));
        f.vary.emplace_back(name, std::move(values));
      }
    return f;
  }

 private:
  [[noreturn]] void bad(const std::string& message) const { throw std::invalid_argument(fmt::format("kernel file '{}': {}", file_, message)); }
  template <class Map> static std::string names_of(const Map& map) {
    std::vector<std::string> names;
    for (const auto& [name, value] : map) names.push_back(name);
    return fmt::format("{}", fmt::join(names, ", "));
  }
  void only(const toml::table& t, std::string_view where, std::initializer_list<std::string_view> allowed) const {
    for (const auto& [key, value] : t)
      if (std::find(allowed.begin(), allowed.end(), key.str()) == allowed.end()) bad(fmt::format("{} has '{}'; allowed: {}", where, key.str(), fmt::join(allowed, ", ")));
  }
  const toml::table& table(const char* name) const {
    const toml::table* t = root_[name].as_table();
    if (!t) bad(fmt::format("the table [{}] is missing", name));
    return *t;
  }
  // A whole number or an expression, as text.
  std::string formula(const toml::node& node, const std::string& where) const {
    if (node.is_integer()) return std::to_string(*node.value<i64>());
    if (node.is_string()) return *node.value<std::string>();
    bad(fmt::format("{} must be a whole number or an expression in quotes", where));
  }
  Expression expression(const std::string& text, const std::string& where, const std::vector<std::string>& names) const {
    try {
      return Expression(text, names, let_);
    } catch (const std::invalid_argument& e) {
      bad(fmt::format("{}: {}", where, e.what()));
    }
  }
  // Known before any thread runs: of numbers and [let] alone.
  i64 constant(const toml::node& node, const std::string& where, i64 low, i64 high) const {
    const std::string text = formula(node, where);
    i64 value = 0;
    try {
      value = expression(text, where, {})({});
    } catch (const std::domain_error& e) {
      bad(fmt::format("{} = {}: {}", where, text, e.what()));
    }
    if (value < low || value > high) bad(fmt::format("{} is {}, must be {} to {}", where, value, low, high));
    return value;
  }
  i64 number(const toml::table& t, const char* key, std::optional<i64> otherwise, i64 low, i64 high) const {
    const toml::node* node = t.get(key);
    if (!node && !otherwise) bad(fmt::format("{} is missing", key));
    return node ? constant(*node, key, low, high) : *otherwise;
  }
  std::vector<int> numbers(const toml::table& t, const char* key, size_t most) const {
    const toml::array* list = t[key].as_array();
    if (!list || list->empty() || list->size() > most || (most == 3 && list->size() != 3)) bad(fmt::format("{} must be a list of {}{} whole numbers or expressions", key, most == 3 ? "" : "one or ", most));
    std::vector<int> values;
    for (const auto& v : *list) values.push_back(int(constant(v, key, 1, 4096)));
    return values;
  }
  DType type(const toml::table& t, std::string_view where, const char* key, DType otherwise) const {
    const toml::node* node = t.get(key);
    if (!node) return otherwise;
    const auto text = node->value<std::string>();
    const auto found = text ? dtype_from(*text) : std::nullopt;
    if (!found) bad(fmt::format("{}.{} is '{}'; allowed: {}", where, key, text.value_or("no text"), dtype_names()));
    return *found;
  }
  template <class Enum> Enum one_of(const toml::table& t, const char* key, const std::vector<std::pair<std::string, Enum>>& allowed) const {
    const toml::node* node = t.get(key);
    if (!node) return allowed.front().second;
    const auto text = node->value<std::string>();
    std::vector<std::string> names;
    for (const auto& [name, value] : allowed) {
      if (text && *text == name) return value;
      names.push_back(name);
    }
    bad(fmt::format("{} is '{}'; allowed: {}", key, text.value_or("no text"), fmt::join(names, ", ")));
  }

  std::vector<DescribedAccess> accesses(const char* list_name, const DescribedKernel& k, DType usual) const {
    std::vector<DescribedAccess> list;
    const toml::node* node = root_.get(list_name);
    if (!node) return list;
    const toml::array* array = node->as_array();
    if (!array) bad(fmt::format("[[{}]] must be a list of tables", list_name));
    for (const auto& entry : *array) {
      const std::string where = fmt::format("{}[{}]", list_name, list.size());
      const toml::table* t = entry.as_table();
      if (!t) bad(fmt::format("{} must be a table", where));
      only(*t, where, {"do", "array", "text", "index", "base", "when", "type", "elements", "times"});
      DescribedAccess a;
      const std::string what = (*t)["do"].value_or(std::string());
      const std::tuple<std::string_view, Space, Direction, bool> kinds[] = {{"load global", Space::global, Direction::load, false}, {"store global", Space::global, Direction::store, false},
                                                                            {"load shared", Space::shared, Direction::load, false}, {"store shared", Space::shared, Direction::store, false},
                                                                            {"load matrix", Space::shared, Direction::load, true},  {"store matrix", Space::shared, Direction::store, true}};
      const auto kind = std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& x) { return std::get<0>(x) == what; });
      if (kind == std::end(kinds)) bad(fmt::format("{}.do is '{}'; allowed: load global, store global, load shared, store shared, load matrix, store matrix", where, what));
      a.space = std::get<1>(*kind), a.direction = std::get<2>(*kind), a.matrix = std::get<3>(*kind);
      a.array = (*t)["array"].value_or(std::string());
      if (a.array.empty()) bad(fmt::format("{}.array (a name) is missing", where));
      const DType element = type(*t, where, "type", usual);
      const int size = size_of(element), elements = int(number(*t, "elements", a.matrix ? 16 / size : 1, 1, 16));
      a.bytes = size * elements;
      a.times = int(number(*t, "times", 1, 1, 65536));
      const toml::node* index_node = t->get("index");
      if (!index_node) bad(fmt::format("{}.index (in elements) is missing", where));
      const std::string index_text = formula(*index_node, where + ".index");
      a.text = (*t)["text"].value_or(fmt::format("{}[{}]", a.array, index_text));
      const Expression index = expression(index_text, where + ".index", kNames);
      const i64 base = number(*t, "base", 0, 0, 1 << 20);
      const toml::node* when_node = t->get("when");
      const auto when = when_node ? std::optional(expression(formula(*when_node, where + ".when"), where + ".when", kNames)) : std::nullopt;
      a.address = [index, when, base, size, tile_k = k.tile_k](const AccessPoint& p) {
        const auto values = values_at(p, tile_k);
        if (when && !(*when)(values)) return kNoAccess;
        return base + index(values) * size;
      };
      list.push_back(std::move(a));
    }
    return list;
  }

  std::string file_;
  toml::table root_;
  std::map<std::string, std::string> let_;
};

}  // namespace

KernelFile parse_kernel_file(std::string_view name, std::string_view text, const std::map<std::string, std::string>& set) { return Reader(name, text, set).read(); }

KernelFile load_kernel_file(const std::string& path, const std::map<std::string, std::string>& set) {
  return parse_kernel_file(path, read_file("kernel file", path), set);
}

}  // namespace foretile
