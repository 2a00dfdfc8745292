//! The rewriter, text in and text out.

use ginrs_tools::rewrite::{Options, rewrite};

/// Rewritten, with runs of space made one.
fn rewritten(text: &str, options: &Options) -> String {
    let bytes = rewrite(text.as_bytes().to_vec(), options).unwrap_or_else(|p| panic!("{p:?}"));
    String::from_utf8(bytes).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn becomes(text: &str, want: &str) {
    assert_eq!(rewritten(text, &Options::default()), want);
}

fn problem(text: &str) -> String {
    rewrite(text.as_bytes().to_vec(), &Options::default()).unwrap_err()[0].to_string()
}

#[test]
fn launches_take_their_configuration_in_front() {
    becomes("void f() { k<<<1, 2>>>(3); }", "void f() { (::ginrs_cpu::Launch(\"<no file>\", 1, 1, 2 ), k(3)); }");
    becomes(
        "void f() { if (x) (k)<<<g, b, s, st>>>(); else n::k<T, (a > b)><<<{1, 2}, 3>>>(a, b); }",
        "void f() { if (x) (::ginrs_cpu::Launch(\"<no file>\", 1, g, b, s, st ), (k)()); else \
         (::ginrs_cpu::Launch(\"<no file>\", 1, {1, 2}, 3 ), n::k<T, (a > b)>(a, b)); }",
    );
    becomes(
        "void f() { a = t[i].k<<<blocks<A<B>>(n), 1>>>(x), p->template q<1><<<1, 1>>>(y); }",
        "void f() { a = (::ginrs_cpu::Launch(\"<no file>\", 1, blocks<A<B>>(n), 1 ), t[i].k(x)), \
         (::ginrs_cpu::Launch(\"<no file>\", 1, 1, 1 ), p->template q<1>(y)); }",
    );
}

#[test]
fn launches_as_some_formatters_write_them() {
    becomes(
        "void f() { k << <1, A<B<C> >::n >> > (3); }",
        "void f() { (::ginrs_cpu::Launch(\"<no file>\", 1, 1, A<B<C> >::n ), k (3)); }",
    );
}

#[test]
fn operators_of_the_device_belong_to_their_file() {
    becomes(
        "__device__ T operator+(T a, T b) { return a; }",
        "static __attribute__((unused)) T operator+(T a, T b) { return a; }",
    );
}

#[test]
fn a_launch_over_lines_and_markers_keeps_the_lines_behind_it() {
    let text = "# 5 \"a.cu\"\nvoid f() {\n  k<<<1,\n# 7 \"a.cu\"\n     2>>>(\n  3); g();\n}\n";
    let new = String::from_utf8(rewrite(text.as_bytes().to_vec(), &Options::default()).unwrap()).unwrap();
    assert!(new.contains("(::ginrs_cpu::Launch(\"a.cu\", 6, 1, 2 ), \n# 6 \"a.cu\"\n  k"), "{new}");
    assert!(new.contains("\n# 8 \"a.cu\"\n    ; g();\n"), "{new}");
}

#[test]
fn launches_inside_arguments_and_configurations() {
    becomes(
        "void f() { a<<<[&] { b<<<1, 1>>>(); return 1; }(), 2>>>([&] { c<<<3, 3>>>(); }); }",
        "void f() { (::ginrs_cpu::Launch(\"<no file>\", 1, [&] { (::ginrs_cpu::Launch(\"<no file>\", 1, 1, 1 ), b()); return 1; }(), 2 ), \
         a([&] { (::ginrs_cpu::Launch(\"<no file>\", 1, 3, 3 ), c()); })); }",
    );
}

#[test]
fn shared_variables_are_the_blocks_threads() {
    becomes(
        "__device__ void f() { __shared__ int a[4], b; }",
        "static __attribute__((unused)) void f() { static thread_local int a[4]{}, b; }",
    );
    becomes(
        "__device__ void f() { __shared__ T a[N] __attribute__((aligned(16))), b __attribute__((aligned(8))); }",
        "static __attribute__((unused)) void f() { static thread_local T a[N] __attribute__((aligned(16))){}, b __attribute__((aligned(8))); }",
    );
    becomes(
        "__host__ __device__ void f() { static __shared__ alignas(8) T a; }",
        "void f() { alignas(8) static thread_local T a; }",
    );
    becomes(
        "__host__ __device__ void f() { extern __shared__ __attribute__((aligned(16))) float a[][2]; extern __shared__ T b[], c[]; }",
        "void f() { static thread_local float (&a)[][2] = ::ginrs_cpu::DynamicShared{}; \
         static thread_local T (&b)[] = ::ginrs_cpu::DynamicShared{}, (&c)[] = ::ginrs_cpu::DynamicShared{}; }",
    );
    becomes(
        "extern __shared__ int a[]; extern __shared__ int a[];",
        "static thread_local int (&a)[] = ::ginrs_cpu::DynamicSharedOrNothing{};",
    );
}

#[test]
fn shared_arrays_lie_between_bytes_that_are_nobodys() {
    let address = Options { address: true, ..Options::default() };
    let text = rewritten("__host__ __device__ void f() { static __shared__ alignas(16) T a[4], b; }", &address);
    let parts = [
        "_t { alignas(32) char before[32];",
        "alignas(16) T a[4], b; char after[32]; }; static thread_local ginrs_cpu_fence_",
        "static thread_local auto& a = ::ginrs_cpu::fenced(ginrs_cpu_fence_",
        ").a; static thread_local auto& b = ",
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    // No array; a type of which the rest of the function may know the name.
    for plain in [
        "__host__ __device__ void f() { __shared__ int a; }",
        "__host__ __device__ void f() { __shared__ union U { int a; } u[2]; }",
    ] {
        assert_eq!(rewritten(plain, &address), rewritten(plain, &Options::default()));
    }
}

#[test]
fn device_variables_have_a_master_and_a_reference() {
    let reference = |storage: &str, name: &str| {
        format!(
            "__attribute__((unused)) {storage} decltype(ginrs_cpu_master_{name})& {name} = \
             ::ginrs_cpu::device_variable(ginrs_cpu_master_{name}, \"{name}\");"
        )
    };
    becomes("__device__ int x = 1;", &format!("static int ginrs_cpu_master_x = 1; {}", reference("static thread_local", "x")));
    let shared = Options { relocatable: true, ..Options::default() };
    assert_eq!(
        rewritten("__constant__ float c[] = {1}, d;", &shared),
        format!(
            "float ginrs_cpu_master_c[] = {{1}}, ginrs_cpu_master_d; {} {}",
            reference("thread_local", "c"),
            reference("thread_local", "d")
        )
    );
    assert_eq!(
        rewritten("extern __device__ int x, y[2], (*z)(int);", &shared),
        "extern thread_local int &x, (&y)[2], (*&z)(int);"
    );
    assert_eq!(
        rewritten("struct S { static __device__ int x; }; __device__ int S::x = 2;", &shared),
        "struct S { static thread_local int &x; }; static int ginrs_cpu_master_S__x = 2; \
         thread_local decltype(ginrs_cpu_master_S__x)& S::x = ::ginrs_cpu::device_variable(ginrs_cpu_master_S__x, \"S::x\");"
    );
}

#[test]
fn constants_and_managed_variables_stay() {
    becomes("__device__ const int a = 1;", "const int a = 1;");
    becomes("__constant__ constexpr float b[2] = {1, 2};", "constexpr float b[2] = {1, 2};");
    becomes("__managed__ int c; __device__ __managed__ int d;", "int c; int d;");
    becomes("__device__ const char* const e = 0;", "const char* const e = 0;");
    assert!(rewritten("__device__ const char* f = 0;", &Options::default()).contains("ginrs_cpu_master_f"));
}

#[test]
fn attributes_go_and_the_rest_stays() {
    becomes(
        "template <class T> __host__ __device__ __forceinline__ T f(T __restrict__ a) { return a; }",
        "template <class T> inline __attribute__((always_inline)) T f(T __restrict__ a) { return a; }",
    );
    becomes("static __forceinline__ inline __device__ int f();", "static __attribute__((always_inline)) inline int f();");
    becomes("__forceinline__ int f(int n) { return n ? f(n - 1) : 0; }", "inline int f(int n) { return n ? f(n - 1) : 0; }");
    becomes(
        "__noinline__ int f(); int g() __attribute__ ((__noinline__));",
        "__attribute__((noinline)) int f(); int g() __attribute__ ((__noinline__));",
    );
    becomes(
        "struct __align__(16) S { int __align__(sizeof(int)) x; };",
        "struct __attribute__((aligned(16))) S { int __attribute__((aligned(sizeof(int)))) x; };",
    );
    becomes("auto l = [=] __device__ (int i) { return i; };", "auto l = [=] (int i) { return i; };");
    becomes("__global__ void __launch_bounds__(128, 2) k(int);", "void k(int);");
    becomes("void f() {\n#pragma unroll 4\nfor (;;) ; }\n#pragma once\n", "void f() { for (;;) ; } #pragma once");
}

#[test]
fn kernels_name_themselves() {
    let name = |text: &str| {
        let new = rewritten(text, &Options::default());
        let from = new.find("(&").unwrap() + 2;
        new[from..from + new[from..].find(")>([=]").unwrap()].to_string()
    };
    assert_eq!(name("__global__ void k(int a = 1) { }"), "k");
    assert_eq!(name("template <class T, int N, typename... R> __global__ void k(T) { }"), "k<T, N, R...>");
    assert_eq!(name("template <class T, class = void> __global__ void k(T) { }"), "k<T>");
    assert_eq!(name("template <> __global__ void k<int>(int) { }"), "k<int>");
    assert_eq!(name("template <class T> __global__ void S<T>::k(T) { }"), "S<T>::k");
    assert_eq!(name("template <class T> template <int N> __global__ void S<T>::k(T) { }"), "S<T>::template k<N>");
    assert_eq!(name("namespace a { namespace { __global__ void k(int* k) { } } }"), "::a::k");
    let new = rewritten("__global__ void k(int a = f(1, 2), T b = {}) { g(); }", &Options::default());
    assert!(new.contains("typedef void (*ginrs_cpu_pointer)(int a , T b );"), "{new}");
    let new =
        rewritten("template <int N> __global__ void __launch_bounds__(max<N, 2>(), 2) k(int a) { g(); }", &Options::default());
    assert!(new.contains("(&k<N>), ::ginrs_cpu::bound(max<N, 2>(), 2 )>([=]"), "{new}");
}

#[test]
fn what_needs_nothing_passes_untouched() {
    let text = "# 1 \"a.cu\"\n#include_next\nint a = x << 3 >> 1; // <<<\nconst char* s = \"__device__ <<<\"; asm(\"nop\");\nstatic int y;\nvoid f() { static int z; asm volatile(\"pause\"); }\n";
    assert_eq!(rewrite(text.as_bytes().to_vec(), &Options::default()).unwrap(), text.as_bytes());
}

#[test]
fn problems_name_file_and_line() {
    assert_eq!(
        problem("# 3 \"b.cu\"\n__device__ void f() {\n  k<<<1, 1>>>();\n}\n"),
        "b.cu:4: error: a launch in device code (dynamic parallelism) is not available on the CPU device"
    );
    assert!(problem("void f() { k<<<1, 2; }").contains("without its `>>>`"));
    assert!(problem("int x = +<<<1, 2>>>(3);").contains("cannot make out what is launched"));
}

#[test]
fn stand_in_headers_become_system_headers() {
    let options = Options { own_headers: vec!["/p/include".into()], ..Options::default() };
    let text = "# 1 \"/p/include/cuda_runtime.h\" 1\n__device__ inline int f() { static int n; return n; }\n# 2 \"a.cu\" 2\n";
    let new = String::from_utf8(rewrite(text.as_bytes().to_vec(), &options).unwrap()).unwrap();
    assert!(new.starts_with("# 1 \"/p/include/cuda_runtime.h\" 1 3\n"), "{new}");
    assert!(new.contains("static int n;") && new.contains("# 2 \"a.cu\" 2\n"), "{new}");
}
