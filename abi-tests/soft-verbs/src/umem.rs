//! Memory that queues are made over, and what this library has mapped of it.

use crate::log;
use crate::sys::*;
use crate::verbs::fail;
use crate::world::{Range, with};
use std::ffi::{c_int, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_umem_reg(
    _: *mut ibv_context,
    addr: *mut c_void,
    size: usize,
    access: u32,
) -> *mut mlx5dv_devx_umem {
    if access & 1 == 0 {
        return fail(libc::EINVAL);
    }
    if log::lacks("gpus") && crate::gpu::is_there(addr as usize) {
        return fail(libc::EFAULT);
    }
    crate::gpu::know(addr as usize);
    let umem_id = with(|world| {
        let id = world.number();
        world.umems.insert(id, Range { at: addr as usize, bytes: size });
        id
    });
    Box::into_raw(Box::new(mlx5dv_devx_umem { umem_id }))
}

/// Where `pgsz_bitmap` says that pages may have any size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_umem_reg_ex(
    context: *mut ibv_context,
    umem: *mut mlx5dv_devx_umem_in,
) -> *mut mlx5dv_devx_umem {
    // SAFETY: a caller's struct.
    let umem = unsafe { &*umem };
    log::called(&format!("mlx5dv_devx_umem_reg_ex size {:#x} comp_mask {:#x}", umem.size, umem.comp_mask));
    if umem.comp_mask & MLX5DV_UMEM_MASK_DMABUF == 0 {
        // SAFETY: the caller's.
        return unsafe { mlx5dv_devx_umem_reg(context, umem.addr, umem.size, umem.access) };
    }
    match crate::memory::mapped(umem.dmabuf_fd, umem.addr as u64, umem.size) {
        // SAFETY: the mapping above is this library's.
        Some(at) => unsafe {
            let made = mlx5dv_devx_umem_reg(context, at as *mut c_void, umem.size, umem.access);
            with(|world| world.mapped.insert((*made).umem_id, Range { at, bytes: umem.size }));
            made
        },
        None => fail(libc::EOPNOTSUPP),
    }
}

/// With data direct, which this card has not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_reg_dmabuf_mr(
    _: *mut ibv_pd,
    _offset: u64,
    _length: usize,
    _iova: u64,
    _fd: c_int,
    _access: c_int,
    _mlx5_access: c_int,
) -> *mut ibv_mr {
    fail(libc::EOPNOTSUPP)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_umem_dereg(umem: *mut mlx5dv_devx_umem) -> c_int {
    // SAFETY: made above.
    let umem = unsafe { Box::from_raw(umem) };
    with(|world| world.umems.remove(&umem.umem_id));
    forget(umem.umem_id);
    0
}

/// What was mapped for that number goes.
pub fn forget(number: u32) {
    if let Some(Range { at, bytes }) = with(|world| world.mapped.remove(&number)) {
        crate::memory::unmap(at, bytes);
    }
}
