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
            "storeRelaxed(words + i, ",
            "bool waitForConsumer(",
            "rollingLessEq(end, seen = look(ci, order))",
            "fenceRelease<cuda::thread_scope_device>()",
            "storeRelaxed(cached, seen)",
            "bool waitForSlotAfterAbort(",
            "Posted post(",
            "claimNext(queue.abi.pis + peer, wrap)",
            "loadRelaxed(cached)",
            "releasePayload(alreadyReleased)",
            "index - known >= size",
            "waitForConsumer(ctx, ci, cached, peer, end, cuda::memory_order_acquire)",
            "writeSlot(",
            "ginrs_cpu_posted()",
        ],
    );
    in_order(&queue, &["Posted submit(", "post(ctx, "]);
    // models/src/card.rs: a kernel that posts to a card.
    in_order(
        &read("gdaki_queue.cuh"),
        &[
            "big16(uint16_t(word)) != uint16_t(index)",
            "int poll(",
            "cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_system)",
        ],
    );
    in_order(&read("flush.cuh"), &["loadRelaxed(queue.abi.pis + peer)", "waitUntilComplete(ctx, queue, peer, claimed, "]);
}
