//! What encloses a token: namespace, class, function, and whether that function runs on the device.
//!
//! Braces are enough for this, where a parse tree with errors in it is not: a brace never lies about what it encloses.

use super::source::Source;

/// What a pair of braces holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The file, a namespace or `extern "C"`.
    Namespace,
    /// Class, struct or union.
    Class,
    /// Body of a function or lambda.
    Function,
    /// Everything else: blocks, initializers, enumerators.
    Block,
}

/// Where code runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Side {
    /// On CUDA threads.
    pub device: bool,
    /// On host threads.
    pub host: bool,
    /// The body of a `__global__` function.
    pub kernel: bool,
}

struct Brace {
    open: usize,
    close: usize,
    parent: Option<usize>,
    scope: Scope,
    side: Option<Side>,
    name: String,
}

/// All braces of a text.
pub struct Scopes {
    braces: Vec<Brace>,
}

impl Scopes {
    /// Classifies every brace.
    pub fn new(source: &Source) -> Scopes {
        let mut scopes = Scopes { braces: Vec::new() };
        let mut stack: Vec<usize> = Vec::new();
        for i in 0..source.len() {
            while stack.last().is_some_and(|&b| scopes.braces[b].close <= i) {
                stack.pop();
            }
            if !source.is(i, "{") {
                continue;
            }
            let Some(close) = source.mate(i) else { continue };
            let parent = stack.last().copied();
            let outside = parent.map_or(Scope::Namespace, |p| scopes.braces[p].scope);
            let head = head_start(source, i);
            let (scope, name) = classify(source, head, i, outside);
            let side = (scope == Scope::Function).then(|| side_of(source, head, i)).filter(|s| s.device || s.host);
            stack.push(scopes.braces.len());
            scopes.braces.push(Brace { open: i, close, parent, scope, side, name });
        }
        scopes
    }

    /// The kind of scope that token `i` is in.
    pub fn scope(&self, i: usize) -> Scope {
        self.chain(i).next().map_or(Scope::Namespace, |b| b.scope)
    }

    /// True inside the body of a function, at any depth.
    pub fn in_function(&self, i: usize) -> bool {
        self.chain(i).any(|b| b.scope == Scope::Function)
    }

    /// Where token `i` runs: the innermost function or lambda that says so; the host if none does.
    pub fn side(&self, i: usize) -> Side {
        self.chain(i).find_map(|b| b.side).unwrap_or(Side { device: false, host: true, kernel: false })
    }

    /// The outermost function body around token `i`, as token indices of its braces.
    pub fn function(&self, i: usize) -> Option<(usize, usize)> {
        let chain: Vec<&Brace> = self.chain(i).collect();
        chain.iter().rev().find(|b| b.scope == Scope::Function).map(|b| (b.open, b.close))
    }

    /// The body of the `__global__` function around token `i`.
    pub fn in_kernel(&self, i: usize) -> bool {
        self.chain(i).any(|b| b.side.is_some_and(|s| s.kernel))
    }

    /// `::outer::inner::` for token `i`; None inside a class or where a class template makes the name dependent.
    pub fn namespace_path(&self, i: usize) -> Option<String> {
        let mut names = Vec::new();
        for brace in self.chain(i) {
            if brace.scope != Scope::Namespace {
                return None;
            }
            if !brace.name.is_empty() {
                names.push(brace.name.as_str());
            }
        }
        names.reverse();
        Some(names.iter().fold(String::from("::"), |path, name| path + name + "::"))
    }

    /// Braces around token `i`, inside out. A brace is not inside itself.
    fn chain(&self, i: usize) -> impl Iterator<Item = &Brace> {
        let last = self.braces.partition_point(|b| b.open < i).checked_sub(1);
        std::iter::successors(last, |&b| self.braces[b].parent)
            .map(|b| &self.braces[b])
            .filter(move |b| b.open < i && i < b.close)
    }
}

/// The first token of what the brace at `open` belongs to.
fn head_start(source: &Source, open: usize) -> usize {
    let mut at = open;
    while at > 0 {
        match source.word(at - 1) {
            ";" | "{" => break,
            // `S() : a{1}, b{2} {`: braces of member initializers belong to the head.
            "}" if at == open || source.is(at, ",") => match source.mate(at - 1) {
                Some(mate) if mate > 0 && initializes_member(source, mate) => at = mate,
                _ => break,
            },
            "}" => break,
            ")" | "]" => at = source.mate(at - 1).unwrap_or(at - 1),
            "(" | "[" => break, // a lambda or braces among arguments
            ":" if matches!(source.word(at.wrapping_sub(2)), "public" | "private" | "protected") => break,
            _ => at -= 1,
        }
    }
    at
}

/// `name{` behind the `:` or `,` of a constructor's initializers.
fn initializes_member(source: &Source, open: usize) -> bool {
    let mut at = open;
    while at > 0 {
        match source.word(at - 1) {
            "," | ":" => return true,
            ";" | "{" | "}" | ")" | "=" | "namespace" | "struct" | "class" | "union" | "enum" | "extern" => return false,
            _ => at -= 1,
        }
    }
    false
}

/// The scope that the brace at `open` makes, and the name of a namespace.
fn classify(source: &Source, head: usize, open: usize, outside: Scope) -> (Scope, String) {
    if lambda_introducer(source, head, open).is_some() {
        return (Scope::Function, String::new());
    }
    let inside_function = matches!(outside, Scope::Function | Scope::Block);
    let mut class_key = false;
    let mut at = head;
    while at < open {
        match source.word(at) {
            "namespace" => {
                let names: Vec<&str> = (at + 1..open).map(|i| source.word(i)).take_while(|w| *w != "__attribute__").collect();
                return (Scope::Namespace, names.concat().replace("inline", "").replace("[[", ""));
            }
            "template" if source.is(at + 1, "<") => at = source.close_angle(at + 1).unwrap_or(at + 1),
            "__attribute__" | "alignas" | "__align__" | "__declspec" | "decltype" | "explicit" | "noexcept" | "requires"
            | "__launch_bounds__" | "__cluster_dims__"
                if source.is(at + 1, "(") =>
            {
                at = source.mate(at + 1).unwrap_or(at + 1);
            }
            "[" => at = source.mate(at).unwrap_or(at),
            "class" | "struct" | "union" => class_key = true,
            "operator" if !inside_function => return (Scope::Function, String::new()),
            "enum" | "concept" | "=" => return (Scope::Block, String::new()),
            ":" if class_key => return (Scope::Class, String::new()),
            "(" if inside_function => return (if class_key { Scope::Class } else { Scope::Block }, String::new()),
            "(" => return (Scope::Function, String::new()),
            "extern" if source.word(at + 1).starts_with('"') && at + 2 == open => {
                return (Scope::Namespace, String::new());
            }
            _ => {}
        }
        at += 1;
    }
    (if class_key { Scope::Class } else { Scope::Block }, String::new())
}

/// The `]` that ends a lambda's capture list, if the brace at `open` is its body.
fn lambda_introducer(source: &Source, head: usize, open: usize) -> Option<usize> {
    (head..open).rev().filter(|&i| source.is(i, "]")).find(|&close| {
        let Some(capture) = source.mate(close) else { return false };
        let after_value = capture > 0
            && (matches!(source.word(capture - 1), ")" | "]" | "}" | "[" | "operator")
                || (source.kind(capture - 1) == Some(super::source::Kind::Word)
                    && !matches!(source.word(capture - 1), "return" | "co_return" | "co_yield" | "else" | "case")));
        if after_value {
            return false;
        }
        let mut at = close + 1;
        if source.is(at, "<") {
            at = source.close_angle(at).map_or(at, |end| end + 1);
        }
        while at < open && source.word(at).starts_with("__") {
            at += 1;
            if source.is(at, "(") && source.is(at - 1, "__attribute__") {
                at = source.mate(at).map_or(at, |end| end + 1);
            }
        }
        at == open || source.is(at, "(") || source.is(at, "mutable") || source.is(at, "->")
    })
}

fn side_of(source: &Source, head: usize, open: usize) -> Side {
    let from = lambda_introducer(source, head, open).unwrap_or(head);
    let mut side = Side::default();
    let mut depth_from = from;
    while depth_from < open {
        match source.word(depth_from) {
            "__global__" => side = Side { device: true, kernel: true, ..side },
            "__device__" => side.device = true,
            "__host__" => side.host = true,
            "(" => depth_from = source.mate(depth_from).unwrap_or(depth_from),
            _ => {}
        }
        depth_from += 1;
    }
    side
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scope and side of the token `here`.
    fn here(text: &str) -> (Scope, Side) {
        let source = Source::new(text.as_bytes().to_vec());
        let scopes = Scopes::new(&source);
        let i = (0..source.len()).find(|&i| source.is(i, "here")).unwrap();
        (scopes.scope(i), scopes.side(i))
    }

    const HOST: Side = Side { device: false, host: true, kernel: false };
    const DEVICE: Side = Side { device: true, host: false, kernel: false };
    const KERNEL: Side = Side { device: true, host: false, kernel: true };

    #[test]
    fn braces_of_every_kind() {
        assert_eq!(here("namespace a::b { here }"), (Scope::Namespace, HOST));
        assert_eq!(here("extern \"C\" { here }"), (Scope::Namespace, HOST));
        assert_eq!(here("extern \"C\" __global__ void k(int a) { here }"), (Scope::Function, KERNEL));
        assert_eq!(here("template<class T> struct __attribute__((packed)) S : B<sizeof(T)> { here }"), (Scope::Class, HOST));
        assert_eq!(here("struct S f(int) { if (1) { here } }"), (Scope::Block, HOST));
        assert_eq!(here("struct S { public: __device__ S() : a{1}, b{2} { here } };"), (Scope::Function, DEVICE));
        assert_eq!(here("int x = 3; int y[] = { here };"), (Scope::Block, HOST));
        assert_eq!(here("enum class E : int { here };"), (Scope::Block, HOST));
        assert_eq!(
            here("template<class T> __global__ void __launch_bounds__(128, 2) k(T) { for (;;) { here } }"),
            (Scope::Block, KERNEL)
        );
        assert_eq!(here("int f() { return 0; } int here;"), (Scope::Namespace, HOST));
        assert_eq!(here("__device__ int f(int a = 1) noexcept(true) { struct L { int here; }; }"), (Scope::Class, DEVICE));
    }

    #[test]
    fn operators_are_functions() {
        assert_eq!(here("struct S { __device__ S& operator=(const S&) { here } };"), (Scope::Function, DEVICE));
    }

    #[test]
    fn lambdas_have_a_side_of_their_own() {
        assert_eq!(here("void f() { g([=] __device__ (int i) { here }); }"), (Scope::Function, DEVICE));
        assert_eq!(here("void f() { auto l = [&]() mutable -> int { here }; }"), (Scope::Function, HOST));
        assert_eq!(here("__global__ void k() { auto l = [&](int i) { here }; }"), (Scope::Function, KERNEL));
        assert_eq!(here("auto l = [] __host__ __device__ { here };").1, Side { device: true, host: true, kernel: false });
        assert_eq!(here("void f() { a[1] = b[2]; { here } }"), (Scope::Block, HOST));
    }

    #[test]
    fn namespaces_spell_paths() {
        let source = Source::new(b"namespace a { namespace b::c { namespace { int here; } } }".to_vec());
        let i = (0..source.len()).find(|&i| source.is(i, "here")).unwrap();
        assert_eq!(Scopes::new(&source).namespace_path(i).unwrap(), "::a::b::c::");
    }
}
