/* Conversions of floats with 8 bits or fewer, which MLIR makes calls of. They go by way of f64, which
 * holds every value of every format below exactly. */

typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;

/* What a format has besides numbers, and where it has them. */
enum npu_specials {
  IEEE,          /* infinities, and NaNs above them */
  ONE_NAN,       /* a NaN with all bits set, no infinity */
  UNSIGNED_ZERO, /* a NaN in the place of -0, no infinity */
  FINITE         /* nothing: what is too large becomes the largest */
};

struct npu_format {
  int exponent, mantissa, bias; /* the first two in bits */
  enum npu_specials specials;
};

/* Of LLVM's APFloatBase::Semantics in version 22, those that have a type in MLIR. */
static const struct npu_format npu_formats[] = {
    [0] = {5, 10, 15, IEEE},          /* f16 */
    [1] = {8, 7, 127, IEEE},          /* bf16 */
    [2] = {8, 23, 127, IEEE},         /* f32 */
    [7] = {5, 2, 15, IEEE},           /* f8E5M2 */
    [8] = {5, 2, 16, UNSIGNED_ZERO},  /* f8E5M2FNUZ */
    [9] = {4, 3, 7, IEEE},            /* f8E4M3 */
    [10] = {4, 3, 7, ONE_NAN},        /* f8E4M3FN */
    [11] = {4, 3, 8, UNSIGNED_ZERO},  /* f8E4M3FNUZ */
    [12] = {4, 3, 11, UNSIGNED_ZERO}, /* f8E4M3B11FNUZ */
    [13] = {3, 4, 3, IEEE},           /* f8E3M4 */
    [16] = {3, 2, 3, FINITE},         /* f6E3M2FN */
    [17] = {2, 3, 1, FINITE},         /* f6E2M3FN */
    [18] = {2, 1, 1, FINITE},         /* f4E2M1FN */
};
/* The powers of two from 2^-127, without a sign, and a NaN. */
#define F8E8M0FNU 15
#define F8E8M0FNU_NAN 0xff

static double npu_double(uint64_t bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

/* 2 to the power of `exponent`, which is that of a normal f64. */
static double npu_power(int exponent) { return npu_double((uint64_t)(exponent + 1023) << 52); }

static double npu_decode(int semantics, uint64_t bits) {
  const struct npu_format *format = &npu_formats[semantics];
  const uint64_t mantissas = (1ull << format->mantissa) - 1;
  const uint64_t exponents = (1ull << format->exponent) - 1;
  const uint64_t mantissa = bits & mantissas;
  const int exponent = (int)(bits >> format->mantissa & exponents);
  const int negative = (int)(bits >> (format->mantissa + format->exponent) & 1);
  double value;
  if (semantics == F8E8M0FNU)
    return bits == F8E8M0FNU_NAN ? __builtin_nan("") : npu_power((int)bits - 127);
  if (format->specials == IEEE && exponent == (int)exponents)
    value = mantissa ? __builtin_nan("") : __builtin_inf();
  else if (format->specials == ONE_NAN && exponent == (int)exponents && mantissa == mantissas)
    value = __builtin_nan("");
  else if (format->specials == UNSIGNED_ZERO && negative && !exponent && !mantissa)
    return __builtin_nan("");
  else if (exponent)
    value = (double)(mantissa | (mantissas + 1)) * npu_power(exponent - format->bias - format->mantissa);
  else
    value = (double)mantissa * npu_power(1 - format->bias - format->mantissa);
  return negative ? -value : value;
}

/* `value` shifted to the right by `shift` bits, rounded to nearest, ties to even. */
static uint64_t npu_shift(uint64_t value, int shift) {
  const uint64_t half = 1ull << (shift - 1);
  const uint64_t rest = value & (2 * half - 1);
  const uint64_t kept = value >> shift;
  return kept + (rest > half || (rest == half && (kept & 1)));
}

static uint64_t npu_encode(int semantics, double value) {
  const struct npu_format *format = &npu_formats[semantics];
  const int least = 1 - format->bias;
  const int mantissa_bits = format->mantissa;
  const uint64_t sign = 1ull << (mantissa_bits + format->exponent);
  /* All bits but the sign's: the largest number, or what comes after it. */
  const uint64_t all = sign - 1;
  const uint64_t infinity = all - ((1ull << mantissa_bits) - 1);
  uint64_t bits, mantissa, magnitude, negative;
  int exponent, shift;
  __builtin_memcpy(&bits, &value, sizeof bits);
  negative = bits >> 63 ? sign : 0;
  exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  mantissa = (bits & ((1ull << 52) - 1)) | 1ull << 52;
  if (semantics == F8E8M0FNU) {
    if (value != value || value < 0 || exponent > 127)
      return F8E8M0FNU_NAN;
    return exponent < -127 ? 0 : (uint64_t)(exponent + 126) + npu_shift(mantissa, 52);
  }
  if (value != value)
    switch (format->specials) {
    case IEEE:
      return negative | infinity | 1ull << (mantissa_bits - 1);
    case ONE_NAN:
      return negative | all;
    case UNSIGNED_ZERO:
      return sign;
    case FINITE:
      return negative;
    }
  shift = 52 - mantissa_bits + (exponent < least ? least - exponent : 0);
  magnitude = shift > 54 || exponent == -1023 ? 0 : npu_shift(mantissa, shift);
  if (exponent > least)
    magnitude += (uint64_t)(exponent - least) << mantissa_bits;
  switch (format->specials) {
  case IEEE:
    return negative | (magnitude < infinity ? magnitude : infinity);
  case ONE_NAN:
    return negative | (magnitude < all ? magnitude : all);
  case UNSIGNED_ZERO:
    return magnitude > all ? sign : magnitude ? negative | magnitude : 0;
  case FINITE:
    break;
  }
  return negative | (magnitude < all ? magnitude : all);
}

__attribute__((visibility("hidden"))) int64_t _mlir_apfloat_convert(int from, int to, int64_t bits) {
  return (int64_t)npu_encode(to, npu_decode(from, (uint64_t)bits));
}
