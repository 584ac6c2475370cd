// Runs the built tool as a user would: a process with its own environment, standard output and standard error apart.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

struct Outcome {
  int code = -1;
  std::string out, error;
  double seconds = 0;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// `environment`: "NAME=value ..." in front of the command. There is never a GPU: the driver is a file that does not exist.
inline Outcome foretile(const std::string& arguments, const std::string& environment = "") {
  const std::string base = testing::TempDir() + "/foretile_cli_" + std::to_string(getpid());
  const std::string command = "FORETILE_LIBCUDA=/nonexistent/libcuda.so " + environment + " '" FORETILE_BINARY_DIR "/foretile' " + arguments + " >" + base + ".out 2>" + base + ".err </dev/null";
  Outcome o;
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(command.c_str());
  o.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  o.out = slurp(base + ".out"), o.error = slurp(base + ".err");
  std::remove((base + ".out").c_str()), std::remove((base + ".err").c_str());
  return o;
}

inline const std::string kProduct = "--m 32 --n 6144 --k 4096 ";
