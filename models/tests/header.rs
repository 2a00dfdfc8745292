//! The producer of `src/queue.rs` stands for a header in C++: if the header's steps change, this says to look at the model.

#[test]
fn the_header_still_does_what_the_model_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../include/ginrs_device/gin/");
    let read = |name: &str| std::fs::read_to_string(format!("{path}{name}")).unwrap();
    let in_order = |text: &str, lines: &[&str]| {
        let mut from = 0;
        for line in lines {
            let at = text[from..].find(line);
            from += at.unwrap_or_else(|| panic!("{line:?} is missing or moved: compare models/src/queue.rs with the header"));
        }
    };
    let queue = read("queue.cuh");
    in_order(
        &queue,
        &[
            "cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_system)",
            "st.relaxed.sys.v2.b64",
            "bool post(",
            "queue.pis[peer]).fetch_add(1, cuda::memory_order_relaxed)",
            "hint(ctx, peer, index + 1)",
            "while (index - SystemU32(queue.cis[peer]).load(",
            ">= queue.queueSize)",
            "if (spin.aborted()) return false",
            "writeSlot(",
        ],
    );
    in_order(&queue, &["void submit(", "releasePayload(alreadyReleased)", "post(ctx, "]);
    in_order(
        &read("flush.cuh"),
        &["queue.pis[peer]).load(cuda::memory_order_relaxed)", "rollingLessEq(claimed, SystemU32(queue.cis[peer]).load(order))"],
    );
}
