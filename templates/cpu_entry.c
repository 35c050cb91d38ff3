/* The entry of a cpu kernel: what npu-runtime calls, and what the kernel's own code calls.
 *
 * It is compiled together with the LLVM IR of one kernel and that kernel's call.inc, into a shared
 * object that exports the three symbols of launch ABI version 1 and nothing else. It needs no
 * header. Names begin with npu_, static ones too: a kernel may have any other one, and to the
 * assembler all names are the same.
 *
 * The lowering of MLIR allocates with malloc and mostly never frees. Here malloc takes from the
 * scratch memory that the caller lends, and all of it is given back after each program: a kernel
 * neither leaks nor, once the caller knows how much it needs, enters the system's allocator. */

typedef __SIZE_TYPE__ size_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;

#define EXPORT __attribute__((visibility("default"), used))
#define LOCAL __attribute__((visibility("hidden")))

/* Defines NPU_SLOTS and npu_call(slots, grid, id), which calls the kernel. The kernel is declared
 * hidden there: a function of the same name in the host program must not be called instead. */
#pragma GCC visibility push(hidden)
#include "call.inc"
#pragma GCC visibility pop

struct npu_scratch {
  void *base;        /* aligned to 64 bytes */
  uint64_t capacity; /* in bytes */
  uint64_t needed;   /* raised to the most bytes that a program needed; EXHAUSTED if one gave up */
};

#define EXHAUSTED (~(uint64_t)0)

extern void *mmap(void *, size_t, int, int, int, long);
extern int munmap(void *, size_t);
extern void *memcpy(void *, const void *, size_t);
extern void *memset(void *, int, size_t);

/* Leaving a kernel that can't go on: its frames own nothing but scratch. Clang's own pair is used
 * where it exists, since it costs three stores. */
#if defined(__clang__) && defined(__x86_64__)
typedef void *escape_buffer[5];
#define escape_set(buffer) __builtin_setjmp(buffer)
#define escape_take(buffer) __builtin_longjmp(buffer, 1)
#else
typedef struct { uint64_t registers[128]; } __attribute__((aligned(16))) escape_buffer[1];
extern int npu_setjmp(void *) __asm__("_setjmp") __attribute__((returns_twice));
extern void npu_longjmp(void *, int) __asm__("longjmp") __attribute__((noreturn));
#define escape_set(buffer) npu_setjmp(buffer)
#define escape_take(buffer) npu_longjmp(buffer, 1)
#endif

/* Blocks and what heads them are whole cache lines. */
#define LINE 64
#define CHUNK_LEAST ((uint64_t)1 << 20)

enum block_state { LIVE = 1, FREED, ALIAS };

/* Heads an allocation. */
struct block {
  struct block *below; /* the allocation before; for an ALIAS, the block that it lies in */
  uint64_t size;       /* with this header */
  uint64_t state;
};

/* Heads memory of the system's that is used where the scratch memory is too small. */
struct chunk {
  struct chunk *below;
  uint64_t size;
  char *cursor; /* where the memory below stopped */
  char *limit;
};

/* The allocations of one program: a stack, first in the scratch memory, then in chunks. */
struct arena {
  char *cursor;
  char *limit;
  struct block *top;
  struct chunk *chunks;
  uint64_t used; /* as if it were one piece */
  uint64_t peak;
  struct npu_scratch *scratch;
  escape_buffer escape;
};

/* The arena of the program that this thread runs. */
static __thread struct arena *npu_current;

/* What the assertion said that ended this thread's last run, if one did. */
static __thread const char *npu_failure;

static void npu_pop(struct arena *arena) {
  struct block *block = arena->top;
  struct chunk *chunk = arena->chunks;
  arena->top = block->below;
  arena->used -= block->size;
  arena->cursor = (char *)block;
  if (chunk && (char *)block == (char *)chunk + LINE) {
    arena->chunks = chunk->below;
    arena->cursor = chunk->cursor;
    arena->limit = chunk->limit;
    munmap(chunk, chunk->size);
  }
}

static void npu_release_all(struct arena *arena) {
  while (arena->top)
    npu_pop(arena);
}

__attribute__((noreturn, cold)) static void npu_give_up(struct arena *arena) {
  npu_release_all(arena);
  arena->peak = EXHAUSTED;
  escape_take(arena->escape);
}

/* Makes room for `size` bytes in memory of the system's. */
__attribute__((cold, noinline)) static void npu_extend(struct arena *arena, uint64_t size) {
  const int read_write = 3, private_anonymous = 0x22;
  uint64_t least = arena->chunks ? arena->chunks->size * 2 : CHUNK_LEAST;
  uint64_t whole = size + LINE > least ? size + LINE : least;
  struct chunk *chunk = mmap(0, whole, read_write, private_anonymous, -1, 0);
  if (chunk == (void *)-1 && whole > size + LINE) {
    whole = size + LINE;
    chunk = mmap(0, whole, read_write, private_anonymous, -1, 0);
  }
  if (chunk == (void *)-1)
    npu_give_up(arena);
  chunk->below = arena->chunks;
  chunk->size = whole;
  chunk->cursor = arena->cursor;
  chunk->limit = arena->limit;
  arena->chunks = chunk;
  arena->cursor = (char *)chunk + LINE;
  arena->limit = (char *)chunk + whole;
}

/* A false cf.assert becomes a call of puts and one of abort. A host is not to be ended by it. */
LOCAL int puts(const char *text) {
  npu_failure = text;
  return 0;
}

__attribute__((noreturn)) LOCAL void abort(void) {
  if (!npu_failure)
    npu_failure = "";
  npu_give_up(npu_current);
}

static void *npu_take(uint64_t size) {
  struct arena *arena = npu_current;
  struct block *block;
  if (!arena)
    return 0;
  /* A size that is negative in the kernel's own arithmetic ends up here too. */
  if (size > (uint64_t)1 << 62)
    npu_give_up(arena);
  size = ((size + LINE - 1) & ~(uint64_t)(LINE - 1)) + LINE;
  if (size > (uint64_t)(arena->limit - arena->cursor))
    npu_extend(arena, size);
  block = (struct block *)arena->cursor;
  block->below = arena->top;
  block->size = size;
  block->state = LIVE;
  arena->cursor += size;
  arena->top = block;
  arena->used += size;
  if (arena->used > arena->peak)
    arena->peak = arena->used;
  return (char *)block + LINE;
}

static int npu_within(const char *address, const char *start, uint64_t size) {
  return address >= start && (uint64_t)(address - start) < size;
}

static int npu_owns(const struct arena *arena, const char *address) {
  const struct chunk *chunk = arena->chunks;
  if (npu_within(address, arena->scratch->base, arena->scratch->capacity))
    return 1;
  for (; chunk; chunk = chunk->below)
    if (npu_within(address, (const char *)chunk, chunk->size))
      return 1;
  return 0;
}

LOCAL void *malloc(size_t size) { return npu_take(size); }

/* LLVM makes this of a malloc that is filled with zeros. */
LOCAL void *calloc(size_t count, size_t size) {
  uint64_t whole;
  void *data;
  if (__builtin_mul_overflow((uint64_t)count, (uint64_t)size, &whole))
    whole = EXHAUSTED;
  data = npu_take(whole);
  return data ? memset(data, 0, whole) : 0;
}

LOCAL void *aligned_alloc(size_t alignment, size_t size) {
  struct block *block, *alias;
  char *data;
  if (alignment <= LINE)
    return npu_take(size);
  if (size > EXHAUSTED - alignment)
    return npu_take(EXHAUSTED);
  data = npu_take(size + alignment);
  if (!data)
    return 0;
  block = (struct block *)(data - LINE);
  data += -(uint64_t)data & (alignment - 1);
  alias = (struct block *)(data - LINE);
  if (alias != block) {
    alias->below = block;
    alias->state = ALIAS;
  }
  return data;
}

/* Memory that is not the arena's, such as an argument's, is left alone. */
LOCAL void free(void *data) {
  struct arena *arena = npu_current;
  struct block *block = (struct block *)((char *)data - LINE);
  if (!data || !arena || !npu_owns(arena, (char *)data - 1))
    return;
  if (block->state == ALIAS)
    block = block->below;
  block->state = FREED;
  while (arena->top && arena->top->state == FREED)
    npu_pop(arena);
}

/* Copies `rank` dimensions of elements of `element` bytes; strides are in elements. */
static void npu_copy_strided(int64_t rank, int64_t element, const int64_t *sizes, const char *from,
                             const int64_t *from_strides, char *to, const int64_t *to_strides) {
  int64_t i, from_step, to_step;
  if (rank == 0) {
    memcpy(to, from, (size_t)element);
    return;
  }
  if (rank == 1 && *from_strides == 1 && *to_strides == 1) {
    memcpy(to, from, (size_t)(*sizes * element));
    return;
  }
  from_step = *from_strides * element;
  to_step = *to_strides * element;
#define COPY_ELEMENTS(bytes)                                                                       \
  for (i = 0; i < *sizes; i++)                                                                     \
    memcpy(to + i * to_step, from + i * from_step, bytes);
  if (rank == 1 && element == 1)
    COPY_ELEMENTS(1)
  else if (rank == 1 && element == 2)
    COPY_ELEMENTS(2)
  else if (rank == 1 && element == 4)
    COPY_ELEMENTS(4)
  else if (rank == 1 && element == 8)
    COPY_ELEMENTS(8)
  else
    for (i = 0; i < *sizes; i++)
      npu_copy_strided(rank - 1, element, sizes + 1, from + i * from_step, from_strides + 1,
                       to + i * to_step, to_strides + 1);
#undef COPY_ELEMENTS
}

/* A memref whose rank is known at run time; what it points to has `rank` sizes and strides. */
struct unranked {
  int64_t rank;
  void *descriptor;
};

struct ranked {
  char *allocated;
  char *aligned;
  int64_t offset;
  int64_t sizes_and_strides[];
};

/* What the lowering calls for a memref.copy between layouts. */
LOCAL void memrefCopy(int64_t element, struct unranked *from, struct unranked *to) {
  const int64_t rank = from->rank;
  const struct ranked *source = from->descriptor;
  struct ranked *target = to->descriptor;
  const int64_t *sizes = source->sizes_and_strides;
  int64_t i;
  for (i = 0; i < rank; i++)
    if (sizes[i] <= 0)
      return;
  npu_copy_strided(rank, element, sizes, source->aligned + source->offset * element, sizes + rank,
                   target->aligned + target->offset * element, target->sizes_and_strides + rank);
}

/* Narrowing to bf16, which the compiler calls for and not every libgcc has (GCC's only since 13).
 * __bf16 has no arithmetic here: these work on the bits. */
#if defined(__x86_64__) || defined(__aarch64__)
static __bf16 npu_bf16_of_bits(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7fffffff;
  unsigned short half;
  __bf16 result;
  if (magnitude > 0x7f800000)
    half = (unsigned short)(bits >> 16 | 0x40); /* a NaN stays one, and is quiet */
  else
    half = (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* to nearest, ties to even */
  __builtin_memcpy(&result, &half, sizeof result);
  return result;
}

LOCAL __bf16 __truncsfbf2(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return npu_bf16_of_bits(bits);
}

/* Through an f32 that is rounded to odd, so that rounding twice is rounding once. */
LOCAL __bf16 __truncdfbf2(double value) {
  const float narrow = (float)value;
  uint32_t bits;
  __builtin_memcpy(&bits, &narrow, sizeof bits);
  if ((double)narrow != value && value == value) {
    if (__builtin_fabs((double)narrow) > __builtin_fabs(value))
      bits--;
    bits |= 1;
  }
  return npu_bf16_of_bits(bits);
}
#endif

/* Apart from the frame that can be escaped to, whose values would have to stay in memory. */
__attribute__((noinline)) static void npu_run_programs(const uint64_t *slots,
                                                       const uint32_t grid[3],
                                                       uint64_t first, uint64_t end,
                                                       struct arena *arena) {
  const int32_t size[3] = {(int32_t)grid[0], (int32_t)grid[1], (int32_t)grid[2]};
  const uint64_t row = first / grid[0];
  int32_t id[3] = {(int32_t)(first % grid[0]), (int32_t)(row % grid[1]), (int32_t)(row / grid[1])};
  for (; first < end; first++) {
    npu_call(slots, size, id);
    npu_release_all(arena);
    if (++id[0] == size[0]) {
      id[0] = 0;
      if (++id[1] == size[1]) {
        id[1] = 0;
        id[2]++;
      }
    }
  }
}

EXPORT const uint32_t npu_cpu_slots_v1 = NPU_SLOTS;

/* Why this thread's last run gave up: an assertion's text, or 0 if memory was lacking. */
EXPORT const char *npu_cpu_failure_v1(void) { return npu_failure; }

/* Runs the programs first..end of a grid, counted with x fastest. No dimension is 0. */
EXPORT void npu_cpu_run_v1(const uint64_t *slots, const uint32_t grid[3], uint64_t first,
                           uint64_t end, struct npu_scratch *scratch) {
  struct arena arena;
  struct arena **const active = &npu_current;
  uint64_t peak;
  arena.cursor = scratch->base;
  arena.limit = arena.cursor + scratch->capacity;
  arena.top = 0;
  arena.chunks = 0;
  arena.used = 0;
  arena.peak = 0;
  arena.scratch = scratch;
  npu_failure = 0;
  *active = &arena;
  if (!escape_set(arena.escape))
    npu_run_programs(slots, grid, first, end, &arena);
  *active = 0;
  /* Not a value from before the escape. */
  peak = *(volatile uint64_t *)&arena.peak;
  if (peak > scratch->needed)
    scratch->needed = peak;
}
