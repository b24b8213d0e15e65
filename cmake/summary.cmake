# summary.cmake - what is in this build, what is not, and what that means; ends the configuration.

# weir_line(<part> <text>): one line.
function(weir_line part text)
    string(LENGTH "${part}" length)
    math(EXPR blanks "16 - ${length}")
    string(REPEAT " " ${blanks} blanks)
    message(STATUS "  ${part}${blanks}${text}")
endfunction()

# weir_library(<part> <found> <where> <without it> <option>): a library, or what its absence means.
function(weir_library part found where without option)
    if(found)
        weir_line("${part}" "${where}")
    elseif(${option})
        weir_line("${part}" "not found: ${without}")
    else()
        weir_line("${part}" "no (${option}=OFF)")
    endif()
endfunction()

set(sanitizer "")
if(NOT WEIR_SANITIZE STREQUAL none)
    set(sanitizer ", sanitizer ${WEIR_SANITIZE}")
endif()
message(STATUS "Weir ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_C_COMPILER_ID} "
               "${CMAKE_C_COMPILER_VERSION}, threads by ${WEIR_THREADS}${sanitizer}")
weir_library("oneDNN" "${have_onednn}" "${WEIR_DNNL_LIBRARY}"
    "convolutions and products by Weir's own kernels, slower (libdnnl-dev)" WEIR_ONEDNN)
weir_library("jansson" "${have_jansson}" "${WEIR_JANSSON_LIBRARY}"
    "`weir plan` cannot read step files (libjansson-dev)" WEIR_JANSSON)
weir_library("LZ4" "${have_lz4}" "${WEIR_LZ4_LIBRARY}"
    "spilled values are not compressed (liblz4-dev)" WEIR_LZ4)
weir_library("xxHash" "${have_xxhash}" "${WEIR_XXHASH_INCLUDE}"
    "spilled values are checked by a slower checksum (libxxhash-dev)" WEIR_XXHASH)
weir_library("liburing" "${have_uring}" "${WEIR_URING_LIBRARY}"
    "the spill file is read and written by pread and pwrite (liburing-dev)" WEIR_URING)
weir_line("Python module" "${python_summary}")
weir_line("NVIDIA plugin" "${cuda_summary}")
if(have_cuda)
    weir_line("" "leave it out: -DWEIR_CUDA=OFF; choose: -DWEIR_CUDA_ARCH=\"80;90\"")
endif()
weir_line("MPI plugins" "${mpi_summary}")
if(WEIR_TESTS)
    weir_line("Tests" "sh test/run.sh, or ctest --test-dir build")
else()
    weir_line("Tests" "no (WEIR_TESTS=OFF)")
endif()
