target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tools/counters/cases.cc)
target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tools/counters)
