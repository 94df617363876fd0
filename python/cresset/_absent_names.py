"""Names of torch that are missing; written by `make names`."""

NAMES = frozenset("""
AliasDb ArgumentSpec BenchmarkConfig BenchmarkExecutionStats BufferDict CallStack Capsule Code CompleteArgumentSpec
ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable DeserializationStorageContext ErrorReport
ExcludeDispatchKeyGuard ExecutionPlan Gradient GraphExecutorState IODescriptor LiteScriptModule ModuleDict
OperatorInfo ParameterDict ScriptClass ScriptClassFunction ScriptMethod ScriptModuleSerializer ScriptObjectProperty
SerializationStorageContext StaticModule Tensor.grad_dtype Tensor.index Tensor.int_repr Tensor.q_per_channel_axis
Tensor.q_per_channel_scales Tensor.q_per_channel_zero_points Tensor.q_scale Tensor.q_zero_point Tensor.qscheme
Tensor.to_mkldnn Tensor.to_padded_tensor TracingState _dynamo.config.skip_fwd_side_effects_in_bwd_under_checkpoint
_inductor.cudagraph_mark_step_begin _make_per_tensor_quantized_tensor ao.quantization.convert
ao.quantization.default_observer ao.quantization.default_per_channel_weight_observer
ao.quantization.default_weight_observer ao.quantization.fuse_modules ao.quantization.fuse_modules_qat
ao.quantization.fx._decomposed ao.quantization.get_default_qat_qconfig ao.quantization.prepare
ao.quantization.prepare_qat autograd.profiler.emit_itt backends.cuda.blas_workspace_size
backends.cuda.cublas_workspace_size backends.cuda.cublaslt_workspace_size backends.cudnn.m backends.mkldnn.m
backends.mps.get_core_count backends.mps.get_name backends.opt_einsum.m backends.python_native backends.quantized
backends.quantized.engine backends.quantized.supported_engines bit bits16 bits1x8 bits2x4 bits4x2 bits8
choose_qparams_optimized cpp cuda.GreenContext cuda.caching_allocator_disabled cuda.caching_allocator_enable
cuda.change_current_allocator cuda.cudart cuda.current_blas_handle cuda.current_solver_handle cuda.jiterator
cuda.memory.caching_allocator_disabled cuda.memory.caching_allocator_enable cuda.memory.change_current_allocator
cuda.nccl cuda.tunable distributed._functional_collectives.AsyncCollectiveTensor
distributed.checkpoint.optimizer.load_sharded_optimizer_state_dict distributed.config
distributed.distributed_c10d._pg_map distributed.fsdp.FullyShardedDataParallel.rekey_optim_state_dict
distributed.fsdp.sharded_grad_scaler.ShardedGradScaler distributed.logging
distributed.tensor.placement_types.Shard._local_shard_size_and_offset distributed.torch distributed.traceback
distributed.typing empty_quantized export.decomp_utils.CustomDecompTable fbgemm_linear_fp16_weight
fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation
fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix float4_e2m1fn_x2 int1 int2
int3 int4 int5 int6 int7 int_repr jit.export_opnames linalg.common_notes merge_type_from_type_comment
miopen_batch_norm miopen_convolution miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose
miopen_ctc_loss miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d mkldnn_linear_backward_weights
mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer mps.Event mps.compile_shader mps.current_allocated_memory
mps.driver_allocated_memory mps.get_rng_state mps.load_metallib mps.profiler mps.recommended_max_memory mps.seed
mps.set_per_process_memory_fraction mps.set_rng_state mps.synchronize mtia.MTIAGraph
mtia.attach_out_of_memory_observer mtia.current_device mtia.current_stream mtia.default_stream
mtia.get_device_capability mtia.get_device_properties mtia.get_rng_state mtia.graph mtia.graph_pool_handle mtia.init
mtia.initial_seed mtia.record_memory_history mtia.set_device mtia.set_stream mtia.snapshot mtia.synchronize
nn.functional.reproducibility_notes nn.functional.sparse_support_notes nn.functional.tf32_notes nn.intrinsic nn.qat
nn.quantizable onnx.ExportableModule onnx.InputObserver onnx.operators onnx.operators.shape_as_tensor onnx.ops
onnx.symbolic_helper.cast_pytorch_to_onnx onnx.symbolic_opset12 onnx.symbolic_opset12.dropout
onnx.symbolic_opset9.masked_fill onnx.symbolic_opset9.softmax ops.aten._scaled_dot_product_cudnn_attention
ops.aten._scaled_dot_product_cudnn_attention_backward ops.aten._scaled_dot_product_flash_attention
ops.aten._scaled_dot_product_flash_attention_backward ops.quantized_decomposed.dequantize_per_channel
overrides.redispatch_function package.Directory package.EmptyMatchError package.GlobGroup package.PackageExporter
package.PackageImporter package.PackagingError package.analyze package.file_structure_representation
package.find_file_dependencies package.glob_group package.importer package.package_exporter package.package_importer
parse_type_comment q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qint32
qint8 qscheme quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm
quantized_gru_cell quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d
quantized_rnn_relu_cell quantized_rnn_tanh_cell quint2x4 quint4x2 quint8 sparse.SparseSemiStructuredTensor
sparse.SparseSemiStructuredTensorCUSPARSELT sparse.SparseSemiStructuredTensorCUTLASS sparse.solve
sparse.to_sparse_semi_structured uint1 uint2 uint3 uint4 uint5 uint6 uint7 utils._sympy.numbers.IntInfinity
utils._sympy.value_ranges.ValueRanges utils.cmake_prefix_path xpu.Event xpu.MemPool xpu.Stream xpu.XPUGraph
xpu.XPUPluggableAllocator xpu.can_device_access_peer xpu.change_current_allocator xpu.clock_rate xpu.current_device
xpu.current_stream xpu.device_memory_used xpu.get_device_capability xpu.get_device_name xpu.get_device_properties
xpu.get_per_process_memory_fraction xpu.get_rng_state xpu.get_stream_from_external xpu.graph xpu.graph_pool_handle
xpu.init xpu.initial_seed xpu.make_graphed_callables xpu.mem_get_info xpu.memory_snapshot xpu.memory_usage
xpu.power_draw xpu.set_device xpu.set_per_process_memory_fraction xpu.set_stream xpu.synchronize xpu.temperature
xpu.use_mem_pool xpu.utilization
""".split())


def missing(module, name):
    """The AttributeError for a name that a module lacks."""
    path = f"{module}.{name}".partition(".")[2]
    if path in NAMES:
        return AttributeError(f"torch.{path} is not part of Cresset yet", name=name)
    return AttributeError(f"module '{module}' has no attribute '{name}'", name=name)
