//! CUDA features that the CPU device does not have, told by name before the compiler would trip over their pieces.

use super::Unit;

const WORDS: &[(&str, &str)] = &[
    ("tex1D", "textures"),
    ("tex2D", "textures"),
    ("tex3D", "textures"),
    ("tex1Dfetch", "textures"),
    ("tex2DLayered", "textures"),
    ("cudaTextureObject_t", "textures"),
    ("textureReference", "textures"),
    ("surf1Dread", "surfaces"),
    ("surf2Dread", "surfaces"),
    ("surf2Dwrite", "surfaces"),
    ("cudaSurfaceObject_t", "surfaces"),
    ("wmma", "tensor core (wmma) operations"),
];

/// Attributes that ask for clusters of blocks.
const CLUSTERS: &[&str] = &["__cluster_dims__", "__block_size__"];

/// True for a word that [`check`] looks for.
pub fn is_trigger(word: &str) -> bool {
    CLUSTERS.contains(&word) || WORDS.iter().any(|(name, _)| *name == word)
}

/// One problem for each feature, at its first use.
pub fn check(unit: &mut Unit) {
    let mut told = Vec::new();
    let names: Vec<&str> = WORDS.iter().map(|(name, _)| *name).collect();
    for i in unit.find(&names) {
        let name = unit.source.word(i);
        let Some((_, feature)) = WORDS.iter().find(|(word, _)| *word == name) else { continue };
        if name == "wmma" && !(i > 1 && (unit.source.is(i - 2, "nvcuda") || unit.source.is(i - 1, "namespace"))) {
            continue;
        }
        if unit.is_users(i) && !told.contains(feature) {
            told.push(feature);
            unit.problem(i, format!("`{name}`: {feature} are not available on the CPU device"));
        }
    }
    clusters(unit);
}

/// A cluster of more than one block shares memory that blocks of the CPU device do not share.
fn clusters(unit: &mut Unit) {
    for i in unit.find(CLUSTERS) {
        let source = unit.source;
        let Some(mut close) = source.is(i + 1, "(").then(|| source.mate(i + 1)).flatten() else { continue };
        let mut open = i + 1;
        if source.is(i, "__block_size__") {
            // The cluster's extents are its second argument: __block_size__((256), (2)).
            let second = source.mate(i + 2).filter(|&first| source.is(i + 2, "(") && source.is(first + 1, ","));
            let Some(second) = second.map(|first| first + 2) else { continue };
            (open, close) = (second, source.mate(second).unwrap_or(second + 1));
        }
        if !(open + 1..close).all(|k| matches!(source.word(k), "1" | "1u" | "1U" | ",")) {
            let written: String = source.text_of(source.span(i, close)).into();
            let fix = "fix: clusters of 1, or a kernel without clusters under #ifdef __GINRS_CPU__";
            unit.problem(i, format!("`{written}`: clusters of blocks are not available on the CPU device; {fix}"));
        }
    }
}
