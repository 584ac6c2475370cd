// How far a forecast may be trusted: what recorded times of kernels alike say, and what of this product none of them had.
#pragma once
#include <string>
#include <vector>

#include "model/model.h"

namespace foretile {

struct Trust {
  const HeldAgainst* alike = nullptr;  // of the machine; null: no recorded time is of its kind
  std::vector<std::string> beyond;     // in words: what those times were not of
  std::string text() const;            // one or two sentences
};
Trust trust(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions);

}  // namespace foretile
