# sources.cmake - the files of the library and of the tool, folder by folder.
#
# Files are listed by name: a file that is not listed is not built, a missing one is an error.

# weir_sources(<list> <folder> name...) appends folder/name.c ... to <list>.
function(weir_sources list folder)
    set(files ${${list}})
    foreach(name IN LISTS ARGN)
        list(APPEND files ${folder}/${name}.c)
    endforeach()
    set(${list} ${files} PARENT_SCOPE)
endfunction()

weir_sources(core src/core dtype env file fused kind mem op phase shape splitmix status tensor text
    thread trace vec)
weir_sources(core src/core/schedule call_order deps)

weir_sources(device src/device call collective device kernel kernel_probe kernel_table network open plugin rates
    resources)
weir_sources(device src/device/common staging)
weir_sources(device src/device/memory arena block guard heap pool)
weir_sources(device src/device/offload checksum spill spill_copy spill_file spill_io spill_slots
    swap)

weir_sources(sim src/device/sim clock sim spec watch world)

weir_sources(comm src/device/comm blame communicator kinds launcher local model order pace prompt
    queued rounds watch wire)

weir_sources(cpu src/device/cpu amx cpu isa model)
weir_sources(cpu src/device/cpu/gemm gemm gemm_blocks im2col library_copy onednn onednn_defect openblas
    openblas_product)
weir_sources(cpu src/device/cpu/kernels attention attention_plan batch callback collective compare
    conv conv_1x1 conv_grad_w conv_rows depthwise_w elementwise gather index layer_norm loss lstm
    matmul move norm pack pool2d product quantize reduce reduce_scan sign slice softmax swap update
    widen)

# Compiled once for each instruction set.
weir_sources(cpu_isa src/device/cpu/gemm gemm_isa)
weir_sources(cpu_isa src/device/cpu/kernels attention_loops_isa depthwise_w_isa elementwise_isa
    layer_norm_isa loss_isa lstm_isa norm_isa pair_isa pool2d_isa reduce_isa sign_isa softmax_isa
    update_isa)

# Compiled with the flags of AVX512_BF16.
weir_sources(cpu_bf16 src/device/cpu/gemm gemm_bf16)

weir_sources(graph src/graph/autodiff checkpoint_function clip grad gradient_sum
    leaf_table tape)
weir_sources(graph src/graph/compile agreement bucket_cuts buckets call_digest compile join_sums
             measured_steps recording run step text waiting)
weir_sources(graph src/graph/eager evict lineage rematerialize)
weir_sources(graph src/graph/frontend autocast memory_format parts record share value)
weir_sources(graph src/graph/ir format graph names session tensor_name touched)
weir_sources(graph src/graph/memory/budget amount apply budget budget_context cache from_graph
    frontier largest region replan shared timing value_ranges)
weir_sources(graph src/graph/memory/explain collective_times explain html
    picture reasons)
weir_sources(graph src/graph/memory/stepfile stepfile stepfile_check stepfile_names stepfile_order
    stepfile_plan stepfile_write sweep sweep_text)
weir_sources(graph src/graph/passes fuse fuse_cast fuse_group idempotent order relu_sign_bits
    remat_cast simplify update_rows)
weir_sources(graph src/graph/plan collectives collectives_check concat_parts halves liveness
    lowering op_sums overlap settle streams wire_time)
weir_sources(graph src/graph/report collective_numbers cost dot dump json recorded step_json svg
    timeline wire_rows)
weir_sources(graph src/graph/runtime execute measure nonfinite profile tracing)
weir_sources(graph src/graph/saved bindings parse words)

# The memory planner: a library of its own, which needs core and placement alone.
weir_sources(planner src/graph/memory/bounds bound bound_branch highs maxflow milp mincut_bound)
weir_sources(planner src/graph/memory/policies actnn auto autotm capuchin capuchin_passive
    checkpoint compress delta dtr dtr_lookahead fit gist mincut optimal portfolio recycle sublinear
    superneurons table vdnn)
weir_sources(planner src/graph/memory/problem copy_streams decisions event_times intervals lower
    mem_plan offsets peak_tree problem relower relower_profile relower_state
    schedule)
weir_sources(planner src/graph/memory/search anneal articulation best candidates checkpoint_set
    dtr_score dtr_sim evict_to_fit free_offloads greedy job reorder search search_state
    transfers)
weir_sources(planner src/graph/memory/verify check simulate)

weir_sources(placement src/graph/placement beam branch buffers csv exact exact_state gap_fit gap_tree
    instance placement placement_check placer progress tstack)

weir_sources(ops src/graph/ops activation attention basic callback collective compare conv define einsum
    elementwise gather layer_norm loss lstm matmul mixed_precision moment move norm op_table order
    pack pool2d quantize rearrange recurrent reduce saved_call slice softmax spill stored update)

weir_sources(model src/model accumulate digest layer layer_tree metrics micro_batches model normal optim
    optim_states parallel recurrent scaler sequential statistics summary summary_text writer)
weir_sources(model src/model/data ahead augment csv data file image)
weir_sources(model src/model/file crc32 graph header header_write items json load ranks replace save
    sources)
weir_sources(model src/model/onnx apply call elements open pool proto save select table tensor walk
    wire)
weir_sources(model src/model/onnx/op attention binary control data index linear_attention
    loss matrix norm order pool preview quantize recurrent reduce region resize sample scatter
    shape shared signal text unary)
weir_sources(model src/model/onnx/write attention calls elementwise encode matrix move norm plan
    recording reduce save_graph view writer)
weir_sources(model src/model/nets densenet gpt mobilenet nets resnet tree unet vgg)

weir_sources(tool src/tool bench bench_case commands dump fit info interpose json launch main npy
    onnx options option_table place plan process run_graph summary train view worker)
weir_sources(tool src/tool/help complete help manual)
