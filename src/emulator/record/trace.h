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

#include "emulator/observer.h"
#include "emulator/record/l2.h"

namespace foretile::emulator {

class Trace : public Observer {
 public:
  // With l2_bytes the sectors go through an L2 cache of that size. The order of what the launches may touch, not the host's
  // addresses, says where the L2 sees it: a run repeats exactly.
  Trace(const std::vector<Launch>& chain, u64 l2_bytes);
  void access(LaneAccess kind, const char* call, const Thread& thread, u64 address, u32 bytes, Site site) override;
  void copy_issued(const Copy& copy) override;
  void box_prefetched(const Box& box, Site site) override;
  // Closes requests that not all lanes came to. Sites in order of first execution.
  void finish(Report& report);

 private:
  struct Request {
    u32 active = 0;
    std::array<u64, 32> address{};
  };
  struct Stream {
    std::size_t site = 0;  // in sites_
    LaneAccess kind{};
    u32 bytes = 0;
    std::array<u64, 32> count{};  // accesses of each lane so far
    u64 closed = 0;               // requests closed so far
    std::deque<Request> open;
    std::deque<Request> recent;   // closed last
  };
  // Address modulo 16 of a site's first requests, in order, as long as all warps and lanes agree.
  struct Alignment {
    bool varies = false;
    std::vector<u8> of;
  };
  struct Place { u64 first, end, at; };

  std::size_t site_index(Site site, const char* call, u32 bytes);
  void close(Stream& s);
  void count_box(const Box& box, const char* call, Site site, bool store, u32 blocks);
  void count_mergeable(Stream& s, const Request& r);
  u64 place(u64 address) const;

  std::optional<L2Cache> l2_;
  std::vector<Place> places_;  // host addresses of the operands, in their order, and where the L2 sees them
  std::map<std::tuple<const char*, int, const char*, u32>, std::size_t> index_;  // by file, line, call and bytes
  std::vector<AccessSite> sites_;
  std::vector<Alignment> alignment_;         // by site
  std::unordered_map<u64, Stream> streams_;  // by site and warp
};

}  // namespace foretile::emulator
