# cuda_find.cmake - looks for what the plugin for NVIDIA cards is built with: nvcc, the static
# runtime, headers of CUDA 12 or 13, cuBLAS and cuDNN 9.
#
# In this order: WEIR_CUDA_ROOT (a toolkit's folder, or one with Python wheels in it: site-packages
# or its folder nvidia), $CUDA_HOME, nvcc's own toolkit, /usr/local/cuda, the wheels of the Python on
# PATH, the system's folders. Wheels of CUDA 13 share nvidia/cu13/{bin,include,lib}; older ones and
# cuDNN have a folder nvidia/<part>/ each. Nothing here is an error: cuda_missing names the missing
# parts, and an nvcc that cannot compile a file of ten lines counts as missing.
#
# Sets cuda_missing ("" if nothing is), WEIR_NVCC, WEIR_CUDA_RUNTIME, cuda_includes, cuda_archs (the
# architectures to compile for), cuda_archs_from (where AUTO took them from), and
# WEIR_CUDA_LIBRARY_FOLDERS, where libraries are opened at run time if the system has none.

set(WEIR_CUDA_ROOT "$ENV{WEIR_CUDA_ROOT}" CACHE PATH
    "A CUDA toolkit, or a folder of Python wheels, to be preferred")
set(cuda_missing)
set(nvcc_not)

# Forget cached paths that no longer exist.
foreach(part IN ITEMS NVCC CUDA_RUNTIME CUDA_INCLUDE CUBLAS_INCLUDE NVRTC_INCLUDE CUDNN_INCLUDE)
    if(WEIR_${part} AND NOT EXISTS "${WEIR_${part}}")
        unset(WEIR_${part} CACHE)
    endif()
endforeach()

# Every folder that may be a toolkit or a part of one, the preferred ones first.
set(cuda_roots)
foreach(root IN ITEMS ${WEIR_CUDA_ROOT} $ENV{CUDA_HOME} $ENV{CUDA_PATH})
    file(GLOB parts ${root}/nvidia/cu13 ${root}/nvidia/* ${root}/cu13 ${root}/cudnn
        ${root}/cuda_* ${root}/cublas)
    list(APPEND cuda_roots ${root} ${parts})
endforeach()
set(wheel_roots)
find_program(python_on_path NAMES python3 python NO_CACHE)
if(python_on_path)
    execute_process(COMMAND ${python_on_path} -c "import glob, sys
print(';'.join(sorted(p for s in sys.path if s for p in glob.glob(s + '/nvidia/c*'))))"
        OUTPUT_VARIABLE wheel_roots OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

# The first nvcc that prints where its toolkit is: one found on PATH may be a script that starts
# another nvcc, which may no longer exist.
set(nvcc_top)
set(usual_root /usr/local/cuda)
foreach(roots IN ITEMS cuda_roots path usual_root wheel_roots)
    if(NOT WEIR_NVCC AND roots STREQUAL path)
        find_program(WEIR_NVCC nvcc)
    elseif(NOT WEIR_NVCC)
        find_program(WEIR_NVCC nvcc PATHS ${${roots}} PATH_SUFFIXES bin NO_DEFAULT_PATH)
    endif()
    if(WEIR_NVCC AND NOT nvcc_top)
        execute_process(COMMAND ${WEIR_NVCC} -v weir_no_such_file
            OUTPUT_VARIABLE said ERROR_VARIABLE said)
        if(said MATCHES "#\\$ TOP=([^\r\n]*)")
            get_filename_component(nvcc_top "${CMAKE_MATCH_1}" ABSOLUTE)
        else()
            set(nvcc_not ", but for ${WEIR_NVCC}, which does not work")
            unset(WEIR_NVCC CACHE)
        endif()
    endif()
endforeach()
list(APPEND cuda_roots ${nvcc_top} ${usual_root} ${wheel_roots})

# Headers of the runtime must be of nvcc's release, or nothing compiles.
find_path(WEIR_CUDA_INCLUDE cuda_runtime_api.h HINTS ${nvcc_top} ${cuda_roots}
    PATH_SUFFIXES include targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include)
find_path(WEIR_CUBLAS_INCLUDE cublasLt.h HINTS ${WEIR_CUDA_INCLUDE} ${cuda_roots}
    PATH_SUFFIXES include)
find_path(WEIR_NVRTC_INCLUDE nvrtc.h HINTS ${WEIR_CUDA_INCLUDE} ${cuda_roots}
    PATH_SUFFIXES include)
find_path(WEIR_CUDNN_INCLUDE cudnn_backend.h HINTS ${WEIR_CUDA_INCLUDE} ${cuda_roots}
    PATH_SUFFIXES include)
find_library(WEIR_CUDA_RUNTIME libcudart_static.a HINTS ${nvcc_top} ${cuda_roots}
    PATH_SUFFIXES lib64 lib targets/${CMAKE_SYSTEM_PROCESSOR}-linux/lib)
mark_as_advanced(WEIR_NVCC WEIR_CUDA_INCLUDE WEIR_CUBLAS_INCLUDE WEIR_NVRTC_INCLUDE
    WEIR_CUDNN_INCLUDE WEIR_CUDA_RUNTIME)
foreach(part IN ITEMS "WEIR_NVCC:nvcc${nvcc_not}" WEIR_CUDA_INCLUDE:cuda_runtime_api.h
        WEIR_CUBLAS_INCLUDE:cublasLt.h WEIR_NVRTC_INCLUDE:nvrtc.h
        WEIR_CUDNN_INCLUDE:cudnn_backend.h WEIR_CUDA_RUNTIME:libcudart_static.a)
    string(REPLACE ":" ";" part ${part})
    list(GET part 0 variable)
    list(GET part 1 name)
    if(NOT ${variable})
        list(APPEND cuda_missing ${name})
    endif()
endforeach()

# A version that a header states: weir_cuda_version(<result> <file> <macro>).
function(weir_cuda_version result file macro)
    set(line)
    if(EXISTS ${file})
        file(STRINGS ${file} line REGEX "#define +${macro} +[0-9]+" LIMIT_COUNT 1)
    endif()
    string(REGEX REPLACE ".*${macro} +([0-9]+).*" "\\1" line "${line}")
    set(${result} "${line}" PARENT_SCOPE)
endfunction()
weir_cuda_version(cuda_version "${WEIR_CUDA_INCLUDE}/cuda_runtime_api.h" CUDART_VERSION)
if(WEIR_CUDA_INCLUDE AND (cuda_version LESS 12000 OR NOT cuda_version LESS 14000))
    list(APPEND cuda_missing "CUDA 12 or 13 (this is ${cuda_version})")
endif()
foreach(file IN ITEMS cudnn_version_v9.h cudnn_version.h)
    if(NOT cudnn_version)
        weir_cuda_version(cudnn_version "${WEIR_CUDNN_INCLUDE}/${file}" CUDNN_MAJOR)
    endif()
endforeach()
if(WEIR_CUDNN_INCLUDE AND cudnn_version LESS 9)
    list(APPEND cuda_missing "cuDNN 9 (this is ${cudnn_version})")
endif()

# AUTO: each architecture multiplies the time that nvcc takes, so only those of the cards here that
# this nvcc knows. sm_80 is the first with tensor cores for bf16; later cards compile its PTX.
set(cuda_archs ${WEIR_CUDA_ARCH})
set(cuda_archs_from "")
if(WEIR_CUDA_ARCH STREQUAL AUTO)
    set(cuda_archs)
    if(WEIR_NVCC)
        execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
            RESULT_VARIABLE code OUTPUT_VARIABLE cards ERROR_QUIET)
        execute_process(COMMAND ${WEIR_NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
        if(code EQUAL 0)
            string(REGEX MATCHALL "[0-9]+\\.[0-9]+" cards "${cards}")
            foreach(card IN LISTS cards)
                string(REPLACE "." "" card ${card})
                if("${known}" MATCHES "compute_${card}[\r\n]")
                    list(APPEND cuda_archs ${card})
                endif()
            endforeach()
        endif()
    endif()
    list(REMOVE_DUPLICATES cuda_archs)
    list(SORT cuda_archs COMPARE NATURAL)
    set(cuda_archs_from ", for the cards of this machine")
    if(NOT cuda_archs)
        set(cuda_archs 80)
        set(cuda_archs_from ", no card was found")
    endif()
endif()

include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
    list(APPEND cuda_missing "a C++ compiler")
endif()

# The host's compiler may be too new for nvcc, or a part of the toolkit missing: compile and link a
# small program, once for each combination of parts.
set(cuda_includes ${WEIR_CUDA_INCLUDE})
foreach(folder IN ITEMS ${WEIR_CUBLAS_INCLUDE} ${WEIR_NVRTC_INCLUDE} ${WEIR_CUDNN_INCLUDE})
    if(NOT folder STREQUAL WEIR_CUDA_INCLUDE AND NOT folder STREQUAL "/usr/include")
        list(APPEND cuda_includes ${folder})
    endif()
endforeach()
list(REMOVE_DUPLICATES cuda_includes)
if(NOT cuda_missing)
    set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/cuda_probe)
    list(GET cuda_archs 0 arch)
    list(TRANSFORM cuda_includes PREPEND -isystem= OUTPUT_VARIABLE probe_includes)
    set(probe_of "${WEIR_NVCC} ${CMAKE_CXX_COMPILER} ${WEIR_CUDA_RUNTIME} ${probe_includes} ${arch}")
    if(NOT WEIR_CUDA_PROBED STREQUAL probe_of)
        file(WRITE ${probe}.cu "#include <cuda_runtime.h>
#include <cublasLt.h>
#include <cudnn_backend.h>
#include <nvrtc.h>
__global__ void one(float *p) { p[threadIdx.x] = 1; }
int main(void) { one<<<1, 1>>>(nullptr); return cudaGetLastError() == cudaSuccess; }\n")
        execute_process(RESULT_VARIABLE code ERROR_VARIABLE said OUTPUT_QUIET
            COMMAND ${WEIR_NVCC} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 ${probe_includes}
                -gencode=arch=compute_${arch},code=sm_${arch} -c ${probe}.cu -o ${probe}.o)
        if(code EQUAL 0)
            execute_process(RESULT_VARIABLE code ERROR_VARIABLE said OUTPUT_QUIET
                COMMAND ${CMAKE_CXX_COMPILER} ${probe}.o ${WEIR_CUDA_RUNTIME} -o ${probe}
                    -lpthread -ldl -lrt)
        endif()
        if(code EQUAL 0)
            set(WEIR_CUDA_PROBED "${probe_of}" CACHE INTERNAL "Parts of CUDA that work together")
        else()
            string(REGEX REPLACE "\n.*" "" said "${said}")
            list(APPEND cuda_missing "an nvcc that works (${WEIR_NVCC} says: ${said})")
        endif()
    endif()
endif()

set(cuda_folders)
foreach(root IN LISTS cuda_roots)
    file(GLOB found ${root}/lib64/lib*.so.* ${root}/lib/lib*.so.*)
    foreach(file IN LISTS found)
        get_filename_component(folder ${file} DIRECTORY)
        get_filename_component(folder ${folder} REALPATH)
        if(file MATCHES "lib(nvrtc|cublasLt|cudnn)\\.so")
            list(APPEND cuda_folders ${folder})
        endif()
    endforeach()
endforeach()
list(REMOVE_DUPLICATES cuda_folders)
list(JOIN cuda_folders ":" cuda_folders)
set(WEIR_CUDA_LIBRARY_FOLDERS "${cuda_folders}" CACHE STRING "Where the toolkit's libraries are")
