//! Where the fields stand, against the widths of all members in order, as mlx5_ifc.h lists them (`-`: reserved).

use super::*;

const ADS: &str = "fl 1, free_ar 1, - 14, pkey_index 16, - 8, grh 1, mlid 7, rlid 16, ack_timeout 5, - 3, src_addr_index 8, - 4, stat_rate 4, \
    hop_limit 8, - 4, tclass 8, flow_label 20, rgid_high 64, rgid_low 64, - 4, f_dscp 1, f_ecn 1, - 1, f_eth_prio 1, ecn 2, dscp 6, \
    udp_sport 16, dei_cfi 1, eth_prio 3, sl 4, vhca_port_num 8, rmac 48";

const QPC_FIELDS: &str = "state 4, lag_tx_port_affinity 4, st 8, - 3, pm_state 2, - 1, req_e2e_credit_mode 2, offload_type 4, \
    end_padding_mode 2, - 2, wq_signature 1, block_lb_mc 1, atomic_like_write_en 1, latency_sensitive 1, - 1, drain_sigerr 1, - 2, pd 24, \
    mtu 3, log_msg_max 5, - 1, log_rq_size 4, log_rq_stride 3, no_sq 1, log_sq_size 4, - 3, ts_format 2, - 1, rlky 1, \
    ulp_stateless_offload_mode 4, counter_set_id 8, uar_page 24, - 8, user_index 24, - 3, log_page_size 5, remote_qpn 24, primary 352, \
    secondary 352, log_ack_req_freq 4, - 4, log_sra_max 3, - 2, retry_count 3, rnr_retry 3, - 1, fre 1, cur_rnr_retry 3, \
    cur_retry_count 3, - 5, - 32, - 8, next_send_psn 24, - 8, cqn_snd 24, - 8, deth_sqpn 24, - 32, - 8, last_acked_psn 24, - 8, ssn 24, - 8, \
    log_rra_max 3, - 1, atomic_mode 4, rre 1, rwe 1, rae 1, - 1, page_offset 6, - 3, cd_slave_receive 1, cd_slave_send 1, cd_master 1, - 3, \
    min_rnr_nak 5, next_rcv_psn 24, - 8, xrcd 24, - 8, cqn_rcv 24, dbr_addr 64, q_key 32, - 5, rq_type 3, srqn_rmpn_xrqn 24, - 8, rmsn 24, \
    hw_sq_wqebb_counter 16, sw_sq_wqebb_counter 16, hw_rq_counter 32, sw_rq_counter 32, - 32, - 15, cgs 1, cs_req 8, cs_res 8, \
    dc_access_key 64, - 3, dbr_umem_valid 1, - 156, dbr_umem_id 32";

const CQC_FIELDS: &str = "status 4, as_notify 1, initiator_src_dct 1, dbr_umem_valid 1, - 1, cqe_sz 3, cc 1, - 1, scqe_break_moderation_en 1, \
    oi 1, cq_period_mode 2, cqe_comp_en 1, mini_cqe_res_format 2, st 4, - 1, cqe_comp_layout 7, dbr_umem_id 32, - 20, page_offset 6, - 2, \
    mini_cqe_res_format_ext 2, cq_timestamp_format 2, - 3, log_cq_size 5, uar_page 24, - 4, cq_period 12, cq_max_count 16, - 24, c_eqn 8, \
    - 3, log_page_size 5, - 24, - 32, - 8, last_notified_index 24, - 8, last_solicit_index 24, - 8, consumer_counter 24, - 8, \
    producer_counter 24, local_partition_id 12, process_id 20, - 32, dbr_addr 64";

const CREATE_CQ: &str =
    "opcode 16, uid 16, - 16, op_mod 16, - 64, context 512, cq_umem_offset 64, cq_umem_id 32, cq_umem_valid 1, - 31, - 1408";

const CREATE_QP: &str = "opcode 16, uid 16, - 16, op_mod 16, qpc_ext 1, - 63, opt_param_mask 32, ece 32, context 1856, wq_umem_offset 64, \
    wq_umem_id 32, wq_umem_valid 1, - 31";

const HEAD: &str = "opcode 16, uid 16, - 16, op_mod 16, - 8, number 24";
const ANSWER: &str = "status 8, - 24, syndrome 32, - 8, number 24";

/// Each of a list with where it starts, and where the list ends.
fn places(list: &str) -> (Vec<(&str, Field)>, usize) {
    let mut at = 0;
    let all = list.split(',').map(|member| {
        let (name, width) = member.trim().split_once(' ').unwrap();
        let width = width.parse().unwrap();
        at += width;
        (name, Field { at: at - width, width })
    });
    let all = all.collect();
    (all, at)
}

#[track_caller]
fn stands_as_listed(list: &str, ours: &[(&str, Field)]) {
    let (theirs, _) = places(list);
    for (name, field) in ours {
        let found = theirs.iter().find(|(other, _)| other == name).unwrap_or_else(|| panic!("{name} is not listed"));
        assert_eq!(*field, found.1, "{name}");
    }
}

#[test]
fn every_field_stands_where_the_widths_before_it_end() {
    stands_as_listed(ADS, ads::ALL);
    stands_as_listed(QPC_FIELDS, qpc::ALL);
    stands_as_listed(CQC_FIELDS, cqc::ALL);
    stands_as_listed(CREATE_CQ, create_cq::ALL);
    stands_as_listed(CREATE_QP, create_qp::ALL);
    let (of_answer, of_command): (Vec<_>, Vec<_>) = head::ALL.iter().partition(|(name, _)| ["status", "syndrome"].contains(name));
    stands_as_listed(HEAD, &of_command);
    stands_as_listed(ANSWER, &of_answer);
    stands_as_listed(ANSWER, &[("number", head::number)]);
    let place = |list, name: &str| places(list).0.into_iter().find(|(other, _)| *other == name).unwrap().1.at;
    assert_eq!([place(CREATE_CQ, "context"), place(CREATE_QP, "context"), place(QPC_FIELDS, "primary")], [CQC, QPC, PATH]);
    let ends = [ADS, QPC_FIELDS, CQC_FIELDS, CREATE_CQ, CREATE_QP].map(|list| places(list).1);
    assert_eq!(ends, [0x160, 0x740, 0x200, 8 * bytes::CREATE, 8 * bytes::CREATE]);
}

#[test]
fn a_field_is_written_and_read_and_nothing_beside_it() {
    for (name, field) in [ads::ALL, qpc::ALL, cqc::ALL].concat() {
        for filler in [0, 0xff] {
            let mut bytes = [filler; 256];
            let value = 0x9e37_79b9_7f4a_7c15 >> (64 - field.width);
            field.set(&mut bytes, value);
            assert_eq!(field.get(&bytes), value, "{name}");
            let mut back = bytes;
            field.set(&mut back, if filler == 0 { 0 } else { u64::MAX >> (64 - field.width) });
            assert_eq!(back, [filler; 256], "{name}");
        }
    }
    let mut bytes = [0u8; 8];
    Field { at: 12, width: 24 }.set(&mut bytes, 0x12_3456);
    assert_eq!(bytes, [0, 0x01, 0x23, 0x45, 0x60, 0, 0, 0]);
}

#[test]
#[should_panic(expected = "0x10 in 4 bits at 0x0")]
fn a_value_that_does_not_fit_is_not_cut() {
    qpc::state.set(&mut [0; 4], 16);
}
