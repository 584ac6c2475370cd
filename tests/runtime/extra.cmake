# A driver and a compiler that pretend: one library with the entry points of libcuda and NVRTC that Foretile uses.
add_library(foretile_fake_cuda MODULE ${CMAKE_CURRENT_LIST_DIR}/fake/fake_cuda.cc)
target_include_directories(foretile_fake_cuda PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(foretile_fake_cuda PRIVATE Threads::Threads)
add_dependencies(foretile_test_runtime foretile_fake_cuda)
target_compile_definitions(foretile_test_runtime PRIVATE FORETILE_FAKE_CUDA="$<TARGET_FILE:foretile_fake_cuda>")
