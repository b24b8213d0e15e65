# mpi.cmake - the plugins for processes that an MPI launcher starts: one for each MPI that is found.
#
# Their binary interfaces differ, and both may be installed. libweir links neither; a program loads
# the plugin of the launcher that has started it. Debian: libopenmpi-dev, libmpich-dev.

set(WEIR_MPI AUTO CACHE STRING "Plugins for MPI: AUTO (those whose mpicc is found), ON (both), OFF")
set_property(CACHE WEIR_MPI PROPERTY STRINGS AUTO ON OFF)
set(mpi_summary "no (WEIR_MPI=OFF)")
if(NOT WEIR_MPI)
    return()
endif()

# weir_mpi_plugin(<name>): libweir_mpi_<name>.so, if mpicc.<name> says how to compile.
function(weir_mpi_plugin name)
    find_program(WEIR_MPICC_${name} mpicc.${name})
    mark_as_advanced(WEIR_MPICC_${name})
    set(code 1)
    if(WEIR_MPICC_${name})
        execute_process(COMMAND ${WEIR_MPICC_${name}} -show OUTPUT_VARIABLE line
            RESULT_VARIABLE code ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
    if(NOT code EQUAL 0)
        return()
    endif()
    string(REGEX MATCHALL " -I[^ ]+" folders "${line}")
    string(REGEX MATCHALL " -[Ll][^ ]+" needs "${line}")
    list(TRANSFORM folders REPLACE "^ -I" "")
    list(TRANSFORM needs STRIP)
    weir_sources(mpi src/device/comm mpi)
    add_library(weir_mpi_${name} MODULE ${mpi})
    target_compile_definitions(weir_mpi_${name} PRIVATE WEIR_MPI_NAME="${name}")
    target_include_directories(weir_mpi_${name} PRIVATE src include)
    target_include_directories(weir_mpi_${name} SYSTEM PRIVATE ${folders})
    target_link_libraries(weir_mpi_${name} PRIVATE weir_flags ${needs})
    install(TARGETS weir_mpi_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    if(TARGET weir_python AND NOT SKBUILD)
        add_dependencies(weir_python weir_mpi_${name})
        file(CREATE_LINK ${CMAKE_BINARY_DIR}/libweir_mpi_${name}.so
            ${CMAKE_BINARY_DIR}/python/weir/libweir_mpi_${name}.so SYMBOLIC)
    endif()
    set(found_mpi ${found_mpi} ${name} PARENT_SCOPE)
endfunction()

set(found_mpi)
weir_mpi_plugin(openmpi)
weir_mpi_plugin(mpich)
list(LENGTH found_mpi count)
if(count LESS 2 AND NOT WEIR_MPI STREQUAL AUTO)
    message(FATAL_ERROR "WEIR_MPI=${WEIR_MPI}, but mpicc.openmpi or mpicc.mpich was not found")
endif()
list(JOIN found_mpi ", " mpi_summary)
if(NOT found_mpi)
    set(mpi_summary "no (neither mpicc.openmpi nor mpicc.mpich was found)")
endif()
