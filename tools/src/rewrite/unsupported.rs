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

/// True for a word that [`check`] looks for.
pub fn is_trigger(word: &str) -> bool {
    WORDS.iter().any(|(name, _)| *name == word)
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
}
