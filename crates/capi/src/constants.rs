//! The constants of both interfaces, from `table/constants.txt`.
include!(concat!(env!("OUT_DIR"), "/constants.rs"));
