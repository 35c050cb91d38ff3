use npu_runtime::{Bounds, Extent};

use super::split;
use crate::kernel::Module;

const VECADD: &str = "func.func @vecadd(%x: memref<*xf32>, %y: memref<*xf32>, %out: memref<*xf32>, %n: i32, %s: f32,\n\
    %a: i32, %b: i32, %c: i32, %d: i32, %e: i32, %f: i32) { return }";
const MATMUL: &str = "func.func @matmul(%x: memref<?x?xf32>, %y: memref<?x4xf32>, %z: memref<8xf32>, %n: index) {\n\
    %v = memref.load %z[%n] : memref<8xf32>\nreturn }";

/// The extents of each argument under a contract, as they are shown.
fn with(text: &str, contract: &str) -> Result<Vec<String>, String> {
    let module = Module::scan(text.as_bytes()).unwrap();
    let mut kernel = module.select(None).unwrap()[0].clone();
    assert_eq!(kernel.signature.bounds, Bounds::Unchecked);
    let set = kernel.set_extents(&split(contract)?);
    set.map_err(|error| error.to_string())?;
    assert_eq!(kernel.signature.bounds, Bounds::Declared);
    let signature = &kernel.signature;
    let parameters = signature.parameters.iter();
    Ok(parameters.map(|it| signature.extents_text(it)).collect())
}

#[test]
fn a_contract_is_shown_as_it_was_declared() {
    for (contract, shown) in [
        ("x=n,y=n,out=n", ["n", "n", "n"]),
        ("%x = len, y=len,out=_", ["len", "len", "_"]),
        (
            "x=1024,y=grid.x*256,out=%n*4",
            ["1024", "grid.x*256", "n*4"],
        ),
        (
            "x=grid.x,y=grid.y*n*grid.z,out=[n]",
            ["grid.x", "grid.y*n*grid.z", "n"],
        ),
        // Named after an argument: as many as that one has.
        ("y=x,out=x", ["x", "x", "x"]),
        // The last word counts.
        ("x=1,y=n,out=n,x=n", ["n", "n", "n"]),
    ] {
        let found = with(VECADD, contract).unwrap();
        assert_eq!(found[..3], shown, "{contract}");
    }
    assert_eq!(
        with(MATMUL, "x=[n, k],y=[k,_],z=n").unwrap(),
        ["[n, k]", "[k, _]", "n", ""]
    );
    // What has a static size needs no word.
    assert_eq!(
        with(MATMUL, "x=[_, 3], y=[_, 4]").unwrap(),
        ["[_, 3]", "[_, 4]", "", ""]
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    for (text, contract, words) in [
        (
            VECADD,
            "x=n,y=n",
            "nothing of argument 'out' (memref<*xf32>)",
        ),
        (
            VECADD,
            "x=nn,y=n,out=n",
            "no other extent has it, so that nothing would be checked; did you mean 'n'",
        ),
        (VECADD, "z=n", "no argument 'z'"),
        (VECADD, "n=8", "'n' is a scalar (i32)"),
        (VECADD, "x=s,y=n,out=n", "'s' can't be a size"),
        (VECADD, "x=n*m,y=n,out=n", "'m' is no integer scalar"),
        (
            VECADD,
            "x=[n,n],y=n,out=n",
            "has 1 dimension, and its extent 2",
        ),
        (VECADD, "x=n+1,y=n,out=n", "'n+1' is no extent"),
        (VECADD, "x=,y=n,out=n", "'' is no extent"),
        (VECADD, "x=[n,y=n,out=n", "is no extent"),
        (VECADD, "x=99999999999999999999,y=n,out=n", "is no extent"),
        (VECADD, "x", "write it as NAME=SIZE"),
        (MATMUL, "x=[n,grid.x],y=[_,4]", "'grid.x' has no meaning"),
        (
            MATMUL,
            "x=n,y=[_,4]",
            "has 2 dimensions, and its extent 1; write x=[_, _]",
        ),
        (
            MATMUL,
            "x=[n,_],y=[_,5]",
            "has 4 elements by its type, and by its extent 5",
        ),
        (VECADD, "x=3n,y=n,out=n", "'3n' is no extent"),
        (VECADD, "x=-n,y=n,out=n", "'-n' is no extent"),
        (VECADD, "x=n-1,y=n-1,out=n", "'n-1' is no extent"),
        (
            VECADD,
            "x=grid.w,y=n,out=n",
            "'grid.w' is no size of a grid",
        ),
        // A float is no size, however near its name.
        (VECADD, "x=ss,y=n,out=n", "would be checked; write _"),
    ] {
        let error = with(text, contract).unwrap_err();
        assert!(error.contains(words), "no '{words}' in: {error}");
    }
}

#[test]
fn what_is_declared_replaces_all_that_is_proven() {
    let text = "func.func @k(%x: memref<?xf32>, %y: memref<?xf32>) {\n\
        memref.copy %x, %y : memref<?xf32> to memref<?xf32>\nreturn }";
    let module = Module::scan(text.as_bytes()).unwrap();
    let mut kernel = module.select(None).unwrap()[0].clone();
    assert_eq!(kernel.signature.bounds, Bounds::Proven);
    kernel
        .set_extents(&split("x=64").unwrap())
        .map_err(|error| error.to_string())
        .expect_err("nothing is said of the other one");
    let mut kernel = module.select(None).unwrap()[0].clone();
    kernel.set_extents(&split("x=64,y=64").unwrap()).unwrap();
    let extents: Vec<_> = kernel
        .signature
        .parameters
        .iter()
        .map(|it| it.extents.to_vec())
        .collect();
    assert_eq!(extents, vec![vec![Extent::Exactly(64)]; 2]);
}
