//! What callers choose of a compile: a few fields of a protobuf message that has hundreds.

use crate::failure::{Code, Failure, Outcome};

/// Replicas and partitions, and the devices that each runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompileOptions {
    pub(crate) replicas: usize,
    pub(crate) partitions: usize,
    /// Numbers of devices, those of a replica one behind the other; none where it is not said.
    pub(crate) devices: Vec<i64>,
}

// Fields of `CompileOptionsProto`, `ExecutableBuildOptionsProto`, `DeviceAssignmentProto` and its
// `ComputationDevice`, by their numbers.
const BUILD_OPTIONS: u64 = 3;
const REPLICAS: u64 = 4;
const PARTITIONS: u64 = 5;
const ASSIGNMENT: u64 = 9;
const COMPUTATIONS: u64 = 3;
const DEVICE_NUMBERS: u64 = 1;

impl CompileOptions {
    /// Reads a serialised `CompileOptionsProto`. Fields that mean nothing here are passed over.
    ///
    /// # Errors
    /// Bytes that are no message.
    pub(crate) fn parse(bytes: &[u8]) -> Outcome<CompileOptions> {
        let found = CompileOptions::read(bytes);
        found.ok_or_else(|| {
            Failure::new(Code::InvalidArgument, "the compile options are no protobuf message")
        })
    }

    fn read(bytes: &[u8]) -> Option<CompileOptions> {
        let mut options = CompileOptions { replicas: 1, partitions: 1, devices: Vec::new() };
        for (field, value) in fields(bytes)? {
            let (BUILD_OPTIONS, Field::Bytes(build)) = (field, value) else { continue };
            for (field, value) in fields(build)? {
                match (field, value) {
                    (REPLICAS, Field::Number(count)) => options.replicas = count.max(1) as usize,
                    (PARTITIONS, Field::Number(count)) => {
                        options.partitions = count.max(1) as usize;
                    }
                    (ASSIGNMENT, Field::Bytes(assignment)) => {
                        options.devices = assigned(assignment)?;
                    }
                    _ => {}
                }
            }
        }
        Some(options)
    }
}

/// Numbers of devices: a list of replicas' devices a partition, put replica by replica.
fn assigned(bytes: &[u8]) -> Option<Vec<i64>> {
    let mut partitions: Vec<Vec<i64>> = Vec::new();
    for (field, value) in fields(bytes)? {
        let (COMPUTATIONS, Field::Bytes(computation)) = (field, value) else { continue };
        let mut numbers = Vec::new();
        for (field, value) in fields(computation)? {
            match (field, value) {
                (DEVICE_NUMBERS, Field::Number(number)) => numbers.push(number as i64),
                (DEVICE_NUMBERS, Field::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        numbers.push(number(&mut packed)? as i64);
                    }
                }
                _ => {}
            }
        }
        partitions.push(numbers);
    }
    let replicas = partitions.first().map_or(0, Vec::len);
    if partitions.iter().any(|numbers| numbers.len() != replicas) {
        return None;
    }
    let of_replica = |replica: usize| partitions.iter().map(move |numbers| numbers[replica]);
    Some((0..replicas).flat_map(of_replica).collect())
}

/// The message that says which device each partition of one replica runs on.
pub(crate) fn assignment_message(devices: &[usize]) -> Vec<u8> {
    let mut message = vec![1 << 3, 1, 2 << 3];
    write_number(&mut message, devices.len() as u64);
    for &device in devices {
        let mut inside = Vec::new();
        write_number(&mut inside, device as u64);
        let mut computation = vec![(DEVICE_NUMBERS << 3 | 2) as u8];
        write_number(&mut computation, inside.len() as u64);
        computation.extend(inside);
        message.push((COMPUTATIONS << 3 | 2) as u8);
        write_number(&mut message, computation.len() as u64);
        message.extend(computation);
    }
    message
}

/// Writes a number, seven bits a byte, the lowest first.
pub(crate) fn write_number(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

/// The value of a field.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, by their numbers, in order.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = number(&mut bytes)?;
        let value = match key & 7 {
            0 => Field::Number(number(&mut bytes)?),
            1 => Field::Bytes(bytes.split_off(..8)?),
            2 => {
                let length = usize::try_from(number(&mut bytes)?).ok()?;
                Field::Bytes(bytes.split_off(..length)?)
            }
            5 => Field::Bytes(bytes.split_off(..4)?),
            _ => return None,
        };
        found.push((key >> 3, value));
    }
    Some(found)
}

/// A number of seven bits a byte, the lowest first.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for place in 0..10 {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two replicas of two partitions, on devices 0 to 3.
    const MESSAGE: [u8; 20] =
        [0x1a, 18, 0x20, 2, 0x28, 2, 0x4a, 12, 0x1a, 4, 0x0a, 2, 0, 2, 0x1a, 4, 0x08, 1, 0x08, 3];

    #[test]
    fn replicas_partitions_and_devices_are_read() {
        let options = CompileOptions::parse(&MESSAGE).expect("it is a message");
        assert_eq!((options.replicas, options.partitions), (2, 2));
        assert_eq!(options.devices, [0, 1, 2, 3]);
        let none = CompileOptions::parse(&[]).expect("it is a message");
        assert_eq!((none.replicas, none.partitions), (1, 1));
    }

    #[test]
    fn assignments_are_read_as_they_are_written() {
        let devices = [3, 200, 0];
        let assignment = assignment_message(&devices);
        assert_eq!(assigned(&assignment), Some(vec![3, 200, 0]));
    }

    #[test]
    fn damaged_messages_are_refused_or_read() {
        for end in 0..MESSAGE.len() {
            _ = CompileOptions::parse(&MESSAGE[..end]);
        }
        assert!(CompileOptions::parse(&[0x1a, 200]).is_err());
        assert!(CompileOptions::parse(&[0xff; 12]).is_err());
    }
}
