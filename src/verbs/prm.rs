//! Commands to an mlx5 card, as bytes: its programmer's reference, as far as queue pairs over memory of ours need it.
//!
//! All is big-endian, and a field is told by its first bit, counted from the first byte's highest. Widths and order are those of
//! `mlx5_ifc.h`, which rdma-core (providers/mlx5), the Linux kernel (include/linux/mlx5) and DPDK (mlx5_prm.h) publish alike; the tests
//! here hold that list.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

/// Bits of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The first one.
    pub at: usize,
    /// How many, at most 64.
    pub width: usize,
}

impl Field {
    /// The field of a structure that starts at bit `base` of another.
    pub const fn within(self, base: usize) -> Self {
        Self { at: base + self.at, width: self.width }
    }

    /// Its value in `bytes`; 0 where they end before it.
    pub fn get(self, bytes: &[u8]) -> u64 {
        let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| u64::from(byte >> (7 - at % 8) & 1));
        (self.at..self.at + self.width).fold(0, |value, at| value << 1 | bit(at))
    }

    /// Writes it. A value that is wider, or a field behind the end, is a caller's error and panics.
    pub fn set(self, bytes: &mut [u8], value: u64) {
        assert!(self.width == 64 || value >> self.width == 0, "{value:#x} in {} bits at {:#x}", self.width, self.at);
        for (i, at) in (self.at..self.at + self.width).rev().enumerate() {
            let mask = 0x80 >> (at % 8);
            match value >> i & 1 {
                0 => bytes[at / 8] &= !mask,
                _ => bytes[at / 8] |= mask,
            }
        }
    }
}

macro_rules! structures {
    ($($(#[$doc:meta])* $of:ident { $($field:ident $at:literal $width:literal,)* })*) => {$(
        $(#[$doc])*
        pub mod $of {
            $(#[allow(non_upper_case_globals)] pub const $field: super::Field = super::Field { at: $at, width: $width };)*
            /// All, with their names.
            pub const ALL: &[(&str, super::Field)] = &[$((stringify!($field), $field)),*];
        }
    )*};
}

structures! {
    /// What every command begins with; an answer begins with `status` and `syndrome`. `number` is that of the queue that either is about.
    head {
        opcode 0x00 16,
        uid 0x10 16,
        op_mod 0x30 16,
        number 0x48 24,
        status 0x00 8,
        syndrome 0x20 32,
    }
    /// `address_path`: the way to a peer.
    ads {
        pkey_index 0x10 16,
        grh 0x28 1,
        mlid 0x29 7,
        rlid 0x30 16,
        ack_timeout 0x40 5,
        src_addr_index 0x48 8,
        stat_rate 0x54 4,
        hop_limit 0x58 8,
        tclass 0x64 8,
        flow_label 0x6c 20,
        rgid_high 0x80 64,
        rgid_low 0xc0 64,
        dscp 0x10a 6,
        udp_sport 0x110 16,
        eth_prio 0x121 3,
        sl 0x124 4,
        vhca_port_num 0x128 8,
        rmac 0x130 48,
    }
    /// Context of a queue pair.
    qpc {
        state 0x00 4,
        st 0x08 8,
        pm_state 0x13 2,
        pd 0x28 24,
        mtu 0x40 3,
        log_msg_max 0x43 5,
        no_sq 0x50 1,
        log_sq_size 0x51 4,
        ts_format 0x58 2,
        uar_page 0x68 24,
        user_index 0x88 24,
        log_page_size 0xa3 5,
        remote_qpn 0xa8 24,
        log_ack_req_freq 0x380 4,
        log_sra_max 0x388 3,
        retry_count 0x38d 3,
        rnr_retry 0x390 3,
        next_send_psn 0x3c8 24,
        cqn_snd 0x3e8 24,
        log_rra_max 0x488 3,
        atomic_mode 0x48c 4,
        rre 0x490 1,
        rwe 0x491 1,
        rae 0x492 1,
        cd_master 0x49f 1,
        min_rnr_nak 0x4a3 5,
        next_rcv_psn 0x4a8 24,
        cqn_rcv 0x4e8 24,
        dbr_addr 0x500 64,
        rq_type 0x565 3,
        dbr_umem_valid 0x683 1,
        dbr_umem_id 0x720 32,
    }
    /// Context of a completion queue.
    cqc {
        status 0x00 4,
        dbr_umem_valid 0x06 1,
        cqe_sz 0x08 3,
        cc 0x0b 1,
        oi 0x0e 1,
        dbr_umem_id 0x20 32,
        log_cq_size 0x63 5,
        uar_page 0x68 24,
        c_eqn 0xb8 8,
        log_page_size 0xc3 5,
        dbr_addr 0x1c0 64,
    }
    /// CREATE_CQ, of which the context starts at bit 0x80.
    create_cq {
        cq_umem_offset 0x280 64,
        cq_umem_id 0x2c0 32,
        cq_umem_valid 0x2e0 1,
    }
    /// CREATE_QP, and the changes of state as far as the context, which starts at bit 0xc0.
    create_qp {
        opt_param_mask 0x80 32,
        wq_umem_offset 0x800 64,
        wq_umem_id 0x840 32,
        wq_umem_valid 0x860 1,
    }
    /// QUERY_QP's answer, of which the context starts at bit 0xc0.
    query_qp { opt_param_mask 0x80 32, }
    /// What a card can, of QUERY_HCA_CAP's answer: the answer has it from bit 0x80 on.
    cmd_hca_cap {
        atomic 0x21e 1,
        cq_oi 0x220 1,
        cd 0x22c 1,
        rc 0x23f 1,
    }
    /// The same of RoCE.
    roce_cap { qp_ts_format 0x1e 2, }
}

/// Bit at which the context starts, in the commands and answers about queue pairs and in CREATE_CQ.
pub const QPC: usize = 0xc0;
/// Bit of that context at which the way to the peer starts.
pub const PATH: usize = 0xc0;
pub const CQC: usize = 0x80;
pub const CAPABILITY: usize = 0x80;

/// Bytes of commands and answers.
pub mod bytes {
    pub const CREATE: usize = 0x880 / 8;
    pub const MODIFY: usize = 0x880 / 8;
    pub const SHORT: usize = 16;
    pub const QUERY_QP_OUT: usize = 0x880 / 8;
    pub const CAPABILITY_OUT: usize = 16 + 0x8000 / 8;
}

/// Opcodes of commands.
pub mod opcode {
    pub const QUERY_HCA_CAP: u16 = 0x100;
    pub const CREATE_CQ: u16 = 0x400;
    pub const CREATE_QP: u16 = 0x500;
    pub const RST2INIT_QP: u16 = 0x502;
    pub const INIT2RTR_QP: u16 = 0x503;
    pub const RTR2RTS_QP: u16 = 0x504;
    pub const TO_ERR_QP: u16 = 0x507;
    pub const QUERY_QP: u16 = 0x50b;
}

// The path is for abi-tests/soft-verbs, which reads this file from elsewhere.
#[cfg(test)]
#[path = "prm/tests.rs"]
mod tests;
