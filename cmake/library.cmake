# The library users link: Foretile::foretile, static unless BUILD_SHARED_LIBS asks otherwise. Static by default because
# the interface speaks std::string (no promise across C++ compilers could be kept) and because a program then carries
# only the layers that it calls.
file(WRITE ${PROJECT_BINARY_DIR}/generated/empty.cc "// An archive needs a source even before any layer has one.\n")
add_library(foretile ${PROJECT_BINARY_DIR}/generated/empty.cc)
add_library(Foretile::foretile ALIAS foretile)
set_target_properties(foretile PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} EXPORT_NAME foretile)
target_compile_features(foretile PUBLIC cxx_std_20)
# By this name, since the tool's file is called as the library's target is.
add_custom_target(foretile_library DEPENDS foretile)
foreach(layer fmt embedded plan model cache emulator runtime api)
  if(NOT TARGET foretile_${layer})
    continue()
  endif()
  get_target_property(type foretile_${layer} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    target_sources(foretile PRIVATE $<TARGET_OBJECTS:foretile_${layer}>)
  endif()
endforeach()
target_link_libraries(foretile PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
target_include_directories(foretile PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Foretile)
install(TARGETS foretile EXPORT ForetileTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/foretile/*.h)
install(FILES ${public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/foretile)
# In the tree include/foretile/device is a link to device/; users get the files.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/device/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/foretile/device
        FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
install(EXPORT ForetileTargets NAMESPACE Foretile:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ForetileConfig.cmake.in ${PROJECT_BINARY_DIR}/generated/ForetileConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/ForetileConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/ForetileConfig.cmake ${PROJECT_BINARY_DIR}/generated/ForetileConfigVersion.cmake
        DESTINATION ${package_dir})
