//! The functions of the interface, a module an object: each reads and fills a structure of `abi`.

pub(crate) mod buffers;
pub(crate) mod clients;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod programs;
#[cfg(test)]
mod tests;

/// Ends what callers were given, where that is part of an object that they hold.
pub(crate) extern "C" fn end_nothing(_kept: crate::boundary::Handle<()>) {}

/// Defines functions of the interface: their structure, and what they do with it.
macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident($arguments:ident: $type:ident) $body:block)*) => {$(
        $(#[$doc])*
        pub(crate) extern "C" fn $name(
            arguments: *mut crate::abi::$type,
        ) -> crate::boundary::Handle<crate::failure::Failure> {
            crate::boundary::enter(arguments, stringify!($name), |$arguments| $body)
        }
    )*};
}

pub(crate) use entries;
