# A driver that runs the benchmarks' helper kernels on the CPU.
add_library(foretile_fake_gpu MODULE ${CMAKE_CURRENT_LIST_DIR}/fake/fake_gpu.cc)
target_compile_definitions(foretile_fake_gpu PRIVATE FORETILE_CXX="${CMAKE_CXX_COMPILER}" FORETILE_INCLUDE="${PROJECT_SOURCE_DIR}/include")
target_link_libraries(foretile_fake_gpu PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(foretile_test_bench foretile_fake_gpu)
target_compile_definitions(foretile_test_bench PRIVATE FORETILE_FAKE_GPU="$<TARGET_FILE:foretile_fake_gpu>")
