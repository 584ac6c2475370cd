// Records what a Hopper GPU does, for replay on machines without one: see tests/golden/README.md.
//
//   python3 generate_wgmma.py > wgmma.inc
//   nvcc -std=c++17 -O2 -cudart static -gencode=arch=compute_90a,code=sm_90a -o dump dump.cu
//   ./dump FOLDER
//
// Writes FOLDER/{tma,layout,accumulate}.golden and prints the facts. Exit code 1 where the chip did something that the
// dump cannot express.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cudaTypedefs.h>

#include "accumulate.cuh"
#include "layouts.cuh"
#include "tma.cuh"

int main(int argc, char** argv) {
  using namespace golden;
  if (argc != 2) return std::fprintf(stderr, "usage: dump FOLDER\n"), 2;
  const std::string folder = argv[1];
  cudaDeviceProp device;
  int driver = 0, runtime = 0;
  CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  if (device.major != 9) return std::fprintf(stderr, "this tool records compute capability 9.0; the device has %d.%d\n", device.major, device.minor), 1;
  char date[32];
  const time_t now = time(nullptr);
  strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
  const std::map<std::string, std::string> header = {{"date", date}, {"gpu", device.name}, {"driver_cuda", std::to_string(driver)}, {"cuda", std::to_string(runtime)}};

  add_type<bf16>(), add_type<fp16>(), add_type<tf32>(), add_type<e4m3>(), add_type<e5m2>(), add_type<int8>();
  int failures = 0;
  {
    Writer out(folder + "/tma.golden", header);
    failures += dump_tma(out);
    dump_matrix_moves(out);
  }
  {
    Writer out(folder + "/layout.golden", header);
    failures += dump_fragments(out);
    failures += dump_layouts(out);
  }
  {
    Writer out(folder + "/accumulate.golden", header);
    dump_gaps(out);
    dump_random(out);
    dump_invariance(out);
  }
  CUDA_CHECK(cudaDeviceSynchronize());
  std::printf(failures ? "%d things could not be recorded\n" : "everything recorded\n", failures);
  return failures != 0;
}
