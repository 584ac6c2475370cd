// The layers of real models, from data/models.toml.
#pragma once
#include <string>
#include <vector>

#include "foretile/device/types.h"

namespace foretile::cli {

struct Layer {
  std::string name;  // "qkv"
  i64 n = 0, k = 0;
};
struct Model {
  std::string name;  // "Llama-3-8B"
  std::string id;    // "llama8b": a layer is called "llama8b.qkv"
  DType dtype = DType::bf16;
  std::vector<Layer> layers;
};
struct ModelFile {
  std::vector<i64> tokens;
  std::vector<Model> models;
};

// The file embedded in the library. Throws std::runtime_error naming the entry that is wrong.
ModelFile load_models();
ModelFile parse_models(std::string_view text);

}  // namespace foretile::cli
