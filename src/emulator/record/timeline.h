// The writer behind foretile::emulator::Timeline: tracks, spans that may overlap, events in the Chrome trace format.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "foretile/emulator.h"

namespace foretile::emulator {

// The members of an event's "args" object.
class EventArguments {
 public:
  EventArguments& add(std::string_view name, std::string_view text);
  EventArguments& add(std::string_view name, i64 number);
  const std::string& json() const { return json_; }

 private:
  std::string json_;
};

struct Timeline::Writer {
  explicit Writer(std::string path);
  ~Writer();
  void finish();

  // Identifiers count from 1.
  u32 add_process(const std::string& name);
  u32 add_track(u32 process, const std::string& name);
  // A span of a track. One that begins while another of its track is open gets a row of its own, unless the other is the
  // track's `base`, in which it lies.
  u32 open(u32 track, u64 step, const std::string& name, const char* category, const EventArguments& arguments, bool base = false);
  void close(u32 span, u64 step, const EventArguments& more = {});
  void mark(u32 process, u64 step, const std::string& name, const EventArguments& arguments);  // a moment
  // Begins a run's steps after those of the run before; ends it, with whatever is still open.
  u64 begin_run() { return origin = latest; }
  void end_run(u64 step);

  u64 origin = 0;  // of the run's steps

 private:
  struct Track {
    u32 process = 0;
    std::string name;
    std::vector<u32> rows;   // their thread identifiers in the file
    std::vector<bool> busy;
  };
  struct Span {
    u32 track = 0, row = 0;  // track 0: not in use
    u64 begin = 0;
    bool base = false;
    std::string text;        // of the event, all but its duration
  };
  void write(const std::string& event);
  int replace_target();  // errno, or 0

  std::string path_;
  // A regular file, or one yet to be, is replaced when the timeline is complete; into a pipe or a device it is written as it
  // comes, and both of these are empty.
  std::string target_, temporary_;
  std::FILE* file_ = nullptr;
  int error_ = 0;  // errno of the first write that failed
  bool any_ = false;
  u32 processes_ = 0, rows_ = 0;
  u64 latest = 0;
  std::vector<Track> tracks_;
  std::vector<Span> spans_;
  std::vector<u32> unused_;  // spans to be used again
};

}  // namespace foretile::emulator
