# cuda.cmake - the plugin for NVIDIA cards, and its emulation on the host for the tests.
#
# nvcc and the headers of CUDA 12 or 13 and cuDNN 9 are looked for in the system and in Python's
# wheels (nvidia-cuda-nvcc, nvidia-cuda-runtime, nvidia-cuda-cccl, nvidia-cublas, nvidia-cudnn-cu13
# and so on). Only the runtime is linked, statically; libraries are opened at run time.

set(WEIR_CUDA AUTO CACHE STRING "The plugin for NVIDIA cards: AUTO (when nvcc is found), ON, OFF")
set(WEIR_CUDA_ARCH "75;80;86;89;90" CACHE STRING "Its architectures; the last one as PTX, too")
set_property(CACHE WEIR_CUDA PROPERTY STRINGS AUTO ON OFF)
set(have_cuda OFF)
if(NOT WEIR_CUDA)
    return()
endif()

find_program(WEIR_NVCC nvcc PATHS /usr/local/cuda/bin)
if(WEIR_NVCC)
    get_filename_component(nvcc_folder ${WEIR_NVCC} DIRECTORY)
    find_path(WEIR_CUDA_INCLUDE cuda_runtime_api.h HINTS ${nvcc_folder}/../include)
    find_path(WEIR_CUDNN_INCLUDE cudnn_backend.h HINTS ${nvcc_folder}/../include)
endif()
if(WEIR_NVCC AND WEIR_CUDA_INCLUDE AND WEIR_CUDNN_INCLUDE)
    set(have_cuda ON)
elseif(NOT WEIR_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "WEIR_CUDA=${WEIR_CUDA}, but nvcc ('${WEIR_NVCC}'), cuda_runtime_api.h "
                        "('${WEIR_CUDA_INCLUDE}') or cudnn_backend.h ('${WEIR_CUDNN_INCLUDE}') "
                        "was not found")
else()
    return()
endif()

# Where libraries are looked for at run time when the system has none: folders with ':'.
get_filename_component(cuda_home ${nvcc_folder} DIRECTORY)
set(WEIR_CUDA_LIBRARY_FOLDERS ${cuda_home}/lib64 CACHE STRING "Where the toolkit's libraries are")

set(CMAKE_CUDA_COMPILER ${WEIR_NVCC})
set(CMAKE_CUDA_ARCHITECTURES OFF)       # given below
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
enable_language(CXX CUDA)

# weir_cuda_flags(<target>): what plugin and emulation have in common. Without contraction kernels
# round as the CPU's do.
add_library(weir_cuda_flags INTERFACE)
target_include_directories(weir_cuda_flags INTERFACE
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
target_include_directories(weir_cuda_flags SYSTEM INTERFACE
    ${WEIR_CUDA_INCLUDE} ${WEIR_CUDNN_INCLUDE})
target_compile_definitions(weir_cuda_flags INTERFACE WEIR_PLUGIN _GNU_SOURCE
    WEIR_CUDA_LIBRARY_FOLDERS="${WEIR_CUDA_LIBRARY_FOLDERS}")
target_link_libraries(weir_cuda_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(weir_cuda_flags INTERFACE -Wl,--no-undefined)

set(cuda_c_options
    "$<$<COMPILE_LANGUAGE:C>:$<TARGET_PROPERTY:weir_flags,INTERFACE_COMPILE_OPTIONS>>")

weir_sources(cuda_core src/core dtype shape text vec op)
list(APPEND cuda_core src/device/swap.c src/device/rates.c)
weir_sources(cuda_host src/device/cuda cuda host libs
    callback slice
    multiply matmul blas)
set(cuda_kernels)
foreach(name IN ITEMS
    compare gather move pack quantize
    gemm)
    list(APPEND cuda_kernels src/device/cuda/${name}.cu)
endforeach()

set(cuda_code)
foreach(arch IN LISTS WEIR_CUDA_ARCH)
    list(APPEND cuda_code -gencode=arch=compute_${arch},code=sm_${arch})
endforeach()
list(GET WEIR_CUDA_ARCH -1 arch)
list(APPEND cuda_code -gencode=arch=compute_${arch},code=compute_${arch})

add_library(weir_cuda MODULE ${cuda_core} ${cuda_host} ${cuda_kernels})
target_link_libraries(weir_cuda PRIVATE weir_cuda_flags)
target_compile_options(weir_cuda PRIVATE ${cuda_c_options}
    $<$<COMPILE_LANGUAGE:CUDA>:${cuda_code} --fmad=false -Xcompiler=-Wall>)

# weir_cuda_inside(<target> name...): files of the plugin that a program looks into.
function(weir_cuda_inside target)
    weir_sources(files src/device/cuda ${ARGN})
    target_sources(${target} PRIVATE ${files})
    target_include_directories(${target} SYSTEM PRIVATE ${WEIR_CUDA_INCLUDE} ${WEIR_CUDNN_INCLUDE})
    target_compile_definitions(${target} PRIVATE
        WEIR_CUDA_LIBRARY_FOLDERS="${WEIR_CUDA_LIBRARY_FOLDERS}")
endfunction()

# weir_cuda_also(<target> name...): cases of test/device/name.c, run on the emulated card, too.
function(weir_cuda_also target)
    weir_sources(files test/device ${ARGN})
    target_sources(${target} PRIVATE ${files})
    target_compile_definitions(${target} PRIVATE KERNEL_ALSO
        WEIR_EMULATED_FOLDER="${CMAKE_BINARY_DIR}/emulated")
    add_dependencies(${target} weir_cuda_emulated)
endfunction()

# ---- the emulation: the same files for the host's compiler, over a runtime of the tests' ----

if(WEIR_TESTS)
    set_source_files_properties(${cuda_kernels} PROPERTIES LANGUAGE CUDA)
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
        $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wno-unused-function -ffp-contract=off>)

    # Libraries that the emulated plugin finds beside it.
    add_library(weir_cublas_emulated MODULE test/cuda/blas.cpp test/cuda/work_find.cpp)
    set_target_properties(weir_cublas_emulated PROPERTIES PREFIX "" OUTPUT_NAME libcublasLt
        SUFFIX .so.13 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/emulated)
    target_include_directories(weir_cublas_emulated PRIVATE test/cuda)
    target_link_libraries(weir_cublas_emulated PRIVATE weir_cuda_flags)
    target_compile_options(weir_cublas_emulated PRIVATE -Wall -ffp-contract=off)
    add_dependencies(weir_cuda_emulated weir_cublas_emulated)
endif()
