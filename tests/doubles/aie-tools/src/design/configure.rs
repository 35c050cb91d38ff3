//! The configuration of the array: what the PDI writes. For the DMA-only pass-through design it is
//! word for word what real aiecc makes; other designs get writes of the same kinds that depend on
//! everything that the real configuration depends on.

use super::{Device, Fifo, Tile};
use crate::md5::md5;
use crate::mlir::Module;
use crate::pdi::Command;

fn base((column, row): Tile) -> u32 {
    column << 25 | row << 20
}

fn words(digest: [u8; 16]) -> [u32; 8] {
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(digest.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    words
}

/// The commands that configure a device; `code` is what each core runs.
pub fn commands(module: &Module<'_>, device: &Device, code: &[(Tile, Vec<u8>)]) -> Vec<Command> {
    let mut commands = vec![Command::Nop(0), Command::Nop(0)];
    for (tile, program) in code {
        for (index, block) in program.chunks(16 * 1024).enumerate() {
            let address = base(*tile) | 0x2_0000 | (index as u32 * 32);
            commands.push(Command::Descriptor(address, words(md5(block))));
        }
    }
    let links = pass_through(device);
    for (input, output) in &links {
        commands.extend(pass_through_commands(input, output));
    }
    if links.len() != device.links.len() || device.fifos.len() != 2 * links.len() {
        // What is not written word for word is written by its digest.
        let mut identity = String::new();
        for op in module.operations(device.body.clone()) {
            let sequence = op.aie_name() == Some("runtime_sequence");
            let core = op.aie_name() == Some("core");
            if !sequence && !core {
                identity.push_str(&module.identity(op.at..op.end));
                identity.push('\n');
            }
        }
        let shim = base((0, 0)) | 0x3_f000;
        commands.push(Command::Descriptor(shim, words(md5(identity.as_bytes()))));
    }
    commands.push(Command::Nop(0));
    commands
}

/// The links from a shim through the memory tile above it and back.
fn pass_through(device: &Device) -> Vec<(&Fifo, &Fifo)> {
    let fifo = |name: &String| device.fifos.iter().find(|fifo| fifo.name == *name);
    let pairs = device.links.iter().filter_map(|link| match link {
        (from, to) if from.len() == 1 && to.len() == 1 => {
            Some((fifo(from.first()?)?, fifo(to.first()?)?))
        }
        _ => None,
    });
    pairs
        .filter(|(input, output)| {
            input.producer.1 == 0
                && input.consumers == [output.producer]
                && output.producer.1 == 1
                && output.consumers == [input.producer]
                && input.producer.0 == output.producer.0
        })
        .collect()
}

fn pass_through_commands(input: &Fifo, output: &Fifo) -> Vec<Command> {
    use Command::{Descriptor, MaskWrite, Nop, Write};
    let (shim, memory) = (base(input.producer), base(output.producer));
    let length = |fifo: &Fifo| {
        (fifo
            .object
            .elements()
            .unwrap_or(0)
            .saturating_mul(fifo.object.element_bytes())
            / 4) as u32
    };
    let (inward, outward) = (length(input), length(output));
    let descriptor = |at: u32, length: u32, address: u32, locks: u32| {
        Descriptor(memory | at, [length, address, 0, 0, 0, 0, 0, locks])
    };
    // Acquire the first lock and release the second, or the other way round.
    let (fill, drain) = (0x8141_ff40, 0x8140_ff41);
    vec![
        Write(shim | 0x1_4020, 0),
        Write(shim | 0x1_4030, 0),
        Write(memory | 0xc_0000, 2),
        Write(memory | 0xc_0010, 0),
        Write(shim | 0x1_4000, 0),
        Write(shim | 0x1_4010, 0),
        Nop(2),
        Nop(1),
        descriptor(0xa_0000, inward, 0x001a_0000, fill),
        Nop(0),
        descriptor(0xa_0040, outward, 0x003a_0000, drain),
        Nop(0),
        descriptor(0xa_0060, outward, 0x002a_4000, drain),
        Nop(0),
        descriptor(0xa_0020, inward, 0x000a_4000, fill),
        Write(memory | 0xa_0604, 0),
        MaskWrite(memory | 0xa_0600, 0, 1),
        Write(memory | 0xa_0634, 2),
        MaskWrite(memory | 0xa_0630, 0, 1),
        Write(shim | 0x3_f03c, 0x8000_0005),
        Write(shim | 0x3_f114, 0x8000_0000),
        Write(shim | 0x3_f010, 0x8000_0010),
        Write(shim | 0x3_f140, 0x8000_0000),
        Write(shim | 0x3_f008, 0xc000_0045),
        Write(shim | 0x3_f100, 0xc000_0000),
        Write(shim | 0x3_f200, 0x0f1f_0135),
        Write(memory | 0xb_0000, 0x8000_000a),
        Write(memory | 0xb_0128, 0x8000_0000),
        Write(memory | 0xb_0024, 0x8000_0000),
        Write(memory | 0xb_0100, 0x8000_0000),
        MaskWrite(shim | 0x1_f000, 0xc00, 0x400),
        MaskWrite(shim | 0x1_f004, 0x30, 0x10),
    ]
}
