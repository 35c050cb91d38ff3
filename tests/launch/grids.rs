//! Grids: which programs run, and that the number of threads changes nothing.

use npu_runtime::{Arg, Grid};

use crate::workshop::{Workshop, cpu, load};

/// Each program writes what it was told of the grid and of its place to a row of its own.
const WHERE_AM_I: &str = "
func.func @where(%out: memref<?x6xi32>,
                 %num_x: i32, %num_y: i32, %num_z: i32, %x: i32, %y: i32, %z: i32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %planes = arith.muli %z, %num_y : i32
  %rows = arith.addi %planes, %y : i32
  %before = arith.muli %rows, %num_x : i32
  %program = arith.addi %before, %x : i32
  %row = arith.index_cast %program : i32 to index
  memref.store %num_x, %out[%row, %c0] : memref<?x6xi32>
  memref.store %num_y, %out[%row, %c1] : memref<?x6xi32>
  memref.store %num_z, %out[%row, %c2] : memref<?x6xi32>
  memref.store %x, %out[%row, %c3] : memref<?x6xi32>
  memref.store %y, %out[%row, %c4] : memref<?x6xi32>
  memref.store %z, %out[%row, %c5] : memref<?x6xi32>
  return
}";

fn places([x, y, z]: [i32; 3]) -> Vec<i32> {
    let mut places = Vec::new();
    for at_z in 0..z {
        for at_y in 0..y {
            for at_x in 0..x {
                places.extend([x, y, z, at_x, at_y, at_z]);
            }
        }
    }
    places
}

#[test]
fn every_program_of_a_grid_runs_once_and_knows_its_place() {
    let workshop = Workshop::new();
    let build = workshop.build(WHERE_AM_I).unwrap();
    for threads in [1, 2, 7] {
        let kernel = load(&build, &cpu().with_threads(threads));
        for (grid, size) in [
            (Grid::from(1), [1, 1, 1]),
            (Grid::from(1000), [1000, 1, 1]),
            (Grid::from((1, 9)), [1, 9, 1]),
            (Grid::from((31, 17)), [31, 17, 1]),
            (Grid::from((1, 1, 5)), [1, 1, 5]),
            (Grid::from((13, 11, 7)), [13, 11, 7]),
        ] {
            let expected = places(size);
            let mut out = vec![-1; expected.len()];
            kernel.launch(grid, &mut [Arg::output(&mut out)]).unwrap();
            assert_eq!(out, expected, "{grid} on {threads} threads");
        }
    }
}

#[test]
fn a_grid_with_a_zero_runs_nothing() {
    let kernel = Workshop::new().kernel(WHERE_AM_I);
    for grid in [[0, 1, 1], [5, 0, 1], [5, 5, 0]] {
        let mut out = [-1; 6];
        kernel
            .launch(grid.into(), &mut [Arg::output(&mut out)])
            .unwrap();
        assert_eq!(out, [-1; 6]);
    }
}

#[test]
fn a_kernel_without_the_six_arguments_has_no_grid() {
    let kernel = Workshop::new().kernel("func.func @nothing() { return }");
    assert!(!kernel.signature().grid);
    kernel.launch(Grid::ONE, &mut []).unwrap();
    let refused = kernel.launch(2.into(), &mut []).unwrap_err().to_string();
    assert!(refused.contains("grid"), "{refused}");
}
