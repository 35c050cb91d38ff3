// Functions that are compiled into a kernel in place of those of the C library. LLVM inlines them, so
// that loops which call them become loops over vectors. They are written without products that may
// be fused with sums: every machine gives the same bits. Values have names that no kernel has: an
// undefined value of its own would be taken for the one below.

// exp of f32, with an error below 1 ulp, tried for every f32; infinities and NaNs are those of C.
// x = n ln 2 + r; exp of r is 1 + r + r² q(r), with Cephes' coefficients; 2ⁿ is multiplied in two
// steps, so that a subnormal result is rounded once and a large one becomes infinite.
func.func private @npu_expf(%npu_x: f32) -> f32 {
  // Beyond these the result is 0 and infinity; a NaN is left.
  %npu_low = arith.constant -104.0 : f32
  %npu_high = arith.constant 89.0 : f32
  %npu_is_low = arith.cmpf olt, %npu_x, %npu_low : f32
  %npu_x0 = arith.select %npu_is_low, %npu_low, %npu_x : f32
  %npu_is_high = arith.cmpf ogt, %npu_x0, %npu_high : f32
  %npu_x1 = arith.select %npu_is_high, %npu_high, %npu_x0 : f32
  // 1.5 · 2²³: added, it rounds to the nearest integer, which is then in the low bits.
  %npu_log2e = arith.constant 1.44269502 : f32
  %npu_shift = arith.constant 12582912.0 : f32
  %npu_scaled = arith.mulf %npu_x1, %npu_log2e : f32
  %npu_shifted = arith.addf %npu_scaled, %npu_shift : f32
  %npu_n = arith.subf %npu_shifted, %npu_shift : f32
  %npu_shifted_bits = arith.bitcast %npu_shifted : f32 to i32
  %npu_shift_bits = arith.bitcast %npu_shift : f32 to i32
  %npu_exponent = arith.subi %npu_shifted_bits, %npu_shift_bits : i32
  // ln 2 in two parts; the products with the first, of 10 bits, are exact.
  %npu_ln2_high = arith.constant 0.693359375 : f32
  %npu_ln2_low = arith.constant -2.12194442e-4 : f32
  %npu_n_high = arith.mulf %npu_n, %npu_ln2_high : f32
  %npu_n_low = arith.mulf %npu_n, %npu_ln2_low : f32
  %npu_r0 = arith.subf %npu_x1, %npu_n_high : f32
  %npu_r = arith.subf %npu_r0, %npu_n_low : f32
  %npu_q5 = arith.constant 1.98756912e-4 : f32
  %npu_q4 = arith.constant 1.39819994e-3 : f32
  %npu_q3 = arith.constant 8.33345205e-3 : f32
  %npu_q2 = arith.constant 4.16657962e-2 : f32
  %npu_q1 = arith.constant 0.166666657 : f32
  %npu_q0 = arith.constant 0.5 : f32
  %npu_one = arith.constant 1.0 : f32
  %npu_p5 = arith.mulf %npu_q5, %npu_r : f32
  %npu_s4 = arith.addf %npu_p5, %npu_q4 : f32
  %npu_p4 = arith.mulf %npu_s4, %npu_r : f32
  %npu_s3 = arith.addf %npu_p4, %npu_q3 : f32
  %npu_p3 = arith.mulf %npu_s3, %npu_r : f32
  %npu_s2 = arith.addf %npu_p3, %npu_q2 : f32
  %npu_p2 = arith.mulf %npu_s2, %npu_r : f32
  %npu_s1 = arith.addf %npu_p2, %npu_q1 : f32
  %npu_p1 = arith.mulf %npu_s1, %npu_r : f32
  %npu_q = arith.addf %npu_p1, %npu_q0 : f32
  %npu_square = arith.mulf %npu_r, %npu_r : f32
  %npu_tail = arith.mulf %npu_q, %npu_square : f32
  %npu_expm1 = arith.addf %npu_tail, %npu_r : f32
  %npu_exp_r = arith.addf %npu_expm1, %npu_one : f32
  %npu_c1 = arith.constant 1 : i32
  %npu_mantissa = arith.constant 23 : i32
  %npu_bias = arith.constant 127 : i32
  %npu_half = arith.shrsi %npu_exponent, %npu_c1 : i32
  %npu_other_half = arith.subi %npu_exponent, %npu_half : i32
  %npu_biased = arith.addi %npu_half, %npu_bias : i32
  %npu_other_biased = arith.addi %npu_other_half, %npu_bias : i32
  %npu_bits = arith.shli %npu_biased, %npu_mantissa : i32
  %npu_other_bits = arith.shli %npu_other_biased, %npu_mantissa : i32
  %npu_power = arith.bitcast %npu_bits : i32 to f32
  %npu_other_power = arith.bitcast %npu_other_bits : i32 to f32
  %npu_y0 = arith.mulf %npu_exp_r, %npu_power : f32
  %npu_y = arith.mulf %npu_y0, %npu_other_power : f32
  return %npu_y : f32
}

// x within two bounds; a NaN among the three is what comes out.
func.func private @npu_clamp_f16(%npu_x: f16, %npu_low: f16, %npu_high: f16) -> f16 {
  %npu_above = arith.maximumf %npu_x, %npu_low : f16
  %npu_y = arith.minimumf %npu_above, %npu_high : f16
  return %npu_y : f16
}
func.func private @npu_clamp_bf16(%npu_x: bf16, %npu_low: bf16, %npu_high: bf16) -> bf16 {
  %npu_above = arith.maximumf %npu_x, %npu_low : bf16
  %npu_y = arith.minimumf %npu_above, %npu_high : bf16
  return %npu_y : bf16
}
func.func private @npu_clamp_f32(%npu_x: f32, %npu_low: f32, %npu_high: f32) -> f32 {
  %npu_above = arith.maximumf %npu_x, %npu_low : f32
  %npu_y = arith.minimumf %npu_above, %npu_high : f32
  return %npu_y : f32
}
func.func private @npu_clamp_f64(%npu_x: f64, %npu_low: f64, %npu_high: f64) -> f64 {
  %npu_above = arith.maximumf %npu_x, %npu_low : f64
  %npu_y = arith.minimumf %npu_above, %npu_high : f64
  return %npu_y : f64
}
