//! libibverbs and libmlx5, loaded when somebody asks for a card: never linked. The functions of them that are called.

use super::sys::*;
use crate::sync::OnceBox;
use crate::sync::system::loading;
use std::ffi::{CStr, c_char, c_int, c_void};

/// A library, and the package that has it where packages are Debian's.
struct Source {
    file: &'static CStr,
    package: &'static str,
}

const VERBS: Source = Source { file: c"libibverbs.so.1", package: "libibverbs1" };
const MLX5: Source = Source { file: c"libmlx5.so.1", package: "ibverbs-providers" };

impl Source {
    fn load(&self) -> Result<*mut c_void, String> {
        // SAFETY: their constructors open no device. NODELETE: what they have given away stays good.
        let library =
            loading(|| unsafe { libc::dlopen(self.file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE) });
        if library.is_null() {
            // SAFETY: after a failure dlerror has a text of this thread's.
            let why = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text).to_string_lossy().into_owned()) };
            return Err(format!("{} | fix: install the package {}", why.unwrap_or_default(), self.package));
        }
        Ok(library)
    }

    fn lacks(&self, name: &str) -> String {
        format!("{} has no {name} | fix: a newer {} (rdma-core 28 or later)", self.file.to_string_lossy(), self.package)
    }
}

macro_rules! functions {
    ($($handle:ident of $source:ident { $($name:ident: $type:ty;)* } newer { $($new:ident: $new_type:ty;)* })*) => {
        /// The functions that are called. All are older than rdma-core 28 (libmlx5 1.11, libibverbs 1.8), but for those that may not be there.
        pub(super) struct Functions { $($(pub $name: $type,)* $(pub $new: Option<$new_type>,)*)* }

        impl Functions {
            fn load() -> Result<Self, String> {
                $(let $handle = $source.load()?;)*
                Ok(Self {
                    $(
                        // SAFETY: the symbol's type is the header's.
                        $($name: unsafe { symbol::<$type>($handle, concat!(stringify!($name), "\0")) }
                            .ok_or_else(|| $source.lacks(stringify!($name)))?,)*
                        // SAFETY: as above.
                        $($new: unsafe { symbol::<$new_type>($handle, concat!(stringify!($new), "\0")) },)*
                    )*
                })
            }
        }
    };
}

/// # Safety
/// `F` is a function pointer of the symbol's type; `name` ends with NUL; the library stays loaded.
unsafe fn symbol<F: Copy>(library: *mut c_void, name: &str) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller's.
    let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
    // SAFETY: as above; both are pointers.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

functions! {
    verbs of VERBS {
        ibv_get_device_list: unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device;
        ibv_free_device_list: unsafe extern "C" fn(*mut *mut ibv_device);
        ibv_get_device_name: unsafe extern "C" fn(*mut ibv_device) -> *const c_char;
        ibv_close_device: unsafe extern "C" fn(*mut ibv_context) -> c_int;
        ibv_query_port: unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
        ibv_query_gid: unsafe extern "C" fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
        ibv_alloc_pd: unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd;
        ibv_dealloc_pd: unsafe extern "C" fn(*mut ibv_pd) -> c_int;
        ibv_reg_mr_iova2: unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, u64, u32) -> *mut ibv_mr;
        ibv_dereg_mr: unsafe extern "C" fn(*mut ibv_mr) -> c_int;
        ibv_create_ah: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
        ibv_destroy_ah: unsafe extern "C" fn(*mut ibv_ah) -> c_int;
        ibv_get_async_event: unsafe extern "C" fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
        ibv_ack_async_event: unsafe extern "C" fn(*mut ibv_async_event);
    } newer {
        ibv_reg_dmabuf_mr: unsafe extern "C" fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;
    }
    mlx5 of MLX5 {
        mlx5dv_is_supported: unsafe extern "C" fn(*mut ibv_device) -> bool;
        mlx5dv_open_device: unsafe extern "C" fn(*mut ibv_device, *mut mlx5dv_context_attr) -> *mut ibv_context;
        mlx5dv_init_obj: unsafe extern "C" fn(*mut mlx5dv_obj, u64) -> c_int;
        mlx5dv_devx_general_cmd: unsafe extern "C" fn(*mut ibv_context, *const c_void, usize, *mut c_void, usize) -> c_int;
        mlx5dv_devx_obj_create: unsafe extern "C" fn(*mut ibv_context, *const c_void, usize, *mut c_void, usize) -> *mut mlx5dv_devx_obj;
        mlx5dv_devx_obj_modify: unsafe extern "C" fn(*mut mlx5dv_devx_obj, *const c_void, usize, *mut c_void, usize) -> c_int;
        mlx5dv_devx_obj_query: unsafe extern "C" fn(*mut mlx5dv_devx_obj, *const c_void, usize, *mut c_void, usize) -> c_int;
        mlx5dv_devx_obj_destroy: unsafe extern "C" fn(*mut mlx5dv_devx_obj) -> c_int;
        mlx5dv_devx_umem_reg: unsafe extern "C" fn(*mut ibv_context, *mut c_void, usize, u32) -> *mut mlx5dv_devx_umem;
        mlx5dv_devx_umem_dereg: unsafe extern "C" fn(*mut mlx5dv_devx_umem) -> c_int;
        mlx5dv_devx_alloc_uar: unsafe extern "C" fn(*mut ibv_context, u32) -> *mut mlx5dv_devx_uar;
        mlx5dv_devx_free_uar: unsafe extern "C" fn(*mut mlx5dv_devx_uar);
        mlx5dv_devx_query_eqn: unsafe extern "C" fn(*mut ibv_context, u32, *mut u32) -> c_int;
        mlx5dv_devx_create_event_channel: unsafe extern "C" fn(*mut ibv_context, c_int) -> *mut mlx5dv_devx_event_channel;
        mlx5dv_devx_destroy_event_channel: unsafe extern "C" fn(*mut mlx5dv_devx_event_channel);
        mlx5dv_devx_subscribe_devx_event: unsafe extern "C" fn(*mut mlx5dv_devx_event_channel, *mut mlx5dv_devx_obj, u16, *mut u16, u64) -> c_int;
        mlx5dv_devx_get_event: unsafe extern "C" fn(*mut mlx5dv_devx_event_channel, *mut c_void, usize) -> isize;
    } newer {
        mlx5dv_devx_umem_reg_ex: unsafe extern "C" fn(*mut ibv_context, *mut mlx5dv_devx_umem_in) -> *mut mlx5dv_devx_umem;
    }
}

/// The libraries, loaded once and never unloaded; or why they are not there.
pub(super) fn library() -> &'static Result<Functions, String> {
    // Whoever races to load them loads the same: no lock that a forked child could find held.
    static LOADED: OnceBox<Result<Functions, String>> = OnceBox::new();
    LOADED.get_or_init(|| Box::new(Functions::load()))
}
