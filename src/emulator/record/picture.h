// Draws a run on a Timeline: the waits of each warp, the copies and multiplies in flight, findings as marks.
#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "emulator/observer.h"
#include "emulator/record/timeline.h"

namespace foretile::emulator {

class Machine;

class Picture : public Observer {
 public:
  Picture(Timeline& timeline, const Machine& machine);
  ~Picture() override;
  void block_starts(const Block& b) override;
  void thread_returns(const Thread& t) override;
  void thread_waits(const Thread& t) override;
  void thread_goes_on(const Thread& t) override;
  void copy_issued(const Copy& copy) override;
  void copy_read(u64 id) override;
  void copy_landed(u64 id) override;
  void multiply_issued(const Block& b, const Warpgroup& g, const MatrixMultiply& op) override;
  void multiplies_retired(const Block& b, const Warpgroup& g, u32 upto) override;
  void happened(const Block& b, const char* what, Site site, const std::string& text) override;

 private:
  // Lanes of a warp that wait for the same thing.
  struct Waiting {
    Wait wait;
    u32 span = 0, lanes = 0, most = 0;
  };
  struct WarpTrack {
    u32 track = 0, life = 0;
    std::vector<Waiting> waits;
  };
  // Copies that are one span.
  struct InFlight {
    std::string name;
    const MbarrierState* barrier;
    u32 phase, span, count, in_flight;
    u64 bytes;
  };
  struct Group { u32 group, span, multiplies; };
  struct WarpgroupTrack {
    u32 track = 0;
    std::vector<Group> groups;
  };
  struct BlockTracks {
    u32 process = 0, loads = 0, stores = 0, peers = 0;
    std::vector<WarpTrack> warps;
    std::vector<WarpgroupTrack> warpgroups;
    std::vector<InFlight> copies;
  };
  struct CopyPlace {
    u32 block, span;
    bool store;
    u64 source_free = 0;
  };

  BlockTracks& of(const Block& b) { return blocks_.at(b.index); }
  std::string name_of_shared(const Block& b, u32 address) const;
  EventArguments at(Site site) const;

  Timeline::Writer& writer_;
  const Machine& machine_;
  std::map<u32, BlockTracks> blocks_;  // by index
  std::map<u64, CopyPlace> copies_;    // by number
};

}  // namespace foretile::emulator
