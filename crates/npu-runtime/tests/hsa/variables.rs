//! External variables: the kernel's own, or given to it; ordinary stores between launches.

use crate::designs;
use crate::emulated::{alone, calls, counters};
use crate::kernels::{self, Form, add, binary, device, image};
use npu_runtime::{Arg, Chain, Device, ElementType, Error, Grid, Image, Kernel, Npu, Runtime};
use npu_runtime::{Variable, VariableFault, Variables};

const NAME: &str = "scratch-pad-ctrl";

fn scaled_image() -> Image {
    image(&designs::scaled(), Form::FullElf, Npu::Npu2, 3)
}

fn scaled(device: &Device) -> Kernel {
    Kernel::load(device, &[scaled_image()], binary(ElementType::I32)).unwrap()
}

fn scale(kernel: &Kernel, x: &[i32]) -> Vec<i32> {
    let mut z = vec![0; x.len()];
    let args = &mut [Arg::input(x), Arg::input(x), Arg::output(&mut z)];
    kernel.launch(Grid::ONE, args).unwrap();
    z
}

fn fault(error: Error) -> VariableFault {
    match error {
        Error::Variable(error) => error.fault,
        error => panic!("{error}"),
    }
}

#[test]
fn a_kernel_brings_its_variables_along() {
    alone(&[], || {
        let device = device();
        let kernel = scaled(&device);
        let x: Vec<i32> = (0..1024).collect();
        // It is zero at first.
        assert_eq!(scale(&kernel, &x), [0; 1024]);
        let variable = kernel.variable::<i32>(NAME).unwrap();
        assert_eq!((variable.name(), variable.len()), (NAME, 1));
        for factor in [3, -7, 0] {
            variable.set(0, factor).unwrap();
            assert_eq!(variable.get(0).unwrap(), factor);
            let expected: Vec<i32> = x.iter().map(|x| x * factor).collect();
            assert_eq!(scale(&kernel, &x), expected);
        }
    });
}

#[test]
fn kernels_of_the_same_content_share_their_variables() {
    alone(&[], || {
        let device = device();
        let (first, second) = (scaled(&device), scaled(&device));
        first.variable::<i32>(NAME).unwrap().set(0, 5).unwrap();
        assert_eq!(scale(&second, &[2; 1024]), [10; 1024]);
    });
}

#[test]
fn a_variable_may_be_given_to_several_kernels() {
    alone(&[], || {
        let device = device();
        let variable = device.variable::<i32>(NAME, 4).unwrap();
        let given = Variables::new().with(&variable).unwrap();
        let load = |image| {
            let signature = binary(ElementType::I32);
            Kernel::load_with(&device, &[image], signature, &given).unwrap()
        };
        let other = designs::scaled().replace("arith.muli", "arith.addi");
        let multiplies = load(scaled_image());
        let adds = load(image(&other, Form::FullElf, Npu::Npu2, 3));
        let own = scaled(&device);
        variable.set(0, 4).unwrap();
        assert_eq!(scale(&multiplies, &[3; 1024]), [12; 1024]);
        assert_eq!(scale(&adds, &[3; 1024]), [7; 1024]);
        // One that was not given it has its own.
        assert_eq!(scale(&own, &[3; 1024]), [0; 1024]);
        // The kernels keep it.
        drop((variable, given));
        assert_eq!(scale(&multiplies, &[3; 1024]), [12; 1024]);
    });
}

#[test]
fn a_variable_may_change_between_chains() {
    alone(&[], || {
        let device = device();
        let kernel = scaled(&device);
        let factor = kernel.variable::<i32>(NAME).unwrap();
        let mut x = device.buffer_from(&[1_i32; 1024]).unwrap();
        let shared = x.share();
        let mut chain = Chain::new(&device);
        for _ in 0..3 {
            let args = [shared.input(), shared.input(), shared.output()];
            chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
        }
        for value in [2, 3] {
            factor.set(0, value).unwrap();
            chain.run().unwrap();
        }
        drop(chain);
        assert_eq!(x[..], [8 * 27; 1024]);
    });
}

#[test]
fn mistakes_are_told_before_rocr_sees_them() {
    alone(&[], || {
        let device = device();
        let refused = |name: &str, len| fault(device.variable::<i16>(name, len).unwrap_err());
        assert_eq!(refused(NAME, 3), VariableFault::Size { bytes: 6 });
        assert_eq!(refused(NAME, 0), VariableFault::Size { bytes: 0 });
        assert_eq!(refused("", 2), VariableFault::Name);
        assert_eq!(refused("a\0b", 2), VariableFault::Name);
        refused(NAME, usize::MAX);

        let variable: Variable<i32> = device.variable(NAME, 2).unwrap();
        let twice = Variables::new().with(&variable).unwrap().with(&variable);
        assert_eq!(fault(twice.unwrap_err()), VariableFault::Twice);
        let index = VariableFault::Index { index: 2, len: 2 };
        assert_eq!(fault(variable.set(2, 1).unwrap_err()), index);
        assert_eq!(fault(variable.get(2).unwrap_err()), index);

        let kernel = add(&device);
        let undefined = kernel.variable::<i32>(NAME).unwrap_err();
        assert!(undefined.to_string().contains("it has none"), "{undefined}");
        let scaled = scaled(&device);
        let error = scaled.variable::<i32>("gain").unwrap_err().to_string();
        assert!(error.contains("it has `scratch-pad-ctrl`"), "{error}");
        let element = VariableFault::Element {
            bytes: 4,
            element: 8,
        };
        assert_eq!(fault(scaled.variable::<f64>(NAME).unwrap_err()), element);

        // Given to a kernel that has none of this name.
        let gain = device.variable::<i32>("gain", 1).unwrap();
        let given = Variables::new().with(&gain).unwrap();
        let signature = binary(ElementType::I32);
        let error = Kernel::load_with(&device, &[scaled_image()], signature, &given).unwrap_err();
        assert!(matches!(fault(error), VariableFault::Undefined { .. }));
    });
}

#[test]
fn a_variable_that_is_too_small_is_refused() {
    alone(&[], || {
        let device = device();
        let two = designs::scaled().replacen(
            "  aiex.scratchpad_parameter @scale : i32\n",
            "  aiex.scratchpad_parameter @scale : i32\n  aiex.scratchpad_parameter @other : i32\n",
            1,
        );
        let image = image(&two, Form::FullElf, Npu::Npu2, 3);
        let small = device.variable::<i32>(NAME, 1).unwrap();
        let given = Variables::new().with(&small).unwrap();
        let images = [image];
        let signature = binary(ElementType::I32);
        let error = Kernel::load_with(&device, &images, signature.clone(), &given).unwrap_err();
        let VariableFault::TooSmall { needed, found, .. } = fault(error) else {
            panic!();
        };
        assert_eq!((needed, found), (8, 4));
        assert_eq!(calls(c"hsa_executable_create_alt"), 0);
        Kernel::load(&device, &images, signature).unwrap();
    });
}

#[test]
fn a_rocr_from_before_variables_is_named() {
    alone(&[("ROCR_DOUBLE_OLD", "variables")], || {
        let device = device();
        let images = [scaled_image()];
        let error = Kernel::load(&device, &images, binary(ElementType::I32)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("0x1010") && text.contains("external variables"),
            "{text}"
        );
        // The variables that were made for it are gone, and other kernels are loaded.
        assert_eq!(counters().executables.live, 0);
        add(&device);
    });
}

#[test]
fn a_heap_that_is_full_is_told() {
    alone(&[], || {
        let error = device()
            .variable::<u64>("large", 9 << 20)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("device heap") && error.contains("64 MiB"),
            "{error}"
        );
    });
}

#[test]
fn other_runtimes_have_no_variables() {
    let device = Device::open(Runtime::Cpu).unwrap();
    let error = device.variable::<f32>(NAME, 1).unwrap_err();
    assert!(error.to_string().contains("cpu"), "{error}");
    assert!(matches!(fault(error), VariableFault::Runtime { .. }));
    let _ = kernels::signature(vec![]);
}
