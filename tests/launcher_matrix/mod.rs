//! Signatures of every kind that a launcher may be generated for, as the requests of one file
//! each. What the files must satisfy is in the tests that use them.

use std::borrow::Cow;

use npu_build::digest::Digest;
use npu_build::launcher::{Artifact, Image, Kernel, Locate, Request, artifact_file_name};
use npu_runtime::{Direction, ElementType, Kind, Parameter, Shape, Signature};

pub mod images;

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
    ElementType::Opaque,
];

const DIRECTIONS: [Direction; 3] = [Direction::In, Direction::Out, Direction::InOut];

/// Rust's reference, "Keywords" (strict, reserved and weak ones), in edition 2024.
const KEYWORDS: [&str; 58] = [
    "as",
    "break",
    "const",
    "continue",
    "crate",
    "else",
    "enum",
    "extern",
    "false",
    "fn",
    "for",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "pub",
    "ref",
    "return",
    "self",
    "Self",
    "static",
    "struct",
    "super",
    "trait",
    "true",
    "type",
    "unsafe",
    "use",
    "where",
    "while",
    "async",
    "await",
    "dyn",
    "abstract",
    "become",
    "box",
    "do",
    "final",
    "macro",
    "override",
    "priv",
    "typeof",
    "unsized",
    "virtual",
    "yield",
    "try",
    "gen",
    "macro_rules",
    "raw",
    "safe",
    "union",
    "_",
    "auto",
];

/// A kernel for the cpu target; its key and its artifact follow from its name.
pub fn kernel(name: &str, grid: bool, parameters: Vec<Parameter>) -> Kernel {
    Kernel {
        signature: Signature {
            name: Cow::Owned(name.to_owned()),
            parameters: Cow::Owned(parameters),
            grid,
        },
        key: Digest::of(name),
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
        ElementType::Opaque => "!quant.uniform<i8:f32, 2.0>",
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
    }
}

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
        ("bools", bools()),
        ("keywords", keywords()),
        ("names", awkward_names()),
        ("lints", lint_bait()),
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
    Request { kernels, locate }
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
        if element != ElementType::Opaque {
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
    for element in [ElementType::F32, ElementType::Bf16, ElementType::Opaque] {
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
            // More would be at odds with either `missing_copy_implementations` (which nobody has to
            // turn on) or `large_types_passed_by_value`.
            let count = count.min(32);
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

fn bools() -> Vec<Kernel> {
    let kernel = |count| {
        let flag = |i| scalar(&format!("flag{i}"), ElementType::I1);
        kernel(
            &format!("bools_{count}"),
            count % 2 == 0,
            (0..count).map(flag).collect(),
        )
    };
    (1..=9).map(kernel).collect()
}

/// Each keyword as a module, as a parameter and as a field.
fn keywords() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for (index, keyword) in KEYWORDS.into_iter().enumerate() {
        // `self` and `Self` come down to the same name, which must be reported, not generated.
        if keyword == "Self" {
            continue;
        }
        let one = vec![pointer(keyword, ElementType::F32, Direction::InOut)];
        kernels.push(kernel(keyword, true, one));
        let mut many = vec![scalar(keyword, ElementType::Bf16)];
        many.extend((0..7).map(|i| pointer(&format!("p{i}"), ElementType::I8, Direction::Out)));
        many.push(ranked(
            &format!("{keyword}_2"),
            ElementType::I8,
            &[None; 2],
            Direction::In,
        ));
        kernels.push(kernel(&format!("many_{index}"), true, many));
    }
    kernels
}

fn awkward_names() -> Vec<Kernel> {
    let long = "a_very_long_name_".repeat(18);
    let names = [
        "main:sequence",
        "3d-convolution",
        "add.i32$2",
        "été à la plage",
        "日本",
        "a`b``c",
        "*/ } fn main() {}",
        "line\nbreak\n    indented",
        "{{ tera }} {% raw %}",
        "\"quoted\" \\ back\tslash",
        "[link](x) <b>html</b> http://example.com",
        "\u{202e}bidi",
        "core",
        "std",
        "npu_runtime",
        "Arguments",
        &long,
    ];
    let mut kernels = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let parameters = vec![
            pointer(name, ElementType::Bf16, Direction::In),
            ranked("%weird %", ElementType::F32, &[None, None], Direction::Out),
        ];
        kernels.push(kernel(name, true, parameters));
        let mut many = vec![ranked(
            name,
            ElementType::Bf16,
            &[None, None],
            Direction::Out,
        )];
        many.extend((0..8).map(|i| scalar(&format!("{i}th"), ElementType::I32)));
        kernels.push(kernel(&format!("fields {index}"), true, many));
    }
    // Beyond what fits a line, and a type that says things of its own.
    let mut strange = pointer("x", ElementType::Opaque, Direction::In);
    let mlir_type = "memref<8x!t<\"```\n/// ` [x] <y>\">, ".to_owned() + &"strided ".repeat(40);
    strange.mlir_type = Cow::Owned(mlir_type);
    kernels.push(kernel(&"k".repeat(300), true, vec![strange]));
    kernels
}

/// Names that clippy's pedantic lints would object to if they were used as they are.
fn lint_bait() -> Vec<Kernel> {
    let f32s = |names: &[&str]| -> Vec<Parameter> {
        let pointer =
            |(i, name): (usize, &&str)| pointer(name, ElementType::F32, DIRECTIONS[i % 3]);
        names.iter().enumerate().map(pointer).collect()
    };
    let lists: [&[&str]; 16] = [
        &["A", "B", "C", "M", "N"],
        &["a", "b", "c", "d", "a_arg"],
        &["stride_am", "stride_ak", "stride_an", "grin"],
        &["args", "arg1", "argz", "arg3"],
        &["grid", "self", "launch", "load", "arguments"],
        &[
            "x_ptr", "y_ptr", "z_ptr", "u_ptr", "v_ptr", "w_ptr", "q_ptr",
        ],
        &["in_0", "in_1", "in_2", "in_3", "in_4", "in_5", "in_6"],
        &[
            "in_a", "in_b", "in_type", "in_3", "in_self", "in_fn", "in_grid",
        ],
        &[
            "arguments",
            "arguments_x",
            "y_arguments",
            "d",
            "e",
            "f",
            "g",
        ],
        &[
            "a_k",
            "b_k",
            "kernel_k",
            "arguments_k",
            "e_k",
            "f_k",
            "arg1_k",
            "0_k",
        ],
        &[
            "stride_am",
            "stride_ak",
            "stride_an",
            "stride_ax",
            "d",
            "e",
            "f",
            "g",
            "grid",
        ],
        &["lda", "ldb", "ldc", "ldd"],
        &["__a", "_b_", "c__d"],
        &["device", "kernel", "directory", "name", "key"],
        &["line", "iine", "vine", "uine"],
        &["a_shape", "b", "b_shape", "a"],
    ];
    let mut kernels = Vec::new();
    for (index, names) in lists.into_iter().enumerate() {
        kernels.push(kernel(&format!("bait_{index}"), true, f32s(names)));
        kernels.push(kernel(&format!("bait_{index}_once"), false, f32s(names)));
    }
    let mut shapes = f32s(&["a_shape", "b", "c", "d", "e", "f", "b_shape"]);
    shapes.push(ranked("a", ElementType::F32, &[None, None], Direction::In));
    kernels.push(kernel("shape_names", true, shapes));
    let shaped = |name| ranked(name, ElementType::F16, &[None, None], Direction::Out);
    let in_a = ["in_a", "in_b", "in_c", "in_d"].map(shaped);
    kernels.push(kernel("shaped_prefix", false, in_a.to_vec()));
    let x_ptr = ["x_ptr", "y_ptr", "z_ptr", "w_ptr"].map(shaped);
    kernels.push(kernel("shaped_suffix", false, x_ptr.to_vec()));
    kernels
}
