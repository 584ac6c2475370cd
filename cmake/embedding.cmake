# foretile_embed(FUNCTION OUTPUT ENTRIES...): adds a build step that carries files in a C++ source. An entry is "name|path".
function(foretile_embed function output)
  set(list ${PROJECT_BINARY_DIR}/generated/${function}.txt)
  list(JOIN ARGN "\n" lines)
  file(CONFIGURE OUTPUT ${list} CONTENT "${lines}\n" @ONLY)  # touched only when the set of files changes
  set(paths)
  foreach(entry IN LISTS ARGN)
    string(REGEX REPLACE "^[^|]*\\|" "" path "${entry}")
    list(APPEND paths ${path})
  endforeach()
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFUNCTION=${function} -DLIST=${list} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${paths} ${list} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding ${function}" VERBATIM)
endfunction()

file(GLOB_RECURSE device_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/device device/*.h device/*.cuh)
list(SORT device_files)
set(device_entries)
foreach(file IN LISTS device_files)
  list(APPEND device_entries "foretile/device/${file}|${PROJECT_SOURCE_DIR}/device/${file}")
endforeach()
file(GLOB machine_files CONFIGURE_DEPENDS machines/*.toml)
set(machine_entries)
foreach(file IN LISTS machine_files)
  get_filename_component(name ${file} NAME)
  list(APPEND machine_entries "${name}|${file}")
endforeach()
file(GLOB data_files CONFIGURE_DEPENDS data/*.toml tests/golden/catalogue.csv)
set(data_entries)
foreach(file IN LISTS data_files)
  get_filename_component(name ${file} NAME)
  list(APPEND data_entries "${name}|${file}")
endforeach()

set(generated ${PROJECT_BINARY_DIR}/generated)
foretile_embed(embedded_device_sources ${generated}/device_sources.cc ${device_entries})
foretile_embed(embedded_machine_files ${generated}/machine_files.cc ${machine_entries})
foretile_embed(embedded_data_files ${generated}/data_files.cc ${data_entries})
add_library(foretile_embedded STATIC ${generated}/device_sources.cc ${generated}/machine_files.cc ${generated}/data_files.cc)
target_include_directories(foretile_embedded PUBLIC ${PROJECT_SOURCE_DIR}/src)
