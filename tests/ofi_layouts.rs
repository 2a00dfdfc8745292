//! `src/transport/ofi/sys.rs` against libfabric's headers (package libfabric-dev): every field's offset, the sizes of what is written
//! whole, and every number, as a C program prints them. The official binding, ofi-libfabric-sys 0.2, does not compile against 1.17.

mod in_c;

use ginrs::transport::ofi::sys as ours;

const HEADERS: &[&str] = &["rdma/fabric", "rdma/fi_domain", "rdma/fi_endpoint", "rdma/fi_cm", "rdma/fi_eq", "rdma/fi_rma"];

/// Compares with what the C expressions come to.
fn compare(all: &[(String, u64)]) {
    in_c::compare("libfabric-dev", HEADERS, all);
}

in_c::same! {
    fid { fclass, context, ops }
    fi_ops { size, close, bind, control }
    fi_tx_attr { caps, mode, op_flags, msg_order, comp_order, inject_size, size }
    fi_rx_attr { caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size }
    fi_ep_attr { kind = type, protocol, protocol_version, max_msg_size }
    fi_domain_attr {
        domain, name, threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode, mr_key_size, cq_data_size
    }
    fi_fabric_attr { fabric, name, prov_name, prov_version, api_version }
    fi_info {
        next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle, tx_attr, rx_attr, ep_attr,
        domain_attr, fabric_attr
    }
    fid_fabric { fid, ops }
    fi_ops_fabric { size, domain, passive_ep, eq_open, wait_open, trywait }
    fid_domain { fid, ops, mr }
    fi_ops_domain { size, av_open, cq_open, endpoint }
    fi_av_attr { kind = type, rx_ctx_bits, count, ep_per_node, name, map_addr, flags }
    fid_av { fid, ops }
    fi_ops_av { size, insert }
    fi_ops_mr { size, reg }
    fid_mr { fid, mem_desc, key }
    fi_eq_attr { size, flags, wait_obj, signaling_vector, wait_set }
    fid_eq { fid, ops }
    fi_ops_eq { size, read, readerr }
    fi_eq_cm_entry { fid, info }
    fi_eq_err_entry { fid, context, data, err, prov_errno, err_data, err_data_size }
    fi_cq_attr { size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set }
    fid_cq { fid, ops }
    fi_ops_cq { size, read, readfrom, readerr, sread, sreadfrom, signal, strerror }
    fi_cq_data_entry { op_context, flags, len, buf, data }
    fi_cq_err_entry { op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data, err_data_size }
    fid_ep { fid, ops, cm, msg, rma }
    fid_pep { fid, ops, cm }
    fi_ops_cm { size, setname, getname, getpeer, connect, listen, accept, reject, shutdown }
    fi_ops_msg { size, recv, recvv, recvmsg, send, sendv, sendmsg, inject }
    fi_ops_rma { size, read, readv, readmsg, write, writev, writemsg, inject, writedata }
}

#[test]
fn numbers() {
    compare(in_c::equal! {
        FI_MSG FI_RMA FI_WRITE FI_RECV FI_SEND FI_TRANSMIT FI_REMOTE_WRITE FI_REMOTE_CQ_DATA FI_SOCKADDR_IN FI_SOCKADDR_IN6 FI_RX_CQ_DATA
        FI_REMOTE_COMM FI_ADDR_NOTAVAIL FI_CONTEXT FI_CONTEXT2 FI_MR_RMA_EVENT FI_MR_ENDPOINT FI_EP_RDM FI_RM_ENABLED FI_WAIT_NONE
        FI_MR_LOCAL FI_MR_VIRT_ADDR FI_MR_ALLOCATED FI_MR_PROV_KEY FI_ORDER_WAW FI_ORDER_SAW FI_ORDER_SAS FI_EP_MSG
        FI_PROGRESS_MANUAL FI_THREAD_DOMAIN FI_WAIT_FD FI_CQ_FORMAT_DATA FI_GETWAIT FI_ENABLE FI_CONNREQ FI_CONNECTED FI_SHUTDOWN
    });
}

#[test]
fn sizes() {
    use in_c::size as of;
    compare(&[
        of::<ours::fi_av_attr>("fi_av_attr"),
        of::<ours::fi_eq_attr>("fi_eq_attr"),
        of::<ours::fi_cq_attr>("fi_cq_attr"),
        of::<ours::fi_cq_data_entry>("fi_cq_data_entry"),
        of::<ours::fi_eq_err_entry>("fi_eq_err_entry"),
        of::<ours::fi_eq_cm_entry>("fi_eq_cm_entry"),
    ]);
    assert!(
        size_of::<ours::fi_cq_err_entry>() as u64
            >= in_c::values("libfabric-dev", HEADERS, &["sizeof(struct fi_cq_err_entry)".into()])[0]
    );
}
