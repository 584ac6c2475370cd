// What the accesses of a run cost, by call site: the requests that warps make, counted by the rules of model/access.h.
//
// Threads are fibers, so the lanes of a warp come by one after the other. The n-th access of each lane at one call site
// of a warp is taken to be one request. That is the hardware's grouping wherever lanes leave an access out only at the end
// of a loop; where some leave out the middle, a request here mixes neighbours, and sums are near but not exact.
// Requests are those of the source: a compiler may merge neighbouring narrow ones (`mergeable`).
#pragma once
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "emulator/l2.h"
#include "foretile/emulator.h"

namespace foretile::emulator {

class Trace {
 public:
  // `memory`: what the launches may touch. Its order, not the host's addresses, says where the L2 sees it: a run repeats
  // exactly.
  explicit Trace(u64 l2_bytes = 0, const std::vector<Region>& memory = {});
  enum class Kind : u8 { load_shared, store_shared, load_global, store_global, load_matrix_x4, load_matrix_x4_transposed, store_matrix_x4, store_matrix_x2, cp_async_read, cp_async_write };

  // One lane's access.
  void lane(Kind kind, u32 block, u32 thread, u64 address, u32 bytes, Site site);
  // A box of a tensor map: the sectors of its rows inside the tensor, once whatever number of blocks it goes to, and what
  // is delivered to all of them together. row(): each of its rows, for the L2.
  void box(const char* call, u64 bytes, u64 sectors, u64 delivered, Site site);
  void row(u64 address, u64 bytes, bool store);
  // Closes requests that not all lanes came to. Sites in order of first execution.
  std::vector<AccessSite> finish();
  L2Traffic l2() const { return l2_ ? l2_->traffic() : L2Traffic(); }

  // The trace of the launch that this host thread runs, or null.
  static Trace* current();

 private:
  friend class TraceScope;
  struct Request {
    u32 active = 0;
    std::array<u64, 32> address{};
  };
  struct Stream {
    std::size_t site = 0;  // in sites_
    Kind kind{};
    u32 bytes = 0;
    std::array<u64, 32> count{};  // accesses of each lane so far
    u64 closed = 0;               // requests closed so far
    std::deque<Request> open;
    std::deque<Request> recent;   // closed last
  };
  using SiteKey = std::tuple<const char*, int, Kind, u32>;

  void close(Stream& s);
  u64 place(u64 address) const;
  std::size_t site_index(Site site, const char* call, Kind kind, u32 bytes);

  // Address modulo 16 of a site's first requests, in order, as long as all warps and lanes agree.
  struct Alignment {
    bool varies = false;
    std::vector<u8> of;
  };

  std::optional<L2Cache> l2_;
  struct Place { u64 first, end, at; };
  std::vector<Place> places_;  // host addresses of the operands, in their order, and where the L2 sees them
  std::map<SiteKey, std::size_t> index_;
  std::vector<Alignment> alignment_;  // by site
  std::vector<AccessSite> sites_;
  std::unordered_map<u64, Stream> streams_;  // by site and warp
};

// Traces the launches of this host thread for its lifetime.
class TraceScope {
 public:
  explicit TraceScope(Trace& trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Trace* before_;
};

// The sites as a table: requests, wavefronts, sectors, with what they could be.
std::string text_of(const std::vector<AccessSite>& sites);

}  // namespace foretile::emulator
