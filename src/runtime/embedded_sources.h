// The device sources (device/**) that travel inside the library, so that NVRTC needs no header but ours.
#pragma once
#include <span>

#include "model/embedded_files.h"

namespace foretile {

// Named as they are included: "foretile/device/types.h". The build generates the definition from the files themselves.
std::span<const EmbeddedFile> embedded_device_sources();

}  // namespace foretile
