//! Signatures of every kind that a launcher may be generated for, as the requests of one file
//! each. What the files must satisfy is in the tests that use them.

use std::borrow::Cow;

use npu_build::digest::Digest;
use npu_build::launcher::{Artifact, Image, Kernel, Locate, Request, artifact_file_name};
use npu_runtime::{
    Bounds, Direction, ElementType, Extent, Factor, Kind, Parameter, Shape, Signature,
};

pub mod images;
mod names;

pub const ELEMENTS: [ElementType; 15] = [
    ElementType::I1,
    ElementType::I8,
    ElementType::I16,
    ElementType::I32,
    ElementType::I64,
    ElementType::Ui8,
    ElementType::Ui16,
    ElementType::Ui32,
    ElementType::Ui64,
    ElementType::Index,
    ElementType::F16,
    ElementType::Bf16,
    ElementType::F32,
    ElementType::F64,
    BLOCK,
];

/// A type without a Rust counterpart.
const BLOCK: ElementType = ElementType::bytes(16, 8);

const DIRECTIONS: [Direction; 3] = [Direction::In, Direction::Out, Direction::InOut];

/// A kernel for the cpu target; its artifact follows from its name.
pub fn kernel(name: &str, grid: bool, parameters: Vec<Parameter>) -> Kernel {
    Kernel {
        signature: Signature {
            name: Cow::Owned(name.to_owned()),
            parameters: Cow::Owned(parameters),
            grid,
            bounds: Bounds::Declared,
        },
        images: vec![images::object(name)],
    }
}

/// What stands in for an artifact: `name` is that of the kernel, or of the design that several
/// kernels belong to.
fn artifact(name: &str, extension: &str) -> Artifact {
    let digest = Digest::of(bytes_of(name, extension));
    Artifact {
        file: artifact_file_name(name, &digest, extension),
        digest,
    }
}

fn bytes_of(name: &str, extension: &str) -> Vec<u8> {
    format!("artifact of {name}.{extension}").into_bytes()
}

/// What the files of a kernel hold.
pub fn files_of(kernel: &Kernel) -> Vec<(&Artifact, Vec<u8>)> {
    let artifacts = kernel.images.iter().flat_map(Image::artifacts);
    artifacts
        .map(|artifact| {
            let (_, extension) = artifact.file.split_once('.').unwrap();
            let mut contents = [&kernel.signature.name, images::DESIGN]
                .map(|name| bytes_of(name, extension))
                .into_iter();
            let content = contents.find(|content| Digest::of(content) == artifact.digest);
            (artifact, content.unwrap())
        })
        .collect()
}

pub fn scalar(name: &str, element: ElementType) -> Parameter {
    Parameter {
        name: Cow::Owned(name.to_owned()),
        mlir_type: Cow::Owned(element.to_string()),
        kind: Kind::Scalar(element),
        extents: Cow::Borrowed(&[]),
    }
}

/// Memory of any length.
pub fn pointer(name: &str, element: ElementType, direction: Direction) -> Parameter {
    memory(name, element, Shape::Unranked, direction)
}

pub fn ranked(
    name: &str,
    element: ElementType,
    dims: &[Option<u64>],
    direction: Direction,
) -> Parameter {
    memory(
        name,
        element,
        Shape::Ranked(Cow::Owned(dims.to_vec())),
        direction,
    )
}

fn memory(name: &str, element: ElementType, shape: Shape, direction: Direction) -> Parameter {
    let mut sizes = String::new();
    match &shape {
        Shape::Unranked => sizes.push_str("*x"),
        Shape::Ranked(dims) => {
            for dim in dims.iter() {
                let size = dim.map_or("?".to_owned(), |size| size.to_string());
                sizes.push_str(&format!("{size}x"));
            }
        }
    }
    let element_name = match element {
        ElementType::Bytes { .. } => "complex<f64>",
        _ => element.name(),
    };
    Parameter {
        name: Cow::Owned(name.to_owned()),
        mlir_type: Cow::Owned(format!("memref<{sizes}{element_name}>")),
        kind: Kind::Memory {
            element,
            shape,
            direction,
        },
        extents: Cow::Borrowed(&[]),
    }
}

/// The kernel with these extents of its first arguments.
pub fn with_extents(mut kernel: Kernel, extents: &[&[Extent]]) -> Kernel {
    for (parameter, extents) in kernel.signature.parameters.to_mut().iter_mut().zip(extents) {
        parameter.extents = Cow::Owned(extents.to_vec());
    }
    kernel
}

/// Every kind of extent.
fn contracts() -> Vec<Kernel> {
    let n = Extent::AtLeast(vec![Factor::Scalar(3)].into());
    let tiles = vec![
        Factor::Grid(0),
        Factor::Number(1024),
        Factor::Grid(2),
        Factor::Scalar(3),
    ];
    let name = || Extent::Same("a rather long name, with \"quotes\"".into());
    vec![
        with_extents(
            vecadd(),
            &[
                std::slice::from_ref(&n),
                std::slice::from_ref(&n),
                &[Extent::AtLeast(tiles.into())],
            ],
        ),
        with_extents(
            matmul(),
            &[&[], &[name(), Extent::Exactly(16)], &[Extent::Any, name()]],
        ),
    ]
}

/// Kernels that nothing keeps within their arguments: their modules have unsafe functions.
fn unchecked() -> Vec<Kernel> {
    let mut kernels = counts();
    kernels.extend([vecadd(), matmul()]);
    for kernel in &mut kernels {
        kernel.signature.bounds = Bounds::Unchecked;
    }
    kernels
}

/// The file of the matrix that a crate without unsafe code can't include.
pub const UNCHECKED: &str = "unchecked";

/// A vector add in Triton's style.
pub fn vecadd() -> Kernel {
    let parameters = vec![
        pointer("a", ElementType::F32, Direction::In),
        pointer("b", ElementType::F32, Direction::In),
        pointer("c", ElementType::F32, Direction::Out),
        scalar("n", ElementType::I32),
    ];
    kernel("vecadd", true, parameters)
}

/// A matrix multiplication with shapes, the last row of which may be partly written.
pub fn matmul() -> Kernel {
    let parameters = vec![
        ranked("A", ElementType::I8, &[Some(64), Some(32)], Direction::In),
        ranked("B", ElementType::I8, &[None, Some(16)], Direction::In),
        ranked("C", ElementType::I32, &[None, None], Direction::InOut),
    ];
    kernel("MatMul", false, parameters)
}

/// Every file of the matrix: its name, and what it is made from.
pub fn files() -> Vec<(String, Request)> {
    let mut files = vec![
        ("common", vec![vecadd(), matmul()]),
        ("elements", elements()),
        ("shapes", shapes()),
        ("counts", counts()),
        ("contracts", contracts()),
        (UNCHECKED, unchecked()),
        ("keywords", names::keywords()),
        ("names", names::awkward()),
        ("npu", images::npu()),
        ("fat", images::fat()),
        ("stubs", images::stubs()),
    ]
    .into_iter()
    .map(|(name, kernels)| (name.to_owned(), request(kernels, Locate::Embed)))
    .collect::<Vec<_>>();
    let located = vec![kernel(
        "elsewhere",
        true,
        vecadd().signature.parameters.into_owned(),
    )];
    files.push(("located".to_owned(), request(located, Locate::Directory)));
    let located = images::npu().into_iter().chain(images::fat()).collect();
    let located = request(located, Locate::Directory);
    files.push(("located_images".to_owned(), located));
    let stubs = request(images::stubs(), Locate::Directory);
    files.push(("located_stubs".to_owned(), stubs));
    files
}

pub fn request(kernels: Vec<Kernel>, locate: Locate) -> Request {
    Request {
        kernels,
        locate,
        runtime_crate: npu_build::launcher::runtime_crate(),
    }
}

fn elements() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for element in ELEMENTS {
        let mut parameters = Vec::new();
        for direction in DIRECTIONS {
            parameters.push(pointer(
                &format!("p_{direction}"),
                element.clone(),
                direction,
            ));
        }
        kernels.push(kernel(&format!("memory_{element}"), true, parameters));
        if element != BLOCK {
            let parameters = vec![scalar("value", element.clone())];
            kernels.push(kernel(&format!("scalar_{element}"), false, parameters));
        }
    }
    kernels
}

fn shapes() -> Vec<Kernel> {
    let big = u64::from(u32::MAX);
    let shapes: [&[Option<u64>]; 10] = [
        &[],
        &[Some(0)],
        &[Some(1024)],
        &[None],
        &[Some(64), None],
        &[None, None],
        &[None, Some(1_048_576), None],
        &[Some(2), Some(3), Some(5), Some(7)],
        &[Some(u64::MAX)],
        &[Some(big), Some(big), Some(2), None, None],
    ];
    let mut kernels = Vec::new();
    for element in [ElementType::F32, ElementType::Bf16, BLOCK] {
        for (index, dims) in shapes.into_iter().enumerate() {
            for direction in DIRECTIONS {
                let parameters = vec![ranked("tile", element.clone(), dims, direction)];
                let name = format!("shape_{index}_{element}_{direction}");
                kernels.push(kernel(&name, index % 2 == 0, parameters));
            }
        }
        let parameter = |(index, dims): (usize, &&[Option<u64>])| {
            ranked(
                &format!("tile{index}"),
                element.clone(),
                dims,
                DIRECTIONS[index % 3],
            )
        };
        let parameters = shapes.iter().enumerate().map(parameter).collect();
        kernels.push(kernel(&format!("shapes_{element}"), true, parameters));
    }
    kernels
}

/// None to sixteen pointers and beyond, alone and with scalars, in one direction and in all.
fn counts() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for count in (0..=17).chain([40]) {
        for grid in [false, true] {
            let name = |kind: &str| format!("{kind}_{count}_{grid}");
            let directions = DIRECTIONS.into_iter().cycle().take(count);
            let mixed: Vec<Parameter> = directions
                .enumerate()
                .map(|(i, direction)| {
                    let element = ELEMENTS[i % ELEMENTS.len()].clone();
                    pointer(&format!("arg{i}"), element, direction)
                })
                .collect();
            let mut with_scalar = mixed.clone();
            with_scalar.push(scalar("n", ElementType::I32));
            kernels.push(kernel(&name("mixed"), grid, mixed));
            kernels.push(kernel(&name("with_scalar"), grid, with_scalar));
            let inputs = |i| pointer(&format!("x{i}"), ElementType::F32, Direction::In);
            kernels.push(kernel(
                &name("inputs"),
                grid,
                (0..count).map(inputs).collect(),
            ));
            let scalars = |i| scalar(&format!("s{i}"), ElementType::Index);
            kernels.push(kernel(
                &name("scalars"),
                grid,
                (0..count).map(scalars).collect(),
            ));
        }
    }
    kernels
}
