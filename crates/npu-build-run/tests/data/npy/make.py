"""Makes the files of this directory: python3 make.py, with numpy and ml_dtypes."""

import ml_dtypes
import numpy as np
from numpy.lib import format as npy

# Numbers that every type has, and its ends.
for name in ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]:
    info = np.iinfo(name)
    np.save(f"{name}.npy", np.array([0, 1, info.min, info.max, 100], name))
for name, dtype in [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16),
                    ("float32", np.float32), ("float64", np.float64)]:
    values = [0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1024]
    np.save(f"{name}.npy", np.array(values, dtype))
np.save("bool.npy", np.array([True, False, True]))

# 100 * i + 10 * j + k in every order.
cube = np.fromfunction(lambda i, j, k: 100 * i + 10 * j + k, (2, 3, 4)).astype(np.int32)
np.save("cube.npy", cube)
np.save("cube_fortran.npy", np.asfortranarray(cube))
np.save("cube_big.npy", cube.astype(">i4"))
np.save("cube_fortran_big.npy", np.asfortranarray(cube.astype(">i4")))
for version in [(2, 0), (3, 0)]:
    with open(f"cube_version_{version[0]}.npy", "wb") as file:
        npy.write_array(file, cube, version)
np.save("zero_dimensional.npy", np.float32(2.5))
np.save("empty.npy", np.zeros((0, 4), np.float32))
np.save("row_fortran.npy", np.asfortranarray(np.arange(4, dtype=np.float32).reshape(1, 4)))

# What holds no numbers.
np.save("complex.npy", np.array([1 + 2j]))
np.save("records.npy", np.zeros(2, [("a", "<i4"), ("b", "<f4", (2, 2))]))
np.save("objects.npy", np.array([None]), allow_pickle=True)
np.save("strings.npy", np.array(["text"]))
np.save("times.npy", np.array(["2026-01-01"], "datetime64[s]"))
np.savez("archive.npz", cube)
