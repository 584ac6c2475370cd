// Controls of the pretended driver and compiler. Tests reach them through fake_control(), exported by the library.
#pragma once
#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "foretile/device/arguments.h"

namespace fake {

struct Context {
  int device;
  unsigned long long id;
};
struct Stream {
  Context* context;
  std::atomic<int> capturing{0};
};
struct Module {
  Context* context;
  std::string image;
};
struct Function {
  Module* module;
  int max_shared = 48 * 1024;
};

struct Launch {
  unsigned grid[3], block[3], shared, cluster;
  bool programmatic;  // with the attribute of programmatic stream serialization, set
  void* stream;
  Context* context;
  std::string image;  // what the launched function was compiled to: names the family, see nvrtcCompileProgram
  foretile::GemmSm90Arguments sm90;  // of the decode and rows kernels: the fields that all have
  foretile::GemmDecodeArguments decode;  // of the rows kernel too
  foretile::GemmSimtArguments simt;
};

struct Device {
  std::string name;
  int major, minor, sms;
};

// What cuTensorMapEncodeTiled left in the opaque bytes.
struct EncodedMap {
  unsigned long long address, extent[3], stride[2];
  unsigned box[3];
  int type, swizzle, promotion, fill;
};
static_assert(sizeof(EncodedMap) <= 128);

struct Control {
  std::mutex mutex;
  std::vector<Device> devices;
  bool record = true;  // false: cuLaunchKernelEx does nothing but count, for timing
  std::atomic<unsigned long long> launched_at_ns{0};
  std::vector<Launch> launches;
  std::atomic<int> launch_count{0}, encodes{0}, replaces{0}, modules{0}, compiles{0}, pushes{0}, pops{0};
  // The next `fail_times` calls of the function of this name return the code.
  std::string fail_name;
  int fail_code = 0, fail_times = 0;
  std::atomic<int> compile_milliseconds{0};
  std::atomic<bool> hold_next_replace{false}, replace_held{false};  // the next cuTensorMapReplaceAddress waits until replace_held is taken back
  bool compile_fails = false;
  std::string compile_log;  // appended to the log
  std::atomic<bool> shut_down{false};  // set by the library's own static destructor; a call after it aborts
};

}  // namespace fake

extern "C" fake::Control* fake_control();
extern "C" fake::Context* fake_new_context(int device);  // not a primary one
extern "C" fake::Stream* fake_new_stream(fake::Context*);
extern "C" fake::Context* fake_primary(int device);
extern "C" void fake_set_current(fake::Context*);
extern "C" fake::Context* fake_current();
