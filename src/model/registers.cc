#include "model/registers.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "foretile/device/kernels/family.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/kernels/family.h"
#include "foretile/device/kernels/gemm_sm90_facts.h"
#include "model/embedded_files.h"
#include "model/text.h"

namespace foretile {

namespace {

struct Row {
  Operation operation;
  Configuration configuration;
  int registers = 0, spill_bytes = 0;
};

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t at = 0; at <= line.size();) {
    const size_t comma = std::min(line.find(',', at), line.size());
    cells.push_back(line.substr(at, comma - at));
    at = comma + 1;
  }
  return cells;
}

// The first line that is no comment (#) names the columns. A malformed table is a broken build: it throws.
std::vector<Row> read_table() {
  std::vector<Row> rows;
  std::string_view text;
  for (const EmbeddedFile& file : embedded_data_files())
    if (file.name == "catalogue.csv") text = file.text;
  std::vector<std::string_view> columns;
  const auto fail = [](std::string_view line) { throw std::logic_error("catalogue.csv: cannot read '" + std::string(line) + "'"); };
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    const auto cells = cells_of(line);
    if (columns.empty()) {
      columns = cells;
      continue;
    }
    const auto cell = [&](std::string_view column) {
      const auto at = std::find(columns.begin(), columns.end(), column);
      if (at == columns.end() || size_t(at - columns.begin()) >= cells.size()) fail(line);
      return cells[size_t(at - columns.begin())];
    };
    const auto number = [&](std::string_view column) {
      const std::string_view s = cell(column);
      int value = 0;
      if (std::from_chars(s.data(), s.data() + s.size(), value).ptr != s.data() + s.size() || s.empty()) fail(line);
      return value;
    };
    Row row;
    std::string error;
    const auto configuration = configuration_from(cell("configuration"), error);
    if (!configuration) fail(line);
    row.configuration = *configuration;
    const auto operation = std::find_if(std::begin(catalogue::kOperations), std::end(catalogue::kOperations),
                                        [&](const auto& named) { return named.name == cell("operation"); });
    if (operation == std::end(catalogue::kOperations)) fail(line);
    row.operation = operation->operation;
    row.registers = number("registers"), row.spill_bytes = number("spill_bytes");
    rows.push_back(row);
  }
  return rows;
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = read_table();
  return rows;
}

// The same code comes out for operations that differ in what the kernel does not look at.
bool same_code(const Operation& x, const Operation& y, Family family) {
  return (family == Family::simt || x.output == y.output) && (needs_hopper(family) || family == Family::simt || x.inputs == y.inputs) && x.a == y.a && x.b == y.b && x.d == y.d && x.transpose_a == y.transpose_a && x.transpose_b == y.transpose_b &&
         x.has_c == y.has_c && x.has_bias == y.has_bias && x.has_residual == y.has_residual &&
         (!x.has_c || x.c == y.c) && (!x.has_bias || x.bias == y.bias) && (!x.has_residual || x.residual == y.residual) &&
         x.activation == y.activation && x.gating == y.gating;
}

}  // namespace

Registers registers_of(const Operation& o, const Configuration& c) {
  for (const Row& row : table())
    if (row.configuration == c && same_code(row.operation, o, c.family)) return {row.registers, row.spill_bytes, false};
  if (c.family == Family::sm90) return {sm90::launch_registers(c), 0, true};
  // Accumulators and what addresses and the epilogue take: within 8 of the table's rows.
  if (c.family == Family::decode) return {int(round_up(decode::accumulators_per_thread(c) + 32, 8)), 0, true};

  // As many as the launch bounds leave: the compiler holds operands ahead as far as it can.
  if (c.family == Family::gemv) return {gemv::registers_wanted(c), 0, true};
  if (c.family == Family::rows) return {rows::reallocates_registers(c) ? rows::launch_registers(c) : rows::registers_wanted(c), 0, true};
  if (c.family == Family::ffma) return {ffma::registers_wanted(c) / 8 * 8, 0, true};

  // Accumulators, one row and one column of operands, the next step's loads in flight, and 64 for addressing and what
  // the compiler holds ahead: within 15 of the table's rows.
  const int threads = std::max(1, simt::threads(c));
  const int loads = int(ceil_div(c.tile_m * c.tile_k, threads) + ceil_div(c.tile_n * c.tile_k, threads));
  const int estimate = c.thread_m * c.thread_n + c.thread_m + c.thread_n + loads + 64;
  return {int(min_of(round_up(estimate, 8), 255)), 0, true};
}

}  // namespace foretile
