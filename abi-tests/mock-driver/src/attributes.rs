//! CU_DEVICE_ATTRIBUTE_*: what an H200 says, but for what this device has not.

use crate::device;
use crate::error::{Code, Result};

const PCI_BUS: i32 = 33;
const PCI_DEVICE: i32 = 34;
const MULTICAST: i32 = 132;
const LAST: i32 = 147;

/// (number, value), measured (`facts table` on an H200 with driver 580); what is not here is 0.
/// Left out because the device here does not have it: fabric handles (128), multicast (132, but for GINRS_MOCK_MULTICAST), memory decompression (136, 137),
/// GPUDirect RDMA (110, 116 to 119), pageable memory access.
#[rustfmt::skip]
const TABLE: [(i32, i32); 92] = [
    (1, 1024), (2, 1024), (3, 1024), (4, 64), (5, 2147483647), (6, 65535), (7, 65535), (8, 49152), (9, 65536), (10, 32),
    (11, 2147483647), (12, 65536), (13, 1980000), (14, 512), (15, 1), (16, 132), (19, 1), (21, 131072), (22, 131072),
    (23, 65536), (24, 16384), (25, 16384), (26, 16384), (27, 32768), (28, 32768), (29, 2048), (30, 512), (31, 1), (32, 1),
    (36, 3201000), (37, 6016), (38, 62914560), (39, 2048), (40, 3), (41, 1), (42, 32768), (43, 2048), (44, 1), (45, 32768),
    (46, 32768), (47, 8192), (48, 8192), (49, 32768), (51, 32), (52, 32768), (53, 32768), (54, 2046), (55, 32768), (56, 131072),
    (57, 65536), (58, 16384), (59, 16384), (60, 16384), (61, 32768), (62, 2048), (63, 32768), (64, 32768), (65, 2048),
    (66, 32768), (67, 32768), (68, 2046), (69, 268435456), (70, 131072), (71, 65000), (72, 2097120), (73, 32768), (74, 32768),
    (75, 9), (77, 32768), (78, 1), (79, 1), (80, 1), (81, 233472), (82, 65536), (87, 2), (90, 1), (91, 1), (95, 1),
    (97, 232448), (99, 1), (102, 1), (103, 1), (106, 32), (108, 39321600), (109, 134217728), (111, 1024), (114, 1), (120, 1),
    (122, 1), (126, 4), (129, 1), (131, -1),
];

/// One attribute of a device.
pub fn value(attribute: i32, ordinal: usize) -> Result<i32> {
    match attribute {
        PCI_BUS => Ok(device::bus(ordinal)),
        PCI_DEVICE => Ok(0),
        MULTICAST => Ok(crate::multicast::has().into()),
        1..=LAST => Ok(TABLE.iter().find(|(number, _)| *number == attribute).map_or(0, |(_, value)| *value)),
        _ => Err(Code::INVALID_VALUE),
    }
}
