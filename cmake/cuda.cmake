# cuda.cmake - the plugin for NVIDIA cards, and its emulation on the host for the tests.
#
# cuda_find.cmake looks for nvcc, headers and the runtime, which is linked statically; libraries are
# opened at run time. nvcc is run by custom commands: CMake's CUDA language requires a toolkit laid
# out as NVIDIA's installer does it, and stops the whole configuration where it finds another.

set(WEIR_CUDA AUTO CACHE STRING "The plugin for NVIDIA cards: AUTO (when nvcc is found), ON, OFF")
set(WEIR_CUDA_ARCH AUTO CACHE STRING
    "Its architectures (80;90), the last one as PTX, too; AUTO: this machine's cards, else 80")
set(WEIR_CUDA_FLAGS "" CACHE STRING "More options of nvcc")
set(WEIR_CUDA_LIBRARY "" CACHE FILEPATH "A plugin built before, to be installed as it is")
set_property(CACHE WEIR_CUDA PROPERTY STRINGS AUTO ON OFF)
set(have_cuda OFF)

# Installed beside libweir, which looks for it there; in a wheel beside the module.
if(SKBUILD)
    set(plugin_place weir COMPONENT python)
else()
    set(plugin_place ${CMAKE_INSTALL_LIBDIR})
endif()
set(cuda_summary "no (WEIR_CUDA=OFF)")
if(WEIR_CUDA_LIBRARY)
    set(cuda_summary "${WEIR_CUDA_LIBRARY}, built before")
    install(PROGRAMS ${WEIR_CUDA_LIBRARY} DESTINATION ${plugin_place} RENAME libweir_cuda.so)
    return()
endif()
if(NOT WEIR_CUDA)
    return()
endif()
if(NOT WEIR_SANITIZE STREQUAL none)     # sanitizers follow neither fibers nor nvcc's code
    if(NOT WEIR_CUDA STREQUAL AUTO)
        message(FATAL_ERROR "WEIR_CUDA=${WEIR_CUDA} cannot be combined with WEIR_SANITIZE")
    endif()
    set(cuda_summary "no (not with a sanitizer)")
    return()
endif()

include(cmake/cuda_find.cmake)
if(cuda_missing)
    list(JOIN cuda_missing ", " cuda_missing)
    if(NOT WEIR_CUDA STREQUAL AUTO)
        message(FATAL_ERROR "WEIR_CUDA=${WEIR_CUDA}, but this is missing: ${cuda_missing}")
    endif()
    set(cuda_summary "no (missing: ${cuda_missing})")
    return()
endif()
set(have_cuda ON)
list(JOIN cuda_archs ", sm_" cuda_summary)
set(cuda_summary "sm_${cuda_summary} and PTX${cuda_archs_from}; ${WEIR_NVCC}")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
enable_language(CXX)

# weir_cuda_flags: flags shared by plugin and emulation. Without contraction of products and sums
# kernels round as the CPU's do.
add_library(weir_cuda_flags INTERFACE)
target_include_directories(weir_cuda_flags INTERFACE
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
target_include_directories(weir_cuda_flags SYSTEM INTERFACE ${cuda_includes})
target_compile_definitions(weir_cuda_flags INTERFACE _GNU_SOURCE
    WEIR_CUDA_LIBRARY_FOLDERS="${WEIR_CUDA_LIBRARY_FOLDERS}")
target_link_libraries(weir_cuda_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(weir_cuda_flags INTERFACE -Wl,--no-undefined)

set(cuda_c_options
    "$<$<COMPILE_LANGUAGE:C>:$<TARGET_PROPERTY:weir_flags,INTERFACE_COMPILE_OPTIONS>>")

# The texts that begin generated kernels, as bytes for source.c.
set(cuda_texts ${CMAKE_BINARY_DIR}/cuda)
function(weir_cuda_text name)
    list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/src/)
    add_custom_command(OUTPUT ${cuda_texts}/${name}.inc
        COMMAND ${CMAKE_COMMAND} -D OUTPUT=${cuda_texts}/${name}.inc -D "INPUTS=${ARGN}"
                -P ${CMAKE_SOURCE_DIR}/cmake/text.cmake
        DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/text.cmake VERBATIM)
endfunction()
weir_cuda_text(rtc_begin device/cuda/codegen/rtc_types.h core/half.h core/maths.h core/trig_table.def
    core/maths_special.h core/divide.h core/rng.h core/row.h)
weir_cuda_text(rtc_kernel device/cuda/codegen/rtc_kernel.h)
add_custom_target(weir_cuda_texts DEPENDS ${cuda_texts}/rtc_begin.inc ${cuda_texts}/rtc_kernel.inc)
target_include_directories(weir_cuda_flags INTERFACE ${cuda_texts})

weir_sources(cuda_core src/core dtype shape text vec op)
list(APPEND cuda_core src/device/collective.c src/device/offload/swap.c src/device/rates.c)
weir_sources(cuda_host src/device/cuda cuda)
weir_sources(cuda_host src/device/cuda/codegen compile kernel_file kernel_trim source)
weir_sources(cuda_host src/device/cuda/kernels callback collective conv conv_product elementwise
    matmul multiply slice)
weir_sources(cuda_host src/device/cuda/lib blas dnn nccl nvrtc)
weir_sources(cuda_host src/device/cuda/runtime context host_abi libs offload stream transfer)
set(cuda_kernels)
foreach(name IN ITEMS attention attention_half attention_half_grad attention_mask_grad compare
    conv_direct gather gemm layer_norm loss lstm move norm pack pool2d quantize reduce reduce_arg
    reduce_pair scan slice_scatter softmax update)
    list(APPEND cuda_kernels src/device/cuda/kernels/${name}.cu)
endforeach()
foreach(name IN ITEMS code fault rng_state)
    list(APPEND cuda_kernels src/device/cuda/runtime/${name}.cu)
endforeach()
list(APPEND cuda_kernels src/device/cuda/lib/ordered_sum.cu)

set(cuda_code)
foreach(arch IN LISTS cuda_archs)
    list(APPEND cuda_code -gencode=arch=compute_${arch},code=sm_${arch})
endforeach()
list(GET cuda_archs -1 arch)
list(APPEND cuda_code -gencode=arch=compute_${arch},code=compute_${arch})

# Each kernel file, once for all architectures.
set(cuda_objects)
list(TRANSFORM cuda_includes PREPEND -isystem= OUTPUT_VARIABLE system_includes)
foreach(file IN LISTS cuda_kernels)
    get_filename_component(name ${file} NAME_WE)
    set(object ${CMAKE_BINARY_DIR}/CMakeFiles/cuda/${name}.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${CMAKE_SOURCE_DIR}/${file} DEPFILE ${object}.d
        COMMAND ${CMAKE_CUDA_COMPILER_LAUNCHER} ${WEIR_NVCC} -ccbin ${CMAKE_CXX_COMPILER}
            -std=c++20 -O3 --fmad=false -Xfatbin=-compress-all ${cuda_code}
            -Xcompiler=-fPIC,-fvisibility=hidden,-Wall$<$<BOOL:${WEIR_WERROR}>:,-Werror>
            $<$<BOOL:${WEIR_WERROR}>:-Werror=all-warnings> ${WEIR_CUDA_FLAGS}
            -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}/src
            ${system_includes} -MD -MF ${object}.d -MT ${object}
            -c ${CMAKE_SOURCE_DIR}/${file} -o ${object}
        COMMENT "Building CUDA object ${name}.o" VERBATIM COMMAND_EXPAND_LISTS)
    list(APPEND cuda_objects ${object})
endforeach()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/CMakeFiles/cuda)

# weir_plugin_exports(<target>): one symbol, see plugin.map.
function(weir_plugin_exports target)
    target_link_options(${target} PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/plugin.map)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/plugin.map)
endfunction()

add_library(weir_cuda MODULE ${cuda_core} ${cuda_host} ${cuda_objects})
target_link_libraries(weir_cuda PRIVATE weir_cuda_flags ${WEIR_CUDA_RUNTIME} rt)
target_compile_options(weir_cuda PRIVATE ${cuda_c_options})
set_target_properties(weir_cuda PROPERTIES LINKER_LANGUAGE CXX)
target_link_options(weir_cuda PRIVATE -static-libstdc++ -static-libgcc)
add_dependencies(weir_cuda weir_cuda_texts)
weir_plugin_exports(weir_cuda)
install(TARGETS weir_cuda LIBRARY DESTINATION ${plugin_place} OPTIONAL)     # where it was built
if(TARGET weir_python)
    add_dependencies(weir_python weir_cuda)
    if(NOT SKBUILD)
        file(CREATE_LINK ${CMAKE_BINARY_DIR}/libweir_cuda.so
            ${CMAKE_BINARY_DIR}/python/weir/libweir_cuda.so SYMBOLIC)
    endif()
endif()

# weir_cuda_inside(<target> file...): files of the plugin that a test calls directly.
function(weir_cuda_inside target)
    list(TRANSFORM ARGN PREPEND src/device/cuda/)
    target_sources(${target} PRIVATE ${ARGN})
    add_dependencies(${target} weir_cuda_texts)
    target_include_directories(${target} PRIVATE ${cuda_texts})
    target_include_directories(${target} SYSTEM PRIVATE ${cuda_includes})
    target_compile_definitions(${target} PRIVATE
        WEIR_CUDA_LIBRARY_FOLDERS="${WEIR_CUDA_LIBRARY_FOLDERS}")
endfunction()

# weir_cuda_also(<target> file...): cases of test/device/file, run on the emulated card as well.
function(weir_cuda_also target)
    list(TRANSFORM ARGN PREPEND test/device/)
    target_sources(${target} PRIVATE ${ARGN})
    target_compile_definitions(${target} PRIVATE KERNEL_CHECK_GPU
        WEIR_TEST_PLUGINS="${CMAKE_BINARY_DIR}/emulated")
    add_dependencies(${target} weir_cuda_emulated)
endfunction()

# ---- the emulation: the same files, compiled for the host over the tests' own runtime ----

if(WEIR_TESTS)
    set(emulated)
    foreach(file IN LISTS cuda_kernels)
        get_filename_component(name ${file} NAME_WE)
        set(copy ${CMAKE_BINARY_DIR}/emulated/${name}.cpp)
        file(GENERATE OUTPUT ${copy} CONTENT "#include \"${CMAKE_SOURCE_DIR}/${file}\"\n")
        list(APPEND emulated ${copy})
    endforeach()
    set(emulation)
    foreach(name IN ITEMS capture cards failure fiber memory runtime stream work)
        list(APPEND emulation test/emulator/${name}.cpp)
    endforeach()
    add_library(weir_emulation OBJECT ${emulation})
    target_link_libraries(weir_emulation PRIVATE weir_cuda_flags)
    target_compile_options(weir_emulation PRIVATE -Wall -Wextra)
    list(APPEND emulated $<TARGET_OBJECTS:weir_emulation>)
    add_library(weir_cuda_emulated MODULE ${cuda_core} ${cuda_host} ${emulated})
    weir_plugin_exports(weir_cuda_emulated)
    set_target_properties(weir_cuda_emulated PROPERTIES OUTPUT_NAME weir_cuda
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/emulated)
    add_dependencies(weir_cuda_emulated weir_cuda_texts)
    target_compile_definitions(weir_cuda_emulated PRIVATE WEIR_EMULATED)
    target_include_directories(weir_cuda_emulated PRIVATE test/emulator)    # <mma.h> ...
    target_link_libraries(weir_cuda_emulated PRIVATE weir_cuda_flags)
    target_compile_options(weir_cuda_emulated PRIVATE ${cuda_c_options}
        "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${CMAKE_SOURCE_DIR}/test/emulator/emulate.h>"
        $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wno-unused-function -Wno-unknown-pragmas -ffp-contract=off>)

    # weir_cuda_fake(<its name> <and version> file...): a library that the emulated plugin opens.
    function(weir_cuda_fake library suffix)
        list(TRANSFORM ARGN PREPEND test/emulator/)
        add_library(weir_fake_${library} MODULE ${ARGN})
        set_target_properties(weir_fake_${library} PROPERTIES PREFIX "" OUTPUT_NAME ${library}
            SUFFIX ${suffix} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/emulated
            C_VISIBILITY_PRESET default CXX_VISIBILITY_PRESET default)
        target_compile_definitions(weir_fake_${library} PRIVATE WEIR_HOST_CC="${CMAKE_C_COMPILER}")
        target_include_directories(weir_fake_${library} PRIVATE test/emulator)
        target_link_libraries(weir_fake_${library} PRIVATE weir_cuda_flags)
        target_compile_options(weir_fake_${library} PRIVATE -Wall -ffp-contract=off)
        add_dependencies(weir_cuda_emulated weir_fake_${library})
    endfunction()
    weir_cuda_fake(libcublasLt .so.13 blas.cpp work_find.c)
    weir_cuda_fake(libcudnn .so.9 dnn.cpp dnn_run.cpp work_find.c)
    weir_cuda_fake(libnvrtc .so.13 fake_nvrtc.c work_find.c)
    weir_cuda_fake(libcuda .so.1 fake_driver.cpp work_find.c)
    weir_cuda_fake(libnccl .so.2 fake_nccl.cpp work_find.c)

    # weir_cuda_lab(<target>): a test that runs its own kernels on the emulated card, and opens the
    # emulated plugin.
    function(weir_cuda_lab target)
        add_library(${target}_probe OBJECT test/emulator/tests/probe.cpp)
        target_link_libraries(${target}_probe PRIVATE weir_cuda_flags)
        target_include_directories(${target}_probe PRIVATE test test/emulator)
        target_sources(${target} PRIVATE
            $<TARGET_OBJECTS:weir_emulation> $<TARGET_OBJECTS:${target}_probe>)
        target_include_directories(${target} SYSTEM PRIVATE ${cuda_includes})
        target_compile_definitions(${target} PRIVATE
            WEIR_TEST_PLUGINS="${CMAKE_BINARY_DIR}/emulated")
        set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
        add_dependencies(${target} weir_cuda_emulated)
    endfunction()
endif()
