# cuda.cmake - the plugin for NVIDIA cards, and its emulation on the host for the tests.
#
# cuda_find.cmake looks for nvcc, headers and the runtime, which is linked statically; libraries are
# opened at run time. nvcc is run by commands of our own: CMake's CUDA language wants a toolkit whose
# folders are those of the installer, and gives up the whole configuration where it is not.

set(WEIR_CUDA AUTO CACHE STRING "The plugin for NVIDIA cards: AUTO (when nvcc is found), ON, OFF")
set(WEIR_CUDA_ARCH "75;80;86;89;90" CACHE STRING "Its architectures; the last one as PTX, too")
set(WEIR_CUDA_FLAGS "" CACHE STRING "More options of nvcc")
set(WEIR_CUDA_LIBRARY "" CACHE FILEPATH "A plugin built before, to be installed as it is")
set_property(CACHE WEIR_CUDA PROPERTY STRINGS AUTO ON OFF)
set(have_cuda OFF)

# Beside libweir, where it is looked for; in a wheel beside the module.
if(SKBUILD)
    set(plugin_place weir COMPONENT python)
else()
    set(plugin_place ${CMAKE_INSTALL_LIBDIR})
endif()
if(WEIR_CUDA_LIBRARY)
    install(PROGRAMS ${WEIR_CUDA_LIBRARY} DESTINATION ${plugin_place} RENAME libweir_cuda.so)
    return()
endif()
if(NOT WEIR_CUDA)
    return()
endif()
if(NOT WEIR_SANITIZE STREQUAL none)     # fibers and nvcc's own code are strange to sanitizers
    if(NOT WEIR_CUDA STREQUAL AUTO)
        message(FATAL_ERROR "WEIR_CUDA=${WEIR_CUDA} goes without WEIR_SANITIZE")
    endif()
    return()
endif()

include(cmake/cuda_find.cmake)
if(cuda_missing)
    list(JOIN cuda_missing ", " cuda_missing)
    if(NOT WEIR_CUDA STREQUAL AUTO)
        message(FATAL_ERROR "WEIR_CUDA=${WEIR_CUDA}, but this is missing: ${cuda_missing}")
    endif()
    message(STATUS "weir: no plugin for NVIDIA cards (missing: ${cuda_missing})")
    return()
endif()
set(have_cuda ON)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
enable_language(CXX)

# weir_cuda_flags(<target>): what plugin and emulation have in common. Without contraction kernels
# round as the CPU's do.
add_library(weir_cuda_flags INTERFACE)
target_include_directories(weir_cuda_flags INTERFACE
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
target_include_directories(weir_cuda_flags SYSTEM INTERFACE ${cuda_includes})
target_compile_definitions(weir_cuda_flags INTERFACE WEIR_PLUGIN _GNU_SOURCE
    WEIR_CUDA_LIBRARY_FOLDERS="${WEIR_CUDA_LIBRARY_FOLDERS}")
target_link_libraries(weir_cuda_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(weir_cuda_flags INTERFACE -Wl,--no-undefined)

set(cuda_c_options
    "$<$<COMPILE_LANGUAGE:C>:$<TARGET_PROPERTY:weir_flags,INTERFACE_COMPILE_OPTIONS>>")

weir_sources(cuda_core src/core dtype shape text vec op)
list(APPEND cuda_core src/device/swap.c src/device/rates.c)
weir_sources(cuda_host src/device/cuda
    cuda host libs
    multiply matmul blas
    slice
    conv
)
set(cuda_kernels)
foreach(name IN ITEMS
    compare gather move
    reduce reduce_arg reduce_pair scan softmax loss norm
    gemm
    conv_direct pool2d
    update
)
    list(APPEND cuda_kernels src/device/cuda/${name}.cu)
endforeach()

set(cuda_code)
foreach(arch IN LISTS WEIR_CUDA_ARCH)
    list(APPEND cuda_code -gencode=arch=compute_${arch},code=sm_${arch})
endforeach()
list(GET WEIR_CUDA_ARCH -1 arch)
list(APPEND cuda_code -gencode=arch=compute_${arch},code=compute_${arch})

# Each kernel file, once for all architectures.
set(cuda_objects)
list(TRANSFORM cuda_includes PREPEND -isystem= OUTPUT_VARIABLE system_includes)
foreach(file IN LISTS cuda_kernels)
    get_filename_component(name ${file} NAME_WE)
    set(object ${CMAKE_BINARY_DIR}/CMakeFiles/cuda/${name}.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${CMAKE_SOURCE_DIR}/${file} DEPFILE ${object}.d
        COMMAND ${CMAKE_CUDA_COMPILER_LAUNCHER} ${WEIR_NVCC} -ccbin ${CMAKE_CXX_COMPILER}
            -std=c++20 -O3 --fmad=false ${cuda_code}
            -Xcompiler=-fPIC,-fvisibility=hidden,-Wall$<$<BOOL:${WEIR_WERROR}>:,-Werror>
            $<$<BOOL:${WEIR_WERROR}>:-Werror=all-warnings> ${WEIR_CUDA_FLAGS}
            -DWEIR_PLUGIN -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}/src
            ${system_includes} -MD -MF ${object}.d -MT ${object}
            -c ${CMAKE_SOURCE_DIR}/${file} -o ${object}
        COMMENT "Building CUDA object ${name}.o" VERBATIM COMMAND_EXPAND_LISTS)
    list(APPEND cuda_objects ${object})
endforeach()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/CMakeFiles/cuda)

add_library(weir_cuda MODULE ${cuda_core} ${cuda_host} ${cuda_objects})
target_link_libraries(weir_cuda PRIVATE weir_cuda_flags ${WEIR_CUDA_RUNTIME} rt)
target_compile_options(weir_cuda PRIVATE ${cuda_c_options})
set_target_properties(weir_cuda PROPERTIES LINKER_LANGUAGE CXX)
target_link_options(weir_cuda PRIVATE -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL)
install(TARGETS weir_cuda LIBRARY DESTINATION ${plugin_place})
if(TARGET weir_python)
    add_dependencies(weir_python weir_cuda)
    if(NOT SKBUILD)
        file(CREATE_LINK ${CMAKE_BINARY_DIR}/libweir_cuda.so
            ${CMAKE_BINARY_DIR}/python/weir/libweir_cuda.so SYMBOLIC)
    endif()
endif()

# weir_cuda_inside(<target> name...): files of the plugin that a program looks into.
function(weir_cuda_inside target)
    weir_sources(files src/device/cuda ${ARGN})
    target_sources(${target} PRIVATE ${files})
    target_include_directories(${target} SYSTEM PRIVATE ${cuda_includes})
    target_compile_definitions(${target} PRIVATE
        WEIR_CUDA_LIBRARY_FOLDERS="${WEIR_CUDA_LIBRARY_FOLDERS}")
endfunction()

# ---- the emulation: the same files for the host's compiler, over a runtime of the tests' ----

if(WEIR_TESTS)
    set(emulated)
    foreach(file IN LISTS cuda_kernels)
        get_filename_component(name ${file} NAME_WE)
        set(copy ${CMAKE_BINARY_DIR}/emulated/${name}.cpp)
        file(GENERATE OUTPUT ${copy} CONTENT "#include \"${CMAKE_SOURCE_DIR}/${file}\"\n")
        list(APPEND emulated ${copy})
    endforeach()
    foreach(name IN ITEMS capture failure fiber memory queue runtime
            work)
        list(APPEND emulated test/cuda/${name}.cpp)
    endforeach()
    add_library(weir_cuda_emulated MODULE ${cuda_core} ${cuda_host} ${emulated})
    set_target_properties(weir_cuda_emulated PROPERTIES OUTPUT_NAME weir_cuda
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/emulated)
    target_compile_definitions(weir_cuda_emulated PRIVATE WEIR_EMULATED)
    target_link_libraries(weir_cuda_emulated PRIVATE weir_cuda_flags)
    target_compile_options(weir_cuda_emulated PRIVATE ${cuda_c_options}
        "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${CMAKE_SOURCE_DIR}/test/cuda/emulate.h>"
        $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wno-unused-function -Wno-unknown-pragmas -ffp-contract=off>)

    # Libraries that the emulated plugin finds beside it.
    add_library(weir_cublas_emulated MODULE test/cuda/blas.cpp test/cuda/work_find.cpp)
    set_target_properties(weir_cublas_emulated PROPERTIES PREFIX "" OUTPUT_NAME libcublasLt
        SUFFIX .so.13 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/emulated)
    target_include_directories(weir_cublas_emulated PRIVATE test/cuda)
    target_link_libraries(weir_cublas_emulated PRIVATE weir_cuda_flags)
    target_compile_options(weir_cublas_emulated PRIVATE -Wall -ffp-contract=off)
    add_dependencies(weir_cuda_emulated weir_cublas_emulated)
endif()
