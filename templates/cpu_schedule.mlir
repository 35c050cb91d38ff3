// What is done to a kernel's operations before they become loops over single elements, by two runs
// of MLIR's transform interpreter. Each operation is tried for itself: where a step fails, those
// that follow find nothing to work on, and the operation is left as it was.
module attributes {transform.with_named_sequence} {
  // Before bufferization: operations that have no loops of their own become others that do, and
  // exp of f32 becomes a call of npu_expf, which is defined at the end of the kernel's module.
  transform.named_sequence @decompose(%module: !transform.any_op {transform.readonly}) {
    %softmaxes = transform.structured.match ops{["linalg.softmax"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %softmaxes : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        // Over memory there is no result: MLIR 22 would make invalid operations of it.
        %result = transform.get_result %op[0] : (!transform.any_op) -> !transform.any_value
        %softmax = transform.get_defining_op %result : (!transform.any_value) -> !transform.any_op
        %parts = transform.structured.decompose_interface %softmax : (!transform.any_op) -> !transform.any_op
      }
    }
    %packs = transform.structured.match ops{["linalg.pack"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %packs : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %pack = transform.cast %op : !transform.any_op to !transform.op<"linalg.pack">
        %parts:3 = transform.structured.lower_pack %pack {lowerPadLikeWithInsertSlice = false}
          : (!transform.op<"linalg.pack">)
          -> (!transform.op<"tensor.pad">, !transform.op<"tensor.expand_shape">, !transform.op<"linalg.transpose">)
      }
    }
    %unpacks = transform.structured.match ops{["linalg.unpack"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %unpacks : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %unpack = transform.cast %op : !transform.any_op to !transform.op<"linalg.unpack">
        %parts:4 = transform.structured.lower_unpack %unpack {lowerUnpadLikeWithExtractSlice = false}
          : (!transform.op<"linalg.unpack">)
          -> (!transform.op<"tensor.empty">, !transform.op<"linalg.transpose">,
              !transform.op<"tensor.collapse_shape">, !transform.op<"tensor.extract_slice">)
      }
    }
    %named = transform.structured.match ops{["linalg.exp", "linalg.elementwise"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %named : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %generic = transform.structured.generalize %op : (!transform.any_op) -> !transform.any_op
      }
    }
    %exps = transform.structured.match ops{["math.exp"]} filter_result_type = f32 in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %exps : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %x = transform.get_operand %op[0] : (!transform.any_op) -> !transform.any_value
        %y = transform.get_result %op[0] : (!transform.any_op) -> !transform.any_value
        %call = transform.func.cast_and_call @npu_expf(%x) -> %y after %op
          : (!transform.any_op, !transform.any_value, !transform.any_value) -> !transform.any_op
      }
    }
    // math-expand-ops of MLIR 22 mixes the bounds up.
    %clamps_f16 = transform.structured.match ops{["math.clampf"]} filter_result_type = f16 in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %clamps_f16 : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %operands = transform.get_operand %op[all] : (!transform.any_op) -> !transform.any_value
        %y = transform.get_result %op[0] : (!transform.any_op) -> !transform.any_value
        %call = transform.func.cast_and_call @npu_clamp_f16(%operands) -> %y after %op
          : (!transform.any_op, !transform.any_value, !transform.any_value) -> !transform.any_op
      }
    }
    %clamps_bf16 = transform.structured.match ops{["math.clampf"]} filter_result_type = bf16 in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %clamps_bf16 : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %operands = transform.get_operand %op[all] : (!transform.any_op) -> !transform.any_value
        %y = transform.get_result %op[0] : (!transform.any_op) -> !transform.any_value
        %call = transform.func.cast_and_call @npu_clamp_bf16(%operands) -> %y after %op
          : (!transform.any_op, !transform.any_value, !transform.any_value) -> !transform.any_op
      }
    }
    %clamps_f32 = transform.structured.match ops{["math.clampf"]} filter_result_type = f32 in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %clamps_f32 : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %operands = transform.get_operand %op[all] : (!transform.any_op) -> !transform.any_value
        %y = transform.get_result %op[0] : (!transform.any_op) -> !transform.any_value
        %call = transform.func.cast_and_call @npu_clamp_f32(%operands) -> %y after %op
          : (!transform.any_op, !transform.any_value, !transform.any_value) -> !transform.any_op
      }
    }
    %clamps_f64 = transform.structured.match ops{["math.clampf"]} filter_result_type = f64 in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %clamps_f64 : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %operands = transform.get_operand %op[all] : (!transform.any_op) -> !transform.any_value
        %y = transform.get_result %op[0] : (!transform.any_op) -> !transform.any_value
        %call = transform.func.cast_and_call @npu_clamp_f64(%operands) -> %y after %op
          : (!transform.any_op, !transform.any_value, !transform.any_value) -> !transform.any_op
      }
    }
    // What was replaced by a call is still there, unused.
    %functions = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.apply_dce to %functions : !transform.any_op
    transform.yield
  }

  // After bufferization: products of matrices and reductions along rows. Each goes to a function of
  // its own first, where no other memory is known that its operands could overlap.
  transform.named_sequence @optimize(%module: !transform.any_op {transform.readonly}) {
    // Operations that are products keep the bodies that they have: `specialize` of MLIR 22 overlooks
    // what else a body does.
    %products = transform.structured.match ops{["linalg.generic", "linalg.matmul"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %products : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %product = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
        ^bb2(%structured: !transform.any_op):
          %rank = transform.match.structured.rank %structured : (!transform.any_op) -> !transform.param<i64>
          %three = transform.param.constant 3 : i64 -> !transform.param<i64>
          transform.match.param.cmpi eq %rank, %three : !transform.param<i64>
          transform.match.structured.dim %structured[0, 1] {parallel} : !transform.any_op
          transform.match.structured.dim %structured[2] {reduction} : !transform.any_op
          %batch, %m, %n, %k = transform.match.structured.classify_contraction_dims %structured
            : (!transform.any_op) -> (!transform.param<i64>, !transform.param<i64>, !transform.param<i64>, !transform.param<i64>)
          transform.match.structured.yield %structured : !transform.any_op
        }
        %tile, %loops:3 = transform.structured.tile_using_for %product tile_sizes [4, 16, 1] interchange = [1, 0, 2]
          : (!transform.any_op) -> (!transform.any_op, !transform.op<"scf.for">, !transform.op<"scf.for">, !transform.op<"scf.for">)
        transform.annotate %tile "npu.tile" : !transform.any_op
        transform.annotate %loops#0 "npu.columns" : !transform.op<"scf.for">
        transform.annotate %loops#1 "npu.rows" : !transform.op<"scf.for">
        %function, %call = transform.loop.outline %loops#0 {func_name = "npu_product"}
          : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
        transform.foreach %function : !transform.any_op {
        ^bb2(%outlined: !transform.any_op):
          transform.include @npu_product failures(suppress) (%outlined) : (!transform.any_op) -> ()
        }
      }
    }
    %batches = transform.structured.match ops{["linalg.batch_matmul"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %batches : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %tile, %loops:4 = transform.structured.tile_using_for %op tile_sizes [1, 4, 16, 1] interchange = [0, 2, 1, 3]
          : (!transform.any_op) -> (!transform.any_op, !transform.op<"scf.for">, !transform.op<"scf.for">, !transform.op<"scf.for">, !transform.op<"scf.for">)
        transform.annotate %tile "npu.tile" : !transform.any_op
        transform.annotate %loops#1 "npu.columns" : !transform.op<"scf.for">
        transform.annotate %loops#2 "npu.rows" : !transform.op<"scf.for">
        %function, %call = transform.loop.outline %loops#0 {func_name = "npu_product"}
          : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
        transform.foreach %function : !transform.any_op {
        ^bb2(%outlined: !transform.any_op):
          transform.include @npu_product failures(suppress) (%outlined) : (!transform.any_op) -> ()
        }
      }
    }
    %operations1 = transform.structured.match interface{LinalgOp} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %operations1 : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %reduction = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
        ^bb2(%structured: !transform.any_op):
          %rank = transform.match.structured.rank %structured : (!transform.any_op) -> !transform.param<i64>
          %wanted = transform.param.constant 1 : i64 -> !transform.param<i64>
          transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
          transform.match.structured.dim %structured[-1] {reduction} : !transform.any_op
          transform.match.structured.yield %structured : !transform.any_op
        }
        %generic = transform.structured.generalize %reduction : (!transform.any_op) -> !transform.any_op
        %tile, %loops = transform.structured.tile_using_for %generic tile_sizes [64]
          : (!transform.any_op) -> (!transform.any_op, !transform.op<"scf.for">)
        transform.annotate %tile "npu.tile" : !transform.any_op
        transform.annotate %loops "npu.row" : !transform.op<"scf.for">
        %function, %call = transform.loop.outline %loops {func_name = "npu_reduction"}
          : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
        transform.foreach %function : !transform.any_op {
        ^bb2(%outlined: !transform.any_op):
          transform.include @npu_reduction failures(suppress) (%outlined) : (!transform.any_op) -> ()
        }
      }
    }
    %operations2 = transform.structured.match interface{LinalgOp} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %operations2 : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %reduction = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
        ^bb2(%structured: !transform.any_op):
          %rank = transform.match.structured.rank %structured : (!transform.any_op) -> !transform.param<i64>
          %wanted = transform.param.constant 2 : i64 -> !transform.param<i64>
          transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
          transform.match.structured.dim %structured[-1] {reduction} : !transform.any_op
          transform.match.structured.yield %structured : !transform.any_op
        }
        %generic = transform.structured.generalize %reduction : (!transform.any_op) -> !transform.any_op
        %tile, %loops:2 = transform.structured.tile_using_for %generic tile_sizes [1, 64]
          : (!transform.any_op) -> (!transform.any_op, !transform.op<"scf.for">, !transform.op<"scf.for">)
        transform.annotate %tile "npu.tile" : !transform.any_op
        transform.annotate %loops#1 "npu.row" : !transform.op<"scf.for">
        %function, %call = transform.loop.outline %loops#0 {func_name = "npu_reduction"}
          : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
        transform.foreach %function : !transform.any_op {
        ^bb2(%outlined: !transform.any_op):
          transform.include @npu_reduction failures(suppress) (%outlined) : (!transform.any_op) -> ()
        }
      }
    }
    %operations3 = transform.structured.match interface{LinalgOp} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %operations3 : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %reduction = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {
        ^bb2(%structured: !transform.any_op):
          %rank = transform.match.structured.rank %structured : (!transform.any_op) -> !transform.param<i64>
          %wanted = transform.param.constant 3 : i64 -> !transform.param<i64>
          transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
          transform.match.structured.dim %structured[-1] {reduction} : !transform.any_op
          transform.match.structured.yield %structured : !transform.any_op
        }
        %generic = transform.structured.generalize %reduction : (!transform.any_op) -> !transform.any_op
        %tile, %loops:3 = transform.structured.tile_using_for %generic tile_sizes [1, 1, 64]
          : (!transform.any_op) -> (!transform.any_op, !transform.op<"scf.for">, !transform.op<"scf.for">, !transform.op<"scf.for">)
        transform.annotate %tile "npu.tile" : !transform.any_op
        transform.annotate %loops#2 "npu.row" : !transform.op<"scf.for">
        %function, %call = transform.loop.outline %loops#0 {func_name = "npu_reduction"}
          : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
        transform.foreach %function : !transform.any_op {
        ^bb2(%outlined: !transform.any_op):
          transform.include @npu_reduction failures(suppress) (%outlined) : (!transform.any_op) -> ()
        }
      }
    }
    %functions = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.vector.lower_scan
    } : !transform.any_op
    transform.yield
  }

  // A product of matrices, in tiles of 4 rows and 16 columns that stay in registers while k runs.
  // An element of the result is summed up in the order of k, one product after the other.
  transform.named_sequence @npu_product(%function: !transform.any_op {transform.consumed}) {
    %rows = transform.structured.match attributes{npu.rows} in %function : (!transform.any_op) -> !transform.any_op
    transform.foreach %rows : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %loop = transform.cast %op : !transform.any_op to !transform.op<"scf.for">
        %whole, %last = transform.loop.peel %loop : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
      }
    }
    %columns = transform.structured.match attributes{npu.columns} in %function : (!transform.any_op) -> !transform.any_op
    transform.foreach %columns : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %loop = transform.cast %op : !transform.any_op to !transform.op<"scf.for">
        %whole, %last = transform.loop.peel %loop : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
      }
    }
    transform.apply_patterns to %function {
      transform.apply_patterns.memref.fold_memref_alias_ops
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %tiles = transform.structured.match attributes{npu.tile} in %function : (!transform.any_op) -> !transform.any_op
    transform.foreach %tiles : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        transform.structured.vectorize %op : !transform.any_op
      }
    }
    transform.include @hoist failures(suppress) (%function) : (!transform.any_op) -> ()
    transform.yield
  }

  // A reduction whose last dimension is one, such as the sum of each row: 64 elements are combined at
  // a time, halves with halves, and the result is combined with that of those before. Fewer than 64
  // that are left are combined one by one, also where their number is known.
  transform.named_sequence @npu_reduction(%function: !transform.any_op {transform.consumed}) {
    %row = transform.structured.match attributes{npu.row} in %function : (!transform.any_op) -> !transform.any_op
    transform.foreach %row : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %loop = transform.cast %op : !transform.any_op to !transform.op<"scf.for">
        %whole, %last = transform.loop.peel %loop : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
        transform.foreach %last : !transform.any_op {
        ^bb2(%rest: !transform.any_op):
          %less = transform.structured.match attributes{npu.tile} in %rest : (!transform.any_op) -> !transform.any_op
          %loops = transform.structured.convert_to_loops %less : (!transform.any_op) -> !transform.any_op
        }
      }
    }
    transform.apply_patterns to %function {
      transform.apply_patterns.memref.fold_memref_alias_ops
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %tiles = transform.structured.match attributes{npu.tile} in %function : (!transform.any_op) -> !transform.any_op
    transform.foreach %tiles : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        transform.structured.vectorize %op : !transform.any_op
      }
    }
    transform.apply_patterns to %function {
      transform.apply_patterns.vector.lower_multi_reduction lowering_strategy = "innerreduction"
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %sums = transform.structured.match ops{["vector.reduction"]} in %function : (!transform.any_op) -> !transform.any_op
    %reassociated = transform.param.constant #arith.fastmath<reassoc> -> !transform.any_param
    transform.annotate %sums "fastmath" = %reassociated : !transform.any_op, !transform.any_param
    transform.include @hoist failures(suppress) (%function) : (!transform.any_op) -> ()
    transform.yield
  }

  // What did not become vectors becomes loops, and what a loop reads and writes again and again is
  // kept in registers. Nothing but one operation's loops may be in the function: MLIR takes two
  // arguments for different memory, and a loop for one that runs.
  transform.named_sequence @hoist(%function: !transform.any_op {transform.consumed}) {
    %rests = transform.structured.match interface{LinalgOp} in %function : (!transform.any_op) -> !transform.any_op
    transform.foreach %rests : !transform.any_op {
    ^bb0(%each: !transform.any_op):
      transform.sequence %each : !transform.any_op failures(suppress) {
      ^bb1(%op: !transform.any_op):
        %loops = transform.structured.convert_to_loops %op : (!transform.any_op) -> !transform.any_op
      }
    }
    transform.apply_patterns to %function {
      transform.apply_patterns.vector.transfer_permutation_patterns
      transform.apply_patterns.memref.fold_memref_alias_ops
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %hoisted = transform.structured.hoist_redundant_vector_transfers %function : (!transform.any_op) -> !transform.any_op
    %private = transform.param.constant "private" -> !transform.any_param
    transform.annotate %hoisted "sym_visibility" = %private : !transform.any_op, !transform.any_param
    transform.yield
  }
}
