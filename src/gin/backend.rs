//! Who carries out the puts of a context, and raises its signals: a context is one or the other for all ranks, because a word
//! has one home.
#![forbid(unsafe_code)]

use super::settings::asked_type;
use crate::error::Result;
use crate::transport::chaos;
use crate::{bail, config, info};

/// Of all contexts of a device communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The proxies, whatever headers a kernel was compiled with.
    Proxy,
    /// The kernels, by stores over the LSA team: all of them compiled with our headers.
    Direct,
    /// A model of a card, whose queues the kernels fill: of all device communicators of a communicator, or of none.
    Gdaki,
}

impl Backend {
    const ALL: [Self; 3] = [Self::Proxy, Self::Direct, Self::Gdaki];

    /// Name for messages and for NCCL_GIN_BACKEND.
    pub fn name(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Direct => "direct",
            Self::Gdaki => "gdaki",
        }
    }

    /// Whose signals and counters it has: those of direct contexts stand apart.
    pub(super) fn pool(self) -> usize {
        usize::from(self == Self::Direct)
    }

    /// From its number among those that ranks agree on.
    pub fn numbered(number: u64) -> Self {
        Self::ALL.into_iter().find(|one| *one as u64 == number).unwrap_or(Self::Proxy)
    }

    /// What NCCL_GIN_BACKEND asks for, or NCCL_GIN_TYPE; None for `auto`.
    pub fn asked() -> Result<Option<Self>> {
        let of_type = asked_type()?;
        let Some(text) = config::text("NCCL_GIN_BACKEND").filter(|text| !text.eq_ignore_ascii_case("auto")) else {
            return Ok(of_type.filter(|backend| *backend == Self::Gdaki));
        };
        let named = Self::ALL.into_iter().find(|backend| text.eq_ignore_ascii_case(backend.name()));
        match (named, of_type) {
            (Some(backend), Some(of_type)) if (backend == Self::Gdaki) != (of_type == Self::Gdaki) => bail!(
                InvalidUsage,
                82,
                "NCCL_GIN_BACKEND and NCCL_GIN_TYPE ask for two backends | {text}, and {} ({}) | fix: set one of them",
                config::int("NCCL_GIN_TYPE"),
                of_type.name()
            ),
            (Some(backend), _) => Ok(Some(backend)),
            (None, _) => bail!(
                InvalidUsage,
                82,
                "NCCL_GIN_BACKEND names no backend | it is \"{text}\" | fix: one of auto, proxy, direct, gdaki"
            ),
        }
    }

    /// For a device communicator whose creator wishes direct contexts or not, where `lsa_size` of `n_ranks` ranks reach each
    /// other's memory. `tag` names the communicator.
    pub fn choose(wished: bool, lsa_size: u32, n_ranks: u32, tag: &str) -> Result<Self> {
        let asked = Self::asked()?;
        if let Some(seed) = chaos::asked()? {
            // What kernels store themselves passes no proxy: nothing could be late or swapped.
            if asked == Some(Self::Direct) {
                bail!(
                    InvalidUsage,
                    chaos::WRONG,
                    "no direct GIN contexts under {0} | {tag} | NCCL_GIN_BACKEND=direct, and {0} is {seed} | fix: unset one of them",
                    chaos::NAME
                );
            }
            if asked.is_none() && wished {
                info!(INIT, "GIN {tag}: no direct contexts for GINRS_GIN_DIRECT, because {} is {seed}", chaos::NAME);
            }
            return Ok(asked.unwrap_or(Self::Proxy));
        }
        Self::decide(asked, wished, lsa_size == n_ranks).ok_or_else(|| {
            crate::error::Error::new(
                crate::error::Code::InvalidUsage,
                80,
                format!(
                    "no direct GIN contexts | {tag} | NCCL_GIN_BACKEND=direct, but an LSA team has {lsa_size} of {n_ranks} ranks | fix: set it \
                     to auto or proxy, or run where all ranks reach each other's memory"
                ),
            )
        })
    }

    /// None: it cannot be.
    fn decide(asked: Option<Self>, wished: bool, all_reach: bool) -> Option<Self> {
        match asked {
            Some(Self::Proxy) => Some(Self::Proxy),
            Some(Self::Direct) => all_reach.then_some(Self::Direct),
            Some(Self::Gdaki) => Some(Self::Gdaki),
            None if wished && all_reach => Some(Self::Direct),
            None => Some(Self::Proxy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Backend::{self, Direct, Gdaki, Proxy};

    #[test]
    fn the_variable_wins_over_the_wish_and_a_wish_is_no_demand() {
        let table = [
            ((None, false, true), Some(Proxy)),
            ((None, true, true), Some(Direct)),
            ((None, true, false), Some(Proxy)),
            ((Some(Proxy), true, true), Some(Proxy)),
            ((Some(Direct), false, true), Some(Direct)),
            ((Some(Direct), true, false), None),
            ((Some(Gdaki), true, true), Some(Gdaki)),
            ((Some(Gdaki), false, false), Some(Gdaki)),
        ];
        for ((asked, wished, all_reach), chosen) in table {
            assert_eq!(Backend::decide(asked, wished, all_reach), chosen, "{asked:?} {wished} {all_reach}");
        }
    }
}
