#include "emulator/record/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "model/replaced_file.h"

namespace foretile::emulator {

namespace {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (u8(c) < 0x20) out += fmt::format("\\u{:04x}", int(c));
    else out += c;
  }
  return out + '"';
}

std::runtime_error not_written(const std::string& path, int error) { return std::runtime_error(fmt::format("the timeline {} cannot be written: {}", path, std::strerror(error))); }

}  // namespace

EventArguments& EventArguments::add(std::string_view name, std::string_view text) {
  json_ += fmt::format("{}{}:{}", json_.empty() ? "" : ",", json_text(name), json_text(text));
  return *this;
}
EventArguments& EventArguments::add(std::string_view name, i64 number) {
  json_ += fmt::format("{}{}:{}", json_.empty() ? "" : ",", json_text(name), number);
  return *this;
}

// ---- the file --------------------------------------------------------------------------------------------

Timeline::Writer::Writer(std::string path) : path_(std::move(path)) {
  std::error_code error;
  const ReplacedFile place(path_, error);
  if (error) throw not_written(path_, error.value());
  target_ = place.target, temporary_ = place.temporary;
  file_ = temporary_.empty() ? std::fopen(path_.c_str(), "wb") : std::fopen(temporary_.c_str(), "w+b");
  if (!file_) throw not_written(path_, errno);
  if (!temporary_.empty()) std::remove(temporary_.c_str());  // without a name until it is complete: nothing stays of a process that is killed
  write(R"({"displayTimeUnit":"ns","otherData":{"time":"1 us is one emulated step: a call of the vocabulary by one thread"},"traceEvents":[)");
}

Timeline::Writer::~Writer() {
  if (file_) std::fclose(file_);
}

void Timeline::Writer::write(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() && !error_) error_ = errno;
}

void Timeline::Writer::finish() {
  write("\n]}\n");
  if (std::fflush(file_) != 0 && !error_) error_ = errno;
  if (!error_ && !temporary_.empty()) error_ = replace_target();
  std::fclose(file_);
  file_ = nullptr;
  if (error_) throw not_written(path_, error_);
}

int Timeline::Writer::replace_target() {
  std::FILE* named = std::fopen(temporary_.c_str(), "wb");
  if (!named) return errno;
  std::rewind(file_);
  int error = 0;
  char piece[1 << 16];
  for (std::size_t bytes; !error && (bytes = std::fread(piece, 1, sizeof piece, file_)) > 0;)
    if (std::fwrite(piece, 1, bytes, named) != bytes) error = errno;
  if (!error && std::ferror(file_)) error = errno;
  if (std::fclose(named) != 0 && !error) error = errno;
  if (!error && std::rename(temporary_.c_str(), target_.c_str()) != 0) error = errno;
  if (error) std::remove(temporary_.c_str());
  return error;
}

// ---- tracks and spans ------------------------------------------------------------------------------------

u32 Timeline::Writer::add_process(const std::string& name) {
  const u32 process = ++processes_;
  for (const auto& [what, value] : {std::pair{"process_name", "\"name\":" + json_text(name)}, std::pair{"process_sort_index", fmt::format("\"sort_index\":{}", process)}}) {
    write(fmt::format("{}\n{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"args\":{{{}}}}}", any_ ? "," : "", what, process, value));
    any_ = true;
  }
  return process;
}

u32 Timeline::Writer::add_track(u32 process, const std::string& name) {
  tracks_.push_back({process, name, {}, {}});
  return u32(tracks_.size());
}

u32 Timeline::Writer::open(u32 track, u64 step, const std::string& name, const char* category, const EventArguments& arguments, bool base) {
  Track& t = tracks_[track - 1];
  std::size_t row = std::size_t(std::find(t.busy.begin(), t.busy.end(), false) - t.busy.begin());
  if (row == t.rows.size()) {
    const u32 id = ++rows_;
    t.rows.push_back(id);
    t.busy.push_back(false);
    constexpr u32 kRowsShown = 64;  // of a track, before the next track's
    for (const auto& [what, value] : {std::pair{"thread_name", "\"name\":" + json_text(t.name)}, std::pair{"thread_sort_index", fmt::format("\"sort_index\":{}", track * kRowsShown + row)}})
      write(fmt::format(",\n{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{{}}}}}", what, t.process, id, value));
  }
  t.busy[row] = !base;
  u32 index;
  if (unused_.empty()) {
    spans_.emplace_back();
    index = u32(spans_.size());
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  Span& s = spans_[index - 1];
  s = {track, u32(row), origin + step, base,
       fmt::format("\"ph\":\"X\",\"name\":{},\"cat\":{},\"pid\":{},\"tid\":{},\"ts\":{},\"args\":{{{}", json_text(name), json_text(category), t.process, t.rows[row], origin + step, arguments.json())};
  return index;
}

void Timeline::Writer::close(u32 span, u64 step, const EventArguments& more) {
  Span& s = spans_[span - 1];
  latest = std::max(latest, origin + step);
  const bool comma = !more.json().empty() && s.text.back() != '{';
  write(fmt::format(",\n{{{}{}{}}},\"dur\":{}}}", s.text, comma ? "," : "", more.json(), origin + step - s.begin));
  if (!s.base) tracks_[s.track - 1].busy[s.row] = false;
  s.track = 0;
  unused_.push_back(span);
}

void Timeline::Writer::mark(u32 process, u64 step, const std::string& name, const EventArguments& arguments) {
  latest = std::max(latest, origin + step);
  write(fmt::format(",\n{{\"ph\":\"i\",\"s\":\"p\",\"name\":{},\"pid\":{},\"tid\":0,\"ts\":{},\"args\":{{{}}}}}", json_text(name), process, origin + step, arguments.json()));
}

void Timeline::Writer::end_run(u64 step) {
  for (u32 i = 0; i < spans_.size(); ++i)
    if (spans_[i].track) close(i + 1, step, EventArguments().add("unfinished", "the run ended first"));
  tracks_.clear();
}

Timeline::Timeline(std::string path) : writer_(std::make_unique<Writer>(std::move(path))) {}
Timeline::~Timeline() = default;
void Timeline::finish() { writer_->finish(); }

}  // namespace foretile::emulator
