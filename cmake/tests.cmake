# tests.cmake - the test programs, and every test as an entry of ctest.

# weir_test(<name> [WHOLE] [LIBRARY <target>]): test_<name> from the files of the list test_<name> and
# the harness; an entry of ctest for each of its files, which runs the cases of that file. WHOLE: one
# entry for all. LIBRARY: what it is linked with, if not the whole library.
function(weir_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "WHOLE" "LIBRARY" "")
    if(NOT test_LIBRARY)
        set(test_LIBRARY weir_static)
    endif()
    weir_program(test_${name} ${test_LIBRARY} test/main.c ${test_${name}})
    target_include_directories(test_${name} PRIVATE test src)
    target_compile_definitions(test_${name} PRIVATE WEIR_TEST_DIR="${CMAKE_SOURCE_DIR}/test")
    if(test_WHOLE)
        add_test(NAME ${name} COMMAND test_${name})
        return()
    endif()
    foreach(file IN LISTS test_${name})
        get_filename_component(cases ${file} NAME_WE)
        string(REGEX REPLACE "^test/|\\.c$" "" label ${file})
        add_test(NAME ${label} COMMAND test_${name} ^${cases}/)
    endforeach()
endfunction()

enable_testing()
if(found_mpi)           # started by test/systems/mpi.sh
    weir_sources(mpi_job test/systems mpi_job)
    weir_program(mpi_job weir_shared ${mpi_job})
endif()
weir_sources(test_core test/core env half mem rng shape status tensor text thread vec)
weir_sources(test_core test/core/schedule call_order deps)
weir_test(core)
weir_sources(test_device test/device device kernel kernel_table limits network process resources)
weir_sources(test_device test/device/comm launcher local model order pace prompt wire)
weir_sources(test_device test/device/cpu amx batch conv drive_kernel elementwise gelu half half_work
    isa layer_norm loss lstm matmul move norm onednn_memory openblas overrun pack pool2d quantize
    reduce scratch sign update widens)
weir_sources(test_device test/device/memory block guard pool)
weir_sources(test_device test/device/offload spill spill_env spill_fault)
weir_sources(test_device test/device/sim sim world)
weir_test(device)
weir_sources(test_op test/graph/ops attention autograd cases collective compare definitions draw
    edge facts index masked mistake onnx op_fixture peer promote
    reference reference_image reference_math reference_matrix
    reference_move reference_order reference_recurrent reference_train special stale
    table_attention table_compare table_conv table_elementwise table_gather table_loss table_math
    table_matmul table_move table_norm table_order table_pool2d table_recurrent table_reduce
    table_slice table_update way)
weir_test(op WHOLE)     # its cases are rows of the op tables
# The memory planner, without the rest of the library.
weir_sources(test_planner test/graph/memory/bounds bound)
weir_sources(test_planner test/graph/memory/policies optimal policies policies_placed portfolio)
weir_sources(test_planner test/graph/memory/problem lower relower)
weir_sources(test_planner test/graph/memory/search free_offloads reorder search)
weir_sources(test_planner test/graph/memory/verify check)
weir_sources(test_planner test/graph/placement gap_tree place_align place_csv place_fuzz place_items
    progress)
weir_test(planner LIBRARY weir_planner)
weir_sources(test_graph test/graph/autodiff accumulate checkpoint_function clip grad
    gradient_sum leaf versions vjp)
weir_sources(test_graph test/graph/compile agreement bucket_cuts buckets buffering chosen_kernels
    fault half handles levels planning_progress several step stop)
weir_sources(test_graph test/graph/eager evict evict_hazard)
weir_sources(test_graph test/graph/frontend autocast custom_op memory memory_format record)
weir_sources(test_graph test/graph/ir names scope)
weir_sources(test_graph test/graph/memory/budget budget cache frontier largest needs
    offloaded_state offloaded_values placed_steps replan shared trained_policies value_ranges)
weir_sources(test_graph test/graph/memory/explain explain head html picture)
weir_sources(test_graph test/graph/memory/stepfile check_file stepfile stepfile_order stepfile_text
    sweep)
weir_sources(test_graph test/graph/passes fuse fuse_results fuse_weights order relu_sign_bits
    simplify update_rows)
weir_sources(test_graph test/graph/plan collectives concat_parts liveness placed_plans plan streams
    wire_time)
weir_sources(test_graph test/graph/report dump json wire_rows)
weir_sources(test_graph test/graph/runtime execute guard measure nonfinite tracing)
weir_test(graph)
if(have_onednn AND WEIR_X86_64 AND WEIR_SANITIZE STREQUAL none AND OpenMP_C_FOUND)
    # Uses oneDNN alone; run by hand: docs/internals/onednn-1x1-weights.md.
    add_executable(onednn_overrun EXCLUDE_FROM_ALL test/device/cpu/onednn_overrun.c)
    target_include_directories(onednn_overrun SYSTEM PRIVATE ${WEIR_DNNL_INCLUDE})
    target_link_libraries(onednn_overrun PRIVATE ${WEIR_DNNL_LIBRARY} OpenMP::OpenMP_C m)
endif()
# Random programs that use the public interface alone; each runs in a child process.
weir_sources(programs test/programs dice main make modes ops_net ops_plain ops_shape ops_state
    ops_train play print shrink world)
weir_program(test_programs weir_static ${programs})
target_include_directories(test_programs PRIVATE test)
add_test(NAME programs COMMAND test_programs)
if(have_cuda)
    weir_sources(test_cuda test/device/cuda attention blas_real callbacks chain conv cpu_vs_gpu cudnn
        each_call images kernel_file libs lstm moves multiply nccl norm offload plugin_open product
        reduce rows same_cases source spare stream two_cards update vtable)
    weir_sources(test_cuda test/emulator/tests captures failures memory nccl streams threads)
    weir_test(cuda)
    weir_cuda_inside(test_cuda codegen/kernel_file.c codegen/kernel_trim.c codegen/source.c lib/dnn.c
        lib/nvrtc.c runtime/libs.c)
    weir_cuda_also(test_cuda cpu/drive_kernel.c cpu/move.c cpu/pack.c cpu/quantize.c cpu/sign.c)
    weir_cuda_lab(test_cuda)
endif()
weir_sources(test_model test/model layer_tree layers metrics optim optim_states options parallel precision recurrent
    sequential summary)
weir_sources(test_model test/model/data augment data data_fuzz shards)
weir_sources(test_model test/model/file disk_fault file_fuzz graph_file graph_fuzz ranks resume
    weights)
weir_sources(test_model test/model/nets nets nets_step tree)
weir_sources(test_model test/model/onnx onnx onnx_control onnx_fuzz onnx_integers onnx_ops
    onnx_recurrent onnx_save onnx_tensor onnx_write)
weir_test(model)
weir_program(drawn_faults weir_shared test/systems/drawn_faults.c)
add_test(NAME drawn_faults COMMAND drawn_faults 7)
weir_program(one_hash weir_shared test/systems/one_hash.c)
add_test(NAME one_hash COMMAND one_hash 8)
foreach(script IN ITEMS tool examples install)
    add_test(NAME ${script}
        COMMAND sh ${CMAKE_SOURCE_DIR}/test/${script}.sh ${CMAKE_BINARY_DIR})
endforeach()
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
    add_test(NAME tree COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/test/check_tree.py)
    add_test(NAME env COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/test/check_env.py)
    add_test(NAME link
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/test/check_link.py ${CMAKE_BINARY_DIR})
    add_test(NAME vectors
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/test/systems/check_vectors.py ${CMAKE_BINARY_DIR})
    add_test(NAME check_python
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/test/check_python.py)
    add_test(NAME upgrade
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/test/check_upgrade.py)
    add_test(NAME truth
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/test/truth.py ${CMAKE_BINARY_DIR})
    add_test(NAME special
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/test/pytorch/special_values.py
            ${CMAKE_BINARY_DIR})
    add_test(NAME optim
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/test/pytorch/optim_torch.py
            ${CMAKE_BINARY_DIR})
    add_test(NAME docs
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/test/docs.py --build ${CMAKE_BINARY_DIR})
    add_test(NAME bench COMMAND sh ${CMAKE_SOURCE_DIR}/test/bench.sh ${CMAKE_BINARY_DIR})
endif()
