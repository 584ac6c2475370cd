#include "cli/cli.h"

int main(int argc, char** argv) { return foretile::cli::run(argc, argv); }
