// The forecast in plain sentences: every number with its formula, every constant with its source.
#pragma once
#include <string>

#include "model/anatomy.h"
#include "model/model.h"

namespace foretile {

// A page of text, lines up to `columns` wide. Every number can be recomputed by hand from the text and the machine
// file. Throws std::invalid_argument where forecast() does.
std::string explain_text(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions = {}, size_t columns = 80);

// Why this kernel family and not the fast one: one sentence.
std::string path_text(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p);

}  // namespace foretile
