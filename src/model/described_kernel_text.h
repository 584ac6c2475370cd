// The forecast of a described kernel in plain sentences: what it costs, why, and what would help.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/described_kernel_file.h"
#include "model/remedy.h"

namespace foretile {

// Ranked, best first: what the description itself leaves open ([vary]), conflicts and scattered sectors taken away,
// loads under the multiply, registers or shared memory of one more block an SM. Only what gains half a percent or more.
// `with`: the kernel file read again with one name of [let] set to a value; null where it came from no file.
using KernelWith = std::function<KernelFile(const std::string& name, i64 value)>;
std::vector<Remedy> remedies(const Machine& machine, const KernelFile& file, const Problem& problem, const Conditions& conditions, const KernelWith& with = nullptr);

// A page of text, lines up to `columns` wide. Throws std::invalid_argument where forecast() does.
std::string explain_text(const Machine& machine, const KernelFile& file, const Problem& problem, const Conditions& conditions, const KernelWith& with = nullptr, size_t columns = 80);

}  // namespace foretile
