# Installs the build to a fresh prefix, builds examples/*.cc against it with find_package(Foretile) from outside the tree,
# and runs them. An example exits with 0 on a machine without a GPU too (it says that it has none).
set(work ${BUILD}/install-test)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work}/consumer)

function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGN}\n${output}")
  endif()
  message(STATUS "${output}")
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/first)
file(RENAME ${work}/first ${work}/prefix)  # the package may not depend on where it was installed
if(NOT EXISTS ${work}/prefix/include/foretile/device/operation.h OR IS_SYMLINK ${work}/prefix/include/foretile/device)
  message(FATAL_ERROR "the device headers were not installed as files")
endif()

file(GLOB examples ${SOURCE}/examples/*.cc)
if(NOT examples)
  message(FATAL_ERROR "no examples/*.cc to build")
endif()
set(lists "cmake_minimum_required(VERSION 3.22)\nproject(consumer LANGUAGES CXX)\nfind_package(Foretile REQUIRED)\n")
set(programs)
foreach(example IN LISTS examples)
  get_filename_component(name ${example} NAME_WE)
  file(COPY ${example} DESTINATION ${work}/consumer)
  string(APPEND lists "add_executable(${name} ${name}.cc)\ntarget_link_libraries(${name} PRIVATE Foretile::foretile)\n")
  list(APPEND programs ${name})
endforeach()
file(WRITE ${work}/consumer/CMakeLists.txt "${lists}")
step(${CMAKE_COMMAND} -S ${work}/consumer -B ${work}/consumer/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${work}/prefix
     -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release)
step(${CMAKE_COMMAND} --build ${work}/consumer/build)
foreach(name IN LISTS programs)
  step(${work}/consumer/build/${name})
endforeach()
