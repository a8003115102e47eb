//! Devices, their descriptions, their memories, and topologies.

use std::sync::Arc;

use super::{end_nothing, entries};
use crate::abi::{Known, NamedValue};
use crate::boundary::{Handle, List, Start};
use crate::client::{MEMORY_KIND, PLATFORM, PLATFORM_VERSION, Topology};

const UNKNOWN: Known = Known { number: 0, is_known: false };

fn known(number: i64) -> Known {
    Known { number, is_known: true }
}

entries! {
    device_number(arguments: DeviceNumber) {
        arguments.number = arguments.device.get()?.number as i32;
        Ok(())
    }

    /// Of the process, and of the kind of memory: there is one.
    device_zero(arguments: DeviceNumber) {
        arguments.device.get()?;
        arguments.number = 0;
        Ok(())
    }

    device_is_addressable(arguments: DeviceFlag) {
        arguments.device.get()?;
        arguments.flag = true;
        Ok(())
    }

    device_kind(arguments: DeviceText) {
        arguments.device.get()?;
        arguments.text = List::text(PLATFORM);
        Ok(())
    }

    device_name(arguments: DeviceText) {
        arguments.text = List::text(&arguments.device.get()?.name);
        Ok(())
    }

    device_attributes(arguments: DeviceAttributes) {
        (arguments.attribute_count, arguments.attributes) = (0, Start::NONE);
        Ok(())
    }

    device_known_attributes(arguments: DeviceKnownAttributes) {
        const NONE: &[NamedValue] = &[];
        arguments.device.get()?;
        arguments.attributes = List::of_static(NONE);
        (arguments.kept, arguments.end) = (Handle::NONE, end_nothing);
        Ok(())
    }

    /// Its description, or its memory: all are one object.
    device_part(arguments: DevicePart) {
        arguments.part = arguments.device;
        arguments.device.get().map(|_| ())
    }

    device_parts(arguments: DeviceParts) {
        arguments.parts = List::of(arguments.device.get()?.alone());
        Ok(())
    }

    memory_kind(arguments: DeviceText) {
        arguments.device.get()?;
        arguments.text = List::text(MEMORY_KIND);
        Ok(())
    }

    device_statistics(arguments: DeviceStatistics) {
        let [bytes, peak, buffers, largest] = arguments.device.get()?.usage.figures();
        arguments.bytes_in_use = bytes;
        arguments.peak_bytes_in_use = known(peak);
        arguments.allocations = known(buffers);
        arguments.largest_allocation = known(largest);
        arguments.bytes_limit = UNKNOWN;
        arguments.bytes_reserved = UNKNOWN;
        arguments.peak_bytes_reserved = UNKNOWN;
        arguments.bytes_reservable_limit = UNKNOWN;
        arguments.largest_free_block = UNKNOWN;
        arguments.pool_bytes = UNKNOWN;
        arguments.peak_pool_bytes = UNKNOWN;
        Ok(())
    }

    topology_create(arguments: TopologyCreate) {
        let topology = Topology::configured(std::env::var("TILEWRIGHT_DEVICES").ok())?;
        arguments.topology = Handle::give(Arc::new(topology));
        Ok(())
    }

    topology_destroy(arguments: TopologyArguments) {
        drop(arguments.topology.take());
        Ok(())
    }

    topology_platform_name(arguments: TopologyText) {
        arguments.text = List::text(PLATFORM);
        Ok(())
    }

    topology_platform_version(arguments: TopologyText) {
        arguments.text = List::text(PLATFORM_VERSION);
        Ok(())
    }

    topology_devices(arguments: TopologyDevices) {
        arguments.devices = List::of(arguments.topology.get()?.handles());
        Ok(())
    }

    topology_attributes(arguments: TopologyAttributes) {
        const NONE: &[NamedValue] = &[];
        arguments.attributes = List::of_static(NONE);
        Ok(())
    }
}
